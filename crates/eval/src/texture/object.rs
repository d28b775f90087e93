//! Textures, samplers and surfaces by number, as handles name them.

use super::{Addressing, Filter, Image, Sampler};

/// What a handle names.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum What {
    /// An image, and how it is looked up where no sampler is named.
    Texture(Image, Sampler),
    /// How an image is looked up.
    Sampler(Sampler),
    /// An image that is written, too.
    Surface(Image),
}

impl What {
    /// The bit of a handle's high word that says that it is a texture's.
    pub const TEXTURE_TAG: u32 = 1 << 29;
    /// The same for a sampler.
    pub const SAMPLER_TAG: u32 = 1 << 30;
    /// The same for a surface.
    pub const SURFACE_TAG: u32 = 1 << 31;

    const fn tag(&self) -> u32 {
        match self {
            What::Texture(..) => Self::TEXTURE_TAG,
            What::Sampler(_) => Self::SAMPLER_TAG,
            What::Surface(_) => Self::SURFACE_TAG,
        }
    }
}

/// Something that a handle names.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Object {
    /// What it is.
    pub what: What,
    /// Where the texels of an image are.
    pub address: u64,
}

/// All that handles name. The first is number 1.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Objects {
    all: Vec<Object>,
}

impl Objects {
    /// Adds one: its handle, whose low word is its number; a bit of the high word says what it is.
    pub fn add(&mut self, object: Object) -> u64 {
        self.all.push(object);
        u64::from(object.what.tag()) << 32 | self.all.len() as u64
    }

    fn get(&self, number: u32) -> Result<&Object, String> {
        let index = (number as usize).checked_sub(1);
        let object = index.and_then(|index| self.all.get(index));
        object.ok_or_else(|| format!("number {number} names no texture, sampler or surface"))
    }

    /// A texture, how it is looked up, and where its texels are. A sampler of number 0 is the texture's own.
    ///
    /// # Errors
    /// The numbers do not name a texture and a sampler that suits it and, where texels are to be compared with something, says how.
    pub fn texture(
        &self,
        texture: u32,
        sampler: u32,
        compares: bool,
    ) -> Result<(&Image, &Sampler, u64), String> {
        let Object {
            what: What::Texture(image, own),
            address,
        } = self.get(texture)?
        else {
            return Err(format!("number {texture} names no texture"));
        };
        let sampler = match sampler {
            0 => own,
            number => match self.get(number)? {
                Object {
                    what: What::Sampler(sampler),
                    ..
                } => sampler,
                _ => return Err(format!("number {number} names no sampler")),
            },
        };
        sampler.suits(image)?;
        if compares && sampler.compare.is_none() {
            return Err("a depth to compare, and a sampler that does not say how".into());
        }
        Ok((image, sampler, *address))
    }

    /// A surface, and where its texels are.
    ///
    /// # Errors
    /// The number does not name one.
    pub fn surface(&self, number: u32) -> Result<(&Image, u64), String> {
        match self.get(number)? {
            Object {
                what: What::Surface(image),
                address,
            } => Ok((image, *address)),
            _ => Err(format!("number {number} names no surface")),
        }
    }

    /// The image of a texture or surface.
    ///
    /// # Errors
    /// The number does not name one.
    pub fn image(&self, number: u32) -> Result<&Image, String> {
        match &self.get(number)?.what {
            What::Texture(image, _) | What::Surface(image) => Ok(image),
            What::Sampler(_) => Err(format!("number {number} names a sampler, no image")),
        }
    }

    /// A property of an object.
    ///
    /// # Errors
    /// The number names nothing that has it.
    pub fn property(&self, number: u32, property: Property) -> Result<u32, String> {
        let what = self.get(number)?.what;
        let (image, sampler) = match &what {
            What::Texture(image, sampler) => (Some(image), Some(sampler)),
            What::Sampler(sampler) => (None, Some(sampler)),
            What::Surface(image) => (Some(image), None),
        };
        let lacks = || format!("number {number} names nothing with that property");
        if let Some(word) = image.and_then(|image| property.of_image(image)) {
            return Ok(word);
        }
        sampler
            .and_then(|sampler| property.of_sampler(sampler))
            .ok_or_else(lacks)
    }
}

/// What a query can ask for, beside sizes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Property {
    /// The type of a channel, numbered as in OpenCL.
    ChannelDataType,
    /// Which channels there are, numbered as in OpenCL.
    ChannelOrder,
    /// How a surface lies in memory.
    MemoryLayout,
    /// Members of an array.
    ArraySize,
    /// Whether coordinates go from 0 to 1.
    NormalisedCoordinates,
    /// Levels of detail.
    Levels,
    /// Samples of a texel.
    Samples,
    /// What is outside along a dimension.
    Addressing(usize),
    /// How texels are weighted.
    Filter,
    /// Whether coordinates are in texels whatever the texture says.
    ForceUnnormalised,
}

impl Property {
    fn of_image(self, image: &Image) -> Option<u32> {
        Some(match self {
            Property::ChannelDataType => image.format().channel_data_type(),
            Property::ChannelOrder => image.format().channel_order(),
            Property::MemoryLayout => 0,
            Property::ArraySize => image.array_size(),
            Property::Levels => image.levels(),
            Property::Samples => image.samples(),
            _ => return None,
        })
    }

    fn of_sampler(self, sampler: &Sampler) -> Option<u32> {
        Some(match self {
            Property::NormalisedCoordinates => sampler.normalised.into(),
            Property::Addressing(axis) => match sampler.addressing[axis] {
                Addressing::Wrap => 0,
                Addressing::Mirror => 1,
                Addressing::Clamp => 3,
                Addressing::Border => 4,
            },
            Property::Filter => (sampler.filter == Filter::Linear).into(),
            Property::ForceUnnormalised => (!sampler.normalised).into(),
            _ => return None,
        })
    }
}

/// A record in which the driver keeps the properties of an object, learned from what ptxas reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Record {
    /// Of a surface.
    Surface,
    /// Of a texture that is its own sampler.
    Unified,
    /// Of a texture without sampler.
    Independent,
    /// Of a sampler.
    Sampler,
}

impl Record {
    /// All of them.
    pub const ALL: [Record; 4] = [
        Record::Unified,
        Record::Independent,
        Record::Sampler,
        Record::Surface,
    ];

    /// The name under which the driver knows how large it is.
    #[must_use]
    pub const fn size_name(self) -> &'static str {
        match self {
            Record::Unified => ".nv.unified.texrefDescSize",
            Record::Independent => ".nv.independent.texrefDescSize",
            Record::Sampler => ".nv.independent.samplerrefDescSize",
            Record::Surface => ".nv.surfrefDescSize",
        }
    }

    /// Whether the driver knows how large a record is under that name.
    #[must_use]
    pub fn is_size_name(name: &str) -> bool {
        Self::ALL.iter().any(|record| record.size_name() == name)
    }

    /// Bytes of each here. How large the driver's are is not known.
    pub const BYTES: usize = 0x40;
}

impl Property {
    /// All of them.
    const ALL: [Property; 12] = [
        Property::ChannelDataType,
        Property::ChannelOrder,
        Property::MemoryLayout,
        Property::ArraySize,
        Property::NormalisedCoordinates,
        Property::Levels,
        Property::Samples,
        Property::Addressing(0),
        Property::Addressing(1),
        Property::Addressing(2),
        Property::Filter,
        Property::ForceUnnormalised,
    ];

    /// Where it stands in a record.
    #[must_use]
    pub const fn offset(self, record: Record) -> Option<usize> {
        use Record::{Independent, Sampler, Surface, Unified};
        Some(match (self, record) {
            (Property::ChannelDataType, Surface) => 0x0c,
            (Property::ChannelDataType, Unified) => 0x20,
            (Property::ChannelDataType, Independent) => 0x10,
            (Property::ChannelOrder, Surface) => 0x10,
            (Property::ChannelOrder, Unified) => 0x24,
            (Property::ChannelOrder, Independent) => 0x14,
            (Property::MemoryLayout, Surface) => 0x14,
            (Property::ArraySize, Surface) => 0x1c,
            (Property::ArraySize, Unified) => 0x28,
            (Property::ArraySize, Independent) => 0x18,
            (Property::NormalisedCoordinates, Unified) => 0x1c,
            (Property::NormalisedCoordinates, Independent) => 0x0c,
            (Property::Levels, Unified) => 0x2c,
            (Property::Levels, Independent) => 0x1c,
            (Property::Samples, Unified) => 0x30,
            (Property::Samples, Independent) => 0x20,
            (Property::Addressing(axis), Unified) => 0x0c + 4 * axis,
            (Property::Addressing(axis), Sampler) => 4 * axis,
            (Property::Filter, Unified) => 0x18,
            (Property::Filter, Sampler) => 0x0c,
            (Property::ForceUnnormalised, Sampler) => 0x10,
            _ => return None,
        })
    }
}

impl Objects {
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The records of all objects, by number.
    #[must_use]
    pub fn records(&self, record: Record) -> Vec<u8> {
        let mut bytes = vec![0; Record::BYTES * (self.all.len() + 1)];
        for (number, words) in (0u32..).zip(bytes.chunks_mut(Record::BYTES)) {
            for property in Property::ALL {
                if let (Some(at), Ok(word)) =
                    (property.offset(record), self.property(number, property))
                {
                    words[at..at + 4].copy_from_slice(&word.to_le_bytes());
                }
            }
        }
        bytes
    }
}
