//! Surfaces: images by whole coordinates, to be read and written.

use super::{Geometry, Image};

/// What the first coordinate of an access counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Texels.
    Texels,
}

/// What an access outside does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outside {
    /// It stops the run.
    Trap,
    /// It goes to the nearest place inside.
    Clamp,
    /// It reads zeros and writes nothing.
    Zero,
}

/// An access to a surface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// How the access sees the surface.
    pub geometry: Geometry,
    /// What the first coordinate counts.
    pub unit: Unit,
    /// Coordinates.
    pub coordinates: [i32; 3],
    /// Which member of an array.
    pub layer: u32,
    /// How many bytes are read or written, where the first coordinate counts bytes.
    pub bytes: u32,
    /// What an access outside does.
    pub outside: Outside,
}

impl Image {
    /// The offset of an access; none where nothing is accessed. Faces of cubes are layers of an array.
    ///
    /// # Errors
    /// What is wrong with the access.
    pub fn place(&self, access: &Access) -> Result<Option<u64>, String> {
        let seen = match self.geometry {
            Geometry::Cube | Geometry::ACube => Geometry::A2,
            geometry => geometry,
        };
        if access.geometry != seen {
            return Err(format!(
                "a surface of geometry {} accessed as {}",
                self.geometry.name(),
                access.geometry.name()
            ));
        }
        let texel = self.format.bytes();
        let unit = match access.unit {
            Unit::Bytes => access.bytes,
            Unit::Texels => texel,
        };
        // An access may be wider than a texel, and a row ends where the last whole one does.
        let units = self.size[0] * texel / unit;
        let x = match access.unit {
            Unit::Texels => i64::from(access.coordinates[0]),
            Unit::Bytes if access.coordinates[0] % unit.cast_signed() != 0 => {
                let at = access.coordinates[0];
                return Err(format!("{unit} bytes of a surface at {at}, misaligned"));
            }
            Unit::Bytes => i64::from(access.coordinates[0] / unit.cast_signed()),
        };
        let limits = [
            (x, units),
            (access.coordinates[1].into(), self.size[1]),
            (access.coordinates[2].into(), self.size[2]),
            (access.layer.cast_signed().into(), self.layers()),
        ];
        let dimensions = self.geometry.dimensions();
        let mut at = [0u64; 4];
        for (axis, (index, size)) in limits.into_iter().enumerate() {
            if axis >= dimensions && !(axis == 3 && seen.is_array()) {
                continue;
            }
            let most = i64::from(size) - 1;
            at[axis] = match access.outside {
                _ if (0..=most).contains(&index) => index,
                Outside::Trap => {
                    return Err(format!("coordinate {index} of a surface of {size}"));
                }
                Outside::Zero => return Ok(None),
                // There may be no whole access in a row.
                Outside::Clamp if most < 0 => return Ok(None),
                Outside::Clamp => index.clamp(0, most),
            }
            .cast_unsigned();
        }
        let [x, y, z, layer] = at;
        let row = (layer * u64::from(self.size[2]) + z) * u64::from(self.size[1]) + y;
        let pitch = u64::from(self.size[0]) * u64::from(texel);
        Ok(Some(row * pitch + x * u64::from(unit)))
    }
}
