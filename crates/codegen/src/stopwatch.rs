//! How long something takes, on hosts that can tell.
//!
//! In a browser's sandbox without bindings there is no clock, and asking for the time would end the program: there nothing takes any time.

use std::time::Duration;
#[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
use std::time::Instant;

/// A moment from which time is counted.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    #[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
    start: Instant,
}

impl Stopwatch {
    /// Starts now.
    #[must_use]
    pub fn start() -> Stopwatch {
        Stopwatch {
            #[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
            start: Instant::now(),
        }
    }

    /// The time since then.
    #[must_use]
    #[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
    pub fn elapsed(self) -> Duration {
        self.start.elapsed()
    }

    /// The time since then: none.
    #[must_use]
    #[cfg(all(target_family = "wasm", target_os = "unknown"))]
    pub fn elapsed(self) -> Duration {
        Duration::ZERO
    }
}
