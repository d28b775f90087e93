//! How fast warps that share a scheduler get through a function: what budgets of registers are compared by.
//!
//! For some cycles a warp needs the scheduler and the busiest unit behind it, for some it needs memory to bring its bytes, and the rest of its time it
//! only waits. While it waits, others run. With so many warps resident that is a closed queue: each warp goes from its waits to the scheduler, from there
//! to memory, and back, and queues where others came before it. Mean value analysis (Reiser and Lavenberg, 1980) says how often one gets through. Where
//! warps are few, that is once in its own time, divided by how many they are; where they are many, as often as the busiest place allows; and in between it is less
//! than either, because warps do not come evenly. So warps beyond those that hide what an order waits for are worth next to nothing, and an order that waits less
//! needs fewer of them.

use super::estimate::Estimate;
use super::units::Pipe;

/// What a function asks of a multiprocessor's scheduler for each warp.
#[derive(Clone, Debug, Default)]
pub(super) struct Demand {
    /// Cycles of a warp alone.
    pub(super) alone: f64,
    /// Cycles in which something issues.
    busy: f64,
    /// Cycles of each pipe.
    usage: [f64; Pipe::COUNT],
    /// Bytes of global memory that all lanes touch.
    bytes: f64,
}

impl Demand {
    /// Adds a block that costs so much, touches so many bytes of global memory, and runs so often.
    pub(super) fn add(&mut self, estimate: &Estimate, bytes: u32, times: f64) {
        self.alone += times * f64::from(estimate.cycles);
        self.busy += times * f64::from(estimate.busy);
        for pipe in Pipe::ALL {
            self.usage[pipe as usize] += times * f64::from(estimate.usage.of(pipe));
        }
        self.bytes += times * f64::from(bytes);
    }

    /// Cycles from one warp that ends to the next, where so many share the scheduler, and memory gives it so many bytes a cycle, or everything lies in caches.
    pub(super) fn among(&self, warps: u32, bytes_a_cycle: Option<f64>) -> f64 {
        let issue = self.usage.iter().copied().fold(self.busy, f64::max);
        let memory = bytes_a_cycle.map_or(0.0, |each| self.bytes / each);
        among([issue, memory], self.alone, warps)
    }
}

/// Cycles from one warp that ends to the next, where so many share places that each needs for so long, and one alone takes so long.
fn among(places: [f64; 2], alone: f64, warps: u32) -> f64 {
    let waits = (alone - places[0] - places[1]).max(0.0);
    let mut queues = [0.0; 2];
    let mut each = alone;
    for warp in 1..=warps {
        let here = [0, 1].map(|place| places[place] * (1.0 + queues[place]));
        let around = waits + here[0] + here[1];
        if around <= 0.0 {
            return 0.0;
        }
        each = around / f64::from(warp);
        queues = here.map(|time| time / each);
    }
    each
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warp_alone_takes_its_own_time() {
        assert_eq!(among([100.0, 20.0], 600.0, 1), 600.0);
        assert_eq!(among([0.0, 0.0], 0.0, 4), 0.0);
    }

    #[test]
    fn more_warps_gain_until_the_busiest_place_is_always_busy() {
        let each: Vec<f64> = (1..=16).map(|it| among([100.0, 20.0], 600.0, it)).collect();
        assert!(each.windows(2).all(|it| it[1] < it[0]), "{each:?}");
        for (warps, each) in (1..).zip(&each) {
            assert!(*each >= f64::max(100.0, 600.0 / f64::from(warps)), "{each}");
        }
        assert!(each[15] < 100.1, "{each:?}");
        // Where both bounds meet, neither is reached.
        assert!(each[5] > 110.0, "{each:?}");
    }

    #[test]
    fn memory_that_is_as_busy_as_the_scheduler_asks_for_more_warps() {
        let loss = |places| among(places, 600.0, 8) / among(places, 600.0, 16);
        assert!(loss([100.0, 90.0]) > loss([100.0, 0.0]));
    }
}
