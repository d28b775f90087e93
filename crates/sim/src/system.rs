//! Functions of the system that kernels call: `vprintf`, `malloc`, `free`, `__assertfail`.
//!
//! Arguments stand in R4 and the registers after it, the result in R4 and R5, as the CUDA ABI has it.

use crate::core::{Core, LaneIterator};
use crate::fault::{Cause, FaultKind};
use orias_eval::printf;

/// Longest string that is read from device memory.
const MOST_TEXT: usize = 1 << 16;

/// Calls a function for the lanes of a mask, one after the other.
pub(crate) fn call(core: &mut Core<'_>, name: &str, lanes: u32) -> Result<(), Cause> {
    let mut low = core.r(4);
    let mut high = core.r(5);
    let group = core.active;
    core.active = lanes;
    for lane in LaneIterator(lanes) {
        let result = match name {
            "malloc" => {
                let length = wide(core, 4, lane);
                core.context
                    .heap
                    .lock()
                    .map_or(0, |mut heap| heap.allocate(length))
            }
            "free" => {
                let address = wide(core, 4, lane);
                let known = core
                    .context
                    .heap
                    .lock()
                    .is_ok_and(|mut heap| heap.release(address));
                if !known {
                    let reason = format!("free of {address:#x}, which malloc did not return");
                    return Err(Cause::of(lane, FaultKind::Unsupported(reason)));
                }
                0
            }
            "__assertfail" => {
                let message = text(core, lane, 4)?;
                let file = text(core, lane, 6)?;
                let line = core.r(8)[lane];
                let function = text(core, lane, 10)?;
                let say = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                return Err(Cause::of(
                    lane,
                    FaultKind::Assertion(format!(
                        "{}:{line}: {}: {}",
                        say(&file),
                        say(&function),
                        say(&message)
                    )),
                ));
            }
            "vprintf" => {
                let format = text(core, lane, 4)?;
                let arguments = wide(core, 6, lane);
                let written = print(core, lane, &format, arguments)?;
                u64::from(written)
            }
            other => {
                return Err(Cause::of(lane, FaultKind::SystemCall(other.to_owned())));
            }
        };
        low[lane] = result as u32;
        high[lane] = (result >> 32) as u32;
    }
    core.put_r(4, &low);
    if name == "malloc" {
        core.put_r(5, &high);
    }
    core.active = group;
    Ok(())
}

/// A register pair of a lane.
fn wide(core: &mut Core<'_>, first: u8, lane: usize) -> u64 {
    u64::from(core.r(first + 1)[lane]) << 32 | u64::from(core.r(first)[lane])
}

/// The string, up to its zero, whose address is in a register pair.
fn text(core: &mut Core<'_>, lane: usize, register: u8) -> Result<Vec<u8>, Cause> {
    let address = wide(core, register, lane);
    string(core, lane, address)
}

/// The string at an address, up to its zero.
fn string(core: &mut Core<'_>, lane: usize, address: u64) -> Result<Vec<u8>, Cause> {
    let mut bytes = Vec::new();
    if address == 0 {
        return Ok(b"(null)".to_vec());
    }
    while bytes.len() < MOST_TEXT {
        let at = address + bytes.len() as u64;
        match core.load_generic(lane, at, 1)? as u8 {
            0 => break,
            byte => bytes.push(byte),
        }
    }
    Ok(bytes)
}

/// Formats and appends; the number of arguments, as `printf` of CUDA returns.
fn print(core: &mut Core<'_>, lane: usize, format: &[u8], arguments: u64) -> Result<u32, Cause> {
    let mut places = printf::Arguments::new(arguments);
    let cell = std::cell::RefCell::new(core);
    let text = printf::format(
        format,
        &mut |size| {
            let address = places.next(size);
            let mut core = cell.borrow_mut();
            core.load_generic(lane, address, size as u32).ok()
        },
        &mut |address| string(&mut cell.borrow_mut(), lane, address).ok(),
    );
    let core = cell.into_inner();
    let text =
        text.map_err(|problem| Cause::of(lane, FaultKind::Unsupported(problem.to_string())))?;
    if let Ok(mut printed) = core.context.printed.lock() {
        printed.extend_from_slice(&text.bytes);
    }
    Ok(text.conversions)
}
