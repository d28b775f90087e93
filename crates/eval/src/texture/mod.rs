//! Textures and surfaces: which texels an access means and what becomes of them.
//!
//! An [`Image`] says how texels lie in memory, a [`Sampler`] how they are looked up; [`Objects`] are those that handles name. What an
//! access yields is told by the appendix on texture fetching of CUDA's programming guide:
//!
//! | | rule |
//! | --- | --- |
//! | a normalised coordinate | times the size of the level |
//! | the nearest texel | the one at the coordinate rounded down |
//! | linear filtering | the texels on both sides of the coordinate less a half, weighted by its fraction, which is a number of eight bits behind the point rounded to the nearest, so that 1 is one of them |
//! | outside | the texel at the edge, the image again, the image mirrored, or a colour |
//! | a cube | the face of the largest component; its coordinates are the other two over the largest, from 0 to 1 |
//!
//! What the guide leaves open is decided here and not compared with the chip yet: sums of weighted texels are made in double precision and
//! rounded once for each level; a texel of weight zero does not count; fractions between levels have eight bits, too; the level is biased whoever
//! names it; channels that a format lacks are 0, the last 1; texels by integers that lie outside are 0.

mod format;
mod object;
mod place;
mod sample;
mod surface;

pub use format::{Channel, Format};
pub use object::{Object, Objects, Property, Record, What};
pub use sample::{Detail, Lookup, on_unit_cube};
pub use surface::{Access, Outside, Unit};

/// How many levels of detail an image has at most.
const MOST_LEVELS: u32 = 17;

/// The largest size of an image along a dimension.
const LARGEST: u32 = 1 << 17;

/// How an image is laid out in dimensions and layers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Geometry {
    /// A line.
    D1,
    /// A plane.
    D2,
    /// A volume.
    D3,
    /// An array of lines.
    A1,
    /// An array of planes.
    A2,
    /// The six faces of a cube.
    Cube,
    /// An array of cubes.
    ACube,
    /// A plane of texels of several samples.
    D2Ms,
    /// An array of those.
    A2Ms,
}

impl Geometry {
    /// All of them, with the names that PTX has for them.
    pub const ALL: [(&'static str, Geometry); 9] = [
        ("1d", Geometry::D1),
        ("2d", Geometry::D2),
        ("3d", Geometry::D3),
        ("a1d", Geometry::A1),
        ("a2d", Geometry::A2),
        ("cube", Geometry::Cube),
        ("acube", Geometry::ACube),
        ("2dms", Geometry::D2Ms),
        ("a2dms", Geometry::A2Ms),
    ];

    /// The geometry of a name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let known = Self::ALL.into_iter().find(|(known, _)| *known == name);
        known.map(|(_, geometry)| geometry)
    }

    /// PTX's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        let known = Self::ALL.into_iter().find(|(_, known)| *known == self);
        known.map_or("", |(name, _)| name)
    }

    /// Dimensions in which texels have neighbours.
    #[must_use]
    pub const fn dimensions(self) -> usize {
        match self {
            Geometry::D1 | Geometry::A1 => 1,
            Geometry::D3 => 3,
            _ => 2,
        }
    }

    /// Whether an index chooses among several.
    #[must_use]
    pub const fn is_array(self) -> bool {
        matches!(
            self,
            Geometry::A1 | Geometry::A2 | Geometry::ACube | Geometry::A2Ms
        )
    }

    /// Whether it consists of faces of cubes.
    #[must_use]
    pub const fn is_cube(self) -> bool {
        matches!(self, Geometry::Cube | Geometry::ACube)
    }

    /// Whether texels have several samples.
    #[must_use]
    pub const fn has_samples(self) -> bool {
        matches!(self, Geometry::D2Ms | Geometry::A2Ms)
    }
}

/// Faces of a cube.
const FACES: u32 = 6;

/// Texels in memory: level after level, in each layer after layer, rows one behind the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Image {
    geometry: Geometry,
    format: Format,
    size: [u32; 3],
    /// Members of an array; 1 if there is none.
    count: u32,
    levels: u32,
    samples: u32,
}

impl Image {
    /// An image of so many texels in each dimension, then members of an array, then samples, as far as the geometry has them; a cube has one size.
    ///
    /// # Errors
    /// Why there is no such image.
    pub fn new(
        geometry: Geometry,
        format: Format,
        sizes: &[u32],
        levels: u32,
    ) -> Result<Self, String> {
        let dimensions = match geometry.is_cube() {
            true => 1,
            false => geometry.dimensions(),
        };
        let array = usize::from(geometry.is_array());
        let wanted = dimensions + array + usize::from(geometry.has_samples());
        if sizes.len() != wanted {
            let name = geometry.name();
            return Err(format!(
                "an image of geometry {name} has {wanted} sizes, not {}",
                sizes.len()
            ));
        }
        if sizes.iter().any(|&size| size == 0 || size > LARGEST) {
            return Err(format!("sizes are 1 to {LARGEST}"));
        }
        let mut size = [1; 3];
        size[..dimensions].copy_from_slice(&sizes[..dimensions]);
        if geometry.is_cube() {
            size[1] = size[0];
        }
        let image = Self {
            geometry,
            format,
            size,
            count: if array == 1 { sizes[dimensions] } else { 1 },
            levels,
            samples: match geometry.has_samples() {
                true => sizes[wanted - 1],
                false => 1,
            },
        };
        let largest = size.into_iter().max().unwrap_or(1);
        let most = (largest.ilog2() + 1).min(MOST_LEVELS);
        if levels == 0 || levels > most || (geometry.has_samples() && levels > 1) {
            return Err(format!("such an image has at most {most} levels"));
        }
        Ok(image)
    }

    /// How its dimensions are laid out.
    #[must_use]
    pub const fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// What its texels are.
    #[must_use]
    pub const fn format(&self) -> Format {
        self.format
    }

    /// Whether an instruction for a geometry can look it up: one of its own, or a line as a plane of one row.
    ///
    /// # Errors
    /// Why not.
    pub fn check(&self, geometry: Geometry) -> Result<(), String> {
        if self.geometry == geometry || (self.geometry, geometry) == (Geometry::D1, Geometry::D2) {
            return Ok(());
        }
        let (own, other) = (self.geometry.name(), geometry.name());
        Err(format!("a texture of geometry {own} looked up as {other}"))
    }

    /// How many levels of detail it has.
    #[must_use]
    pub const fn levels(&self) -> u32 {
        self.levels
    }

    /// How many members the array has; none if it is no array.
    #[must_use]
    pub const fn array_size(&self) -> u32 {
        if self.geometry.is_array() {
            self.count
        } else {
            0
        }
    }

    /// How many samples a texel has.
    #[must_use]
    pub const fn samples(&self) -> u32 {
        self.samples
    }

    /// Layers of planes or lines: of an array, of a cube, or one.
    const fn layers(&self) -> u32 {
        self.count * if self.geometry.is_cube() { FACES } else { 1 }
    }

    /// The size of a level: it is halved from level to level.
    fn level_size(&self, level: u32) -> [u32; 3] {
        self.size.map(|size| (size >> level).max(1))
    }

    /// Texels of a level.
    fn level_texels(&self, level: u32) -> u64 {
        let inside: u64 = self.level_size(level).into_iter().map(u64::from).product();
        inside * u64::from(self.layers()) * u64::from(self.samples)
    }

    /// Texels of all levels.
    #[must_use]
    pub fn texels(&self) -> u64 {
        (0..self.levels).map(|level| self.level_texels(level)).sum()
    }

    /// Bytes of all levels.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.texels() * u64::from(self.format.bytes())
    }

    /// Where a texel lies. It must be one of the image.
    fn offset(&self, level: u32, layer: u32, at: [u32; 3], sample: u32) -> u64 {
        let before: u64 = (0..level).map(|level| self.level_texels(level)).sum();
        let [width, height, depth] = self.level_size(level).map(u64::from);
        let [x, y, z] = at.map(u64::from);
        let row = (u64::from(layer) * depth + z) * height + y;
        let texel = (row * width + x) * u64::from(self.samples) + u64::from(sample);
        (before + texel) * u64::from(self.format.bytes())
    }

    /// Width, height and depth of a level as a query tells them: the depth of an array is how many members it has.
    #[must_use]
    pub fn queried(&self, level: u32) -> [u32; 3] {
        let mut size = self.level_size(level.min(self.levels - 1));
        if self.geometry.is_array() {
            size[2] = self.count;
        }
        size
    }
}

/// How texels around a coordinate become one value.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Filter {
    /// The nearest is taken.
    #[default]
    Point,
    /// They are weighted.
    Linear,
}

/// What is at coordinates outside of an image.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Addressing {
    /// The image again.
    Wrap,
    /// The image mirrored at each edge.
    Mirror,
    /// The texel at the edge.
    #[default]
    Clamp,
    /// A colour.
    Border,
}

/// How a reference is compared with texels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Comparison {
    /// Whether the reference is less.
    Less,
    /// Whether it is less or equal.
    LessEqual,
    /// Whether it is greater.
    Greater,
    /// Whether it is greater or equal.
    GreaterEqual,
    /// Whether they are equal.
    Equal,
    /// Whether they are not.
    NotEqual,
}

impl Comparison {
    fn holds(self, reference: f32, texel: f32) -> bool {
        match self {
            Comparison::Less => reference < texel,
            Comparison::LessEqual => reference <= texel,
            Comparison::Greater => reference > texel,
            Comparison::GreaterEqual => reference >= texel,
            Comparison::Equal => reference == texel,
            Comparison::NotEqual => reference != texel,
        }
    }
}

/// How an image is looked up.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sampler {
    /// Within a level.
    pub filter: Filter,
    /// Between levels.
    pub levels: Filter,
    /// Along each dimension.
    pub addressing: [Addressing; 3],
    /// Whether coordinates go from 0 to 1.
    pub normalised: bool,
    /// What is added to a level.
    pub bias: f32,
    /// The least and the most level.
    pub range: [f32; 2],
    /// The colour outside.
    pub border: [f32; 4],
    /// How references are compared with texels, where they can be.
    pub compare: Option<Comparison>,
}

impl Default for Sampler {
    fn default() -> Self {
        Self {
            filter: Filter::Point,
            levels: Filter::Point,
            addressing: [Addressing::Clamp; 3],
            normalised: false,
            bias: 0.0,
            range: [0.0, f32::MAX],
            border: [0.0; 4],
            compare: None,
        }
    }
}

impl Sampler {
    /// Whether the driver makes such a sampler.
    ///
    /// # Errors
    /// Why not.
    pub fn check(&self) -> Result<(), String> {
        let repeats = |each: &Addressing| matches!(each, Addressing::Wrap | Addressing::Mirror);
        if !self.normalised && self.addressing.iter().any(repeats) {
            return Err("images repeat by normalised coordinates only".into());
        }
        Ok(())
    }

    /// Whether it can look up an image.
    ///
    /// # Errors
    /// Why not.
    pub fn suits(&self, image: &Image) -> Result<(), String> {
        let linear = self.filter == Filter::Linear || self.levels == Filter::Linear;
        if image.format.is_integer() && linear {
            return Err("integers are not filtered".into());
        }
        if image.format.is_integer() && self.border != [0.0; 4] {
            return Err("a colour around an image of integers".into());
        }
        if image.levels > 1 && !self.normalised {
            return Err("levels of detail take normalised coordinates".into());
        }
        if image.geometry.has_samples() && linear {
            return Err("texels of several samples are not filtered".into());
        }
        Ok(())
    }
}
