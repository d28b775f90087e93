//! Functions of the driver that look up textures by gradients, for which the machine has no instruction.
//!
//! A name says what one does. The texture's handle is in R4 and R5, a sampler's in R6 and R7; four words each of coordinates, of the two gradients
//! and of offsets follow, as far as registers reach, then on the stack; a depth is in R6, or behind all others where there is a sampler. R4 becomes 1,
//! as all texels are there, and the registers behind it the texel, halves in pairs.

use crate::access::Space;
use crate::core::{Core, LaneIterator};
use crate::fault::{Cause, FaultKind};
use orias_eval::float::{Format, Overflow, Rounding, convert};
use orias_eval::texture::{Detail, Geometry, Lookup, on_unit_cube};
use std::sync::LazyLock;

/// What such a function does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gradient {
    geometry: Geometry,
    halves: bool,
    sampler: bool,
    offsets: bool,
    depth: bool,
}

/// All of them, by name.
static ALL: LazyLock<Vec<(String, Gradient)>> = LazyLock::new(|| {
    let mut all = Vec::new();
    let geometries = Geometry::ALL.into_iter();
    for (name, geometry) in geometries.filter(|(_, it)| !it.has_samples()) {
        for texel in ["u32", "s32", "f32", "f16"] {
            for bits in 0..16 {
                let [resident, sampler, offsets, depth] = [1, 2, 4, 8].map(|bit| bits & bit != 0);
                let part = |there: bool, text: &'static str| if there { text } else { "" };
                let callee = format!(
                    "__cuda_syscall_tex_grad_{}{name}_v4_{texel}_f32{}{}{}",
                    part(resident, "pred_"),
                    part(sampler, "_texmode_independent"),
                    part(offsets, "_offset"),
                    part(depth, "_depth_compare"),
                );
                let gradient = Gradient {
                    geometry,
                    halves: texel == "f16",
                    sampler,
                    offsets,
                    depth,
                };
                all.push((callee, gradient));
            }
        }
    }
    all
});

/// The number of a function.
pub(crate) fn number(name: &str) -> Option<u64> {
    let found = ALL.iter().position(|(known, _)| known == name);
    found.map(|at| at as u64)
}

/// The function of a number.
pub(crate) fn numbered(number: u64) -> Option<Gradient> {
    let found = ALL.get(usize::try_from(number).ok()?);
    found.map(|(_, gradient)| *gradient)
}

/// Words of a group that is passed together.
const GROUP: u8 = 4;

/// The words that are passed to a function in each place behind the handles.
struct Passed {
    next: u8,
    stack: u64,
}

impl Passed {
    /// The next word of a lane.
    fn word(&mut self, core: &mut Core<'_>, lane: usize) -> Result<u32, Cause> {
        let end = core.context.kernel.machine.abi.arguments_end;
        if self.next < end {
            self.next += 1;
            return Ok(core.r(self.next - 1)[lane]);
        }
        let pointer = u64::from(core.r(1)[lane]);
        let word = core.load(Space::Local, lane, pointer + self.stack, 4)?;
        self.stack += 4;
        Ok(word as u32)
    }

    fn group(&mut self, core: &mut Core<'_>, lane: usize) -> Result<[u32; 4], Cause> {
        let mut words = [0; GROUP as usize];
        for word in &mut words {
            *word = self.word(core, lane)?;
        }
        Ok(words)
    }
}

/// The bits of a single in half precision.
fn half(bits: u32) -> u32 {
    let (from, to) = (Format::F32, Format::F16);
    convert::to_format(from, bits.into(), to, Rounding::NearestEven, Overflow::Ieee) as u32
}

/// Calls a function for the lanes of a mask, one after the other.
pub(crate) fn call(core: &mut Core<'_>, it: Gradient, lanes: u32) -> Result<(), Cause> {
    let first = core.context.kernel.machine.abi.first_argument;
    let mut results: [[u32; 32]; 5] = std::array::from_fn(|at| core.r(first + at as u8));
    let group = core.active;
    core.active = lanes;
    for lane in LaneIterator(lanes) {
        let refuse = |why| Cause::of(lane, FaultKind::Image(why));
        let texture = core.r(first)[lane];
        let second = core.r(first + 2)[lane];
        let mut passed = Passed {
            next: first + GROUP,
            stack: 0,
        };
        let mut coordinates = passed.group(core, lane)?;
        let gradients = [passed.group(core, lane)?, passed.group(core, lane)?];
        let offsets = match it.offsets {
            true => passed.group(core, lane)?,
            false => [0; GROUP as usize],
        };
        let reference = match (it.depth, it.sampler) {
            (false, _) => None,
            (true, false) => Some(second),
            (true, true) => Some(passed.word(core, lane)?),
        };
        let layer = match it.geometry.is_array() {
            true => {
                coordinates.rotate_left(1);
                coordinates[3]
            }
            false => 0,
        };
        let single = |words: [u32; 4]| -> [f32; 3] {
            std::array::from_fn(|axis| f32::from_bits(words[axis]))
        };
        let mut place = single(coordinates);
        if it.geometry.is_cube() {
            place = on_unit_cube(place);
        }
        let lookup = Lookup {
            coordinates: place,
            layer,
            detail: Detail::Gradients(single(gradients[0]), single(gradients[1])),
            offsets: std::array::from_fn(|axis| (offsets[axis] << 28).cast_signed() >> 28),
            reference: reference.map(f32::from_bits),
        };
        let objects = core.context.objects;
        let sampler = if it.sampler { second } else { 0 };
        let found = objects.texture(texture, sampler, it.depth);
        let (image, sampler, address) = found.map_err(refuse)?;
        image.check(it.geometry).map_err(refuse)?;
        let mut read =
            |offset: u64, bytes: u32| core.load(Space::Global, lane, address + offset, bytes);
        let texel = image.sample(sampler, &lookup, &mut read)?;
        let words = match it.halves {
            true => {
                let pair = |at: usize| half(texel[at + 1]) << 16 | half(texel[at]);
                [pair(0), pair(2), 0, 0]
            }
            false => texel,
        };
        results[0][lane] = 1;
        for (result, word) in results[1..].iter_mut().zip(words) {
            result[lane] = word;
        }
    }
    let count = if it.halves { 3 } else { 5 };
    for (at, words) in results.iter().enumerate().take(count) {
        core.put_r(first + at as u8, words);
    }
    core.active = group;
    Ok(())
}
