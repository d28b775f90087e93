//! Textures, samplers and surfaces among the arguments of a launch, and how they are written.
//!
//! | written | means |
//! | --- | --- |
//! | `tex:2d:f32x4:32x16:linear,normalised,wrap:rand` | a texture: geometry, format, sizes, how it is looked up, contents as those of a buffer |
//! | `surf:a1d:u32:32x4:index` | a surface; its contents are shown like a buffer's |
//! | `sampler:linear,normalised` | a sampler of its own |

use super::argument::{Argument, buffer};
use super::element::Element;
use orias_eval::texture::{
    Addressing, Channel, Comparison, Filter, Format, Geometry, Image, Sampler, What,
};

/// What an image is made of, as far as options say it.
#[derive(Default)]
struct Asked {
    sampler: Sampler,
    levels: Option<u32>,
    fractions: bool,
}

/// Reads a texture or surface behind its first word.
pub(super) fn image(text: &str, surface: bool, most: u64) -> Result<Argument, String> {
    let form = "write GEOMETRY:FORMAT:SIZES[:OPTIONS][:CONTENTS]";
    let mut parts = text.splitn(4, ':');
    let mut part = || parts.next().ok_or(form);
    let (geometry, format, sizes) = (part()?, part()?, part()?);
    let rest = parts.next().unwrap_or_default();
    let (options, contents) = match is_contents(rest) {
        true => ("", rest),
        false => rest.split_once(':').unwrap_or((rest, "")),
    };
    let Asked {
        sampler,
        levels,
        fractions,
    } = options_of(options)?;
    let geometry =
        Geometry::from_name(geometry).ok_or_else(|| format!("'{geometry}' is no geometry"))?;
    let (element, channel, count) = format_of(format)?;
    let sizes: Result<Vec<u32>, _> = sizes.split('x').map(str::parse).collect();
    let sizes = sizes.map_err(|_| "sizes are numbers with x between them".to_owned())?;
    let format = Format::new(channel, count, fractions)?;
    let image = Image::new(geometry, format, &sizes, levels.unwrap_or(1))?;
    let bytes = image.bytes();
    if bytes > most {
        return Err(format!("an image has at most {} MiB", most >> 20));
    }
    let elements = image.texels() * u64::from(count);
    let contents = match contents {
        "" => format!("{}:{elements}", element.name()),
        list if list.starts_with(['[', '@']) => format!("{}:{list}", element.name()),
        filled => format!("{}:{elements}:{filled}", element.name()),
    };
    let Argument::Buffer { element, bytes } = buffer(&contents, most)? else {
        return Err(form.into());
    };
    if bytes.len() as u64 != image.bytes() {
        let (given, wanted) = (bytes.len(), image.bytes());
        return Err(format!("{given} bytes for an image of {wanted}"));
    }
    let what = match surface {
        true if image.levels() > 1 || geometry.has_samples() || fractions => {
            return Err("a surface has one level, one sample, and texels as they are".into());
        }
        true if sampler != Sampler::default() => {
            return Err("a surface is not looked up by a sampler".into());
        }
        true => What::Surface(image),
        false => {
            sampler.check()?;
            // In the independent mode the texture's own sampler is not asked.
            What::Texture(image, sampler)
        }
    };
    Ok(Argument::Image {
        what,
        element,
        bytes,
    })
}

/// Reads a sampler behind its first word.
pub(super) fn sampler(text: &str) -> Result<Argument, String> {
    let asked = options_of(text)?;
    if asked.levels.is_some() || asked.fractions {
        return Err("levels and fractions are an image's".into());
    }
    asked.sampler.check()?;
    Ok(Argument::Image {
        what: What::Sampler(asked.sampler),
        element: Element::B8,
        bytes: Vec::new(),
    })
}

fn is_contents(text: &str) -> bool {
    let word = text.split(':').next().unwrap_or_default();
    matches!(word, "zero" | "rand" | "index" | "fill") || word.starts_with(['[', '@'])
}

/// The type of a channel, and how many a texel has: `f32x4`, `u8`.
fn format_of(text: &str) -> Result<(Element, Channel, u8), String> {
    let (name, count) = text.split_once('x').unwrap_or((text, "1"));
    let element = Element::from_name(name);
    let channel = match element {
        Some(Element::U8) => Channel::Unsigned(1),
        Some(Element::U16) => Channel::Unsigned(2),
        Some(Element::U32) => Channel::Unsigned(4),
        Some(Element::I8) => Channel::Signed(1),
        Some(Element::I16) => Channel::Signed(2),
        Some(Element::I32) => Channel::Signed(4),
        Some(Element::F16) => Channel::Half,
        Some(Element::F32) => Channel::Single,
        _ => return Err(format!("'{name}' is no type of channels")),
    };
    let count = count
        .parse()
        .map_err(|_| format!("'{count}' is no number"))?;
    Ok((element.unwrap_or(Element::F32), channel, count))
}

fn options_of(text: &str) -> Result<Asked, String> {
    let mut asked = Asked::default();
    for option in text.split(',').filter(|option| !option.is_empty()) {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        let number = |text: &str| -> Result<f32, String> {
            text.parse().map_err(|_| format!("'{text}' is no number"))
        };
        let sampler = &mut asked.sampler;
        match name {
            "point" => sampler.filter = Filter::Point,
            "linear" => sampler.filter = Filter::Linear,
            "linear-levels" => sampler.levels = Filter::Linear,
            "normalised" | "normalized" => sampler.normalised = true,
            "fractions" => asked.fractions = true,
            "levels" => {
                let count = value.parse();
                asked.levels = Some(count.map_err(|_| format!("'{value}' is no number"))?);
            }
            "bias" => sampler.bias = number(value)?,
            "range" => {
                let ends = value.split_once("..").ok_or("write range=LEAST..MOST")?;
                sampler.range = [number(ends.0)?, number(ends.1)?];
            }
            "colour" => {
                let mut channels = value.split('/');
                for channel in &mut sampler.border {
                    *channel = number(channels.next().ok_or("write colour=R/G/B/A")?)?;
                }
            }
            "compare" => sampler.compare = Some(comparison(value)?),
            "anisotropy" => return Err("anisotropic filtering is not emulated".into()),
            modes => {
                let modes: Result<Vec<Addressing>, String> =
                    modes.split('+').map(addressing).collect();
                let modes = modes?;
                // What is said last goes for all further dimensions.
                for (at, mode) in sampler.addressing.iter_mut().enumerate() {
                    *mode = modes[at.min(modes.len() - 1)];
                }
            }
        }
    }
    Ok(asked)
}

fn addressing(name: &str) -> Result<Addressing, String> {
    Ok(match name {
        "wrap" => Addressing::Wrap,
        "mirror" => Addressing::Mirror,
        "clamp" => Addressing::Clamp,
        "border" => Addressing::Border,
        _ => return Err(format!("'{name}' is no option of a texture")),
    })
}

fn comparison(name: &str) -> Result<Comparison, String> {
    Ok(match name {
        "lt" => Comparison::Less,
        "le" => Comparison::LessEqual,
        "gt" => Comparison::Greater,
        "ge" => Comparison::GreaterEqual,
        "eq" => Comparison::Equal,
        "ne" => Comparison::NotEqual,
        _ => return Err(format!("'{name}' is no comparison")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_read() {
        let read = |text: &str| Argument::parse(text).unwrap();
        let Argument::Image { what, bytes, .. } =
            read("tex:a2d:u8x4:8x4x3:linear,normalised,fractions,wrap+mirror,levels=3:rand:7")
        else {
            panic!("an image");
        };
        assert_eq!(bytes.len(), 4 * 3 * (8 * 4 + 4 * 2 + 2));
        let What::Texture(image, sampler) = what else {
            panic!("a texture");
        };
        assert_eq!((image.levels(), image.array_size()), (3, 3));
        let modes = [Addressing::Wrap, Addressing::Mirror, Addressing::Mirror];
        assert_eq!(
            (sampler.filter, sampler.addressing),
            (Filter::Linear, modes)
        );
        assert_eq!(read("surf:1d:u32:3:[1,2,3]").bytes().len(), 12);
        assert_eq!(read("sampler:linear").bytes(), b"");
    }

    #[test]
    fn what_is_wrong_with_an_image_is_named() {
        for (text, why) in [
            ("tex:4d:f32:8", "no geometry"),
            ("tex:2d:f32:8", "has 2 sizes"),
            ("tex:1d:f64:8", "no type of channels"),
            ("tex:1d:f32x3:8", "1, 2 or 4 channels"),
            ("tex:1d:f32:8:wrap", "normalised coordinates"),
            (
                "tex:1d:f32:8:anisotropy=4",
                "anisotropic filtering is not emulated",
            ),
            ("tex:1d:f32:8:smooth", "no option"),
            ("tex:1d:f32:8:levels=9,normalised", "at most 4 levels"),
            ("tex:1d:f32:8:[1,2]", "8 bytes for an image of 32"),
            ("surf:1d:u32:8:linear", "by a sampler"),
        ] {
            let found = Argument::parse(text).unwrap_err();
            assert!(found.contains(why), "{text}: {found}");
        }
    }
}
