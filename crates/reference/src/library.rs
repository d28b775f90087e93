//! Functions that the system provides: `vprintf`, `malloc`, `free` and the assertion handler.

use crate::error::FaultKind;
use crate::memory::Memory;
use orias_eval::printf;

/// A function that programs may call without defining it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Routine {
    /// `vprintf(format, arguments)`
    Print,
    /// `__assertfail(message, file, line, function, size of a character)`
    Assert,
    /// `malloc(size)`
    Allocate,
    /// `free(address)`
    Free,
}

/// Reads so many bytes at a generic address, as a thread sees it.
pub(crate) type Reader<'r> = dyn Fn(&Memory, u64, usize) -> Option<Vec<u8>> + 'r;

impl Routine {
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "vprintf" => Self::Print,
            "__assertfail" => Self::Assert,
            "malloc" => Self::Allocate,
            "free" => Self::Free,
            _ => return None,
        })
    }

    /// Runs it: the result's bits. `read` reads memory as the calling thread sees it.
    pub fn call(
        self,
        arguments: &[u64],
        memory: &mut Memory,
        printed: &mut Vec<u8>,
        read: &Reader<'_>,
    ) -> Result<u64, FaultKind> {
        let argument = |at: usize| arguments.get(at).copied().unwrap_or(0);
        match self {
            Self::Print => {
                let format = memory.read_string(argument(0));
                let format = format.ok_or_else(|| {
                    FaultKind::Undefined("vprintf of a format that is no string".into())
                })?;
                let mut arguments = printf::Arguments::new(argument(1));
                let text = printf::format(
                    &format,
                    &mut |size| {
                        let address = arguments.next(size);
                        let bytes = read(memory, address, size)?;
                        Some(little_endian(&bytes))
                    },
                    &mut |address| memory.read_string(address),
                );
                let text = text.map_err(|problem| FaultKind::Undefined(problem.to_string()))?;
                printed.extend_from_slice(&text.bytes);
                Ok(text.conversions.into())
            }
            Self::Assert => {
                let text = |at: usize| {
                    let bytes = memory.read_string(argument(at)).unwrap_or_default();
                    String::from_utf8_lossy(&bytes).into_owned()
                };
                let (message, file, function) = (text(0), text(1), text(3));
                let line = argument(2) as u32;
                Err(FaultKind::Assertion(format!(
                    "{file}:{line}: {function}: assertion `{message}` failed"
                )))
            }
            Self::Allocate => {
                /// The heap of a device has 8 MiB unless a program asks for more.
                const HEAP_BYTES: u64 = 8 << 20;
                let size = argument(0);
                Ok(if size == 0 || size > HEAP_BYTES {
                    0
                } else {
                    memory.allocate(vec![0; size as usize])
                })
            }
            Self::Free => {
                let address = argument(0);
                if address != 0 && !memory.free(address) {
                    return Err(FaultKind::Undefined(format!(
                        "free of {address:#x}, which malloc did not return"
                    )));
                }
                Ok(0)
            }
        }
    }
}

/// Bytes as a number.
pub(crate) fn little_endian(bytes: &[u8]) -> u64 {
    let bytes = bytes.iter().take(8).enumerate();
    bytes.fold(0, |value, (at, byte)| value | u64::from(*byte) << (8 * at))
}
