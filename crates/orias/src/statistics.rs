//! What `--compiler-stats` counts: the time of each stage of a compilation and what it adds to the memory in use, in ptxas's form.
//!
//! Stages bear ptxas's names. A stage's memory is what the process's peak grew by while it ran, so what a later stage uses again counts
//! for the earlier one; the times of functions that are compiled side by side are not added up.

use crate::diagnostics::{Diagnostic, Severity};
use orias_codegen::stopwatch::Stopwatch;
use std::fmt::Write as _;
use std::time::Duration;

/// What is to be counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The time of the compilation.
    pub time: bool,
    /// The most memory the process had.
    pub memory: bool,
    /// Both by stage.
    pub by_stage: bool,
}

impl Counts {
    /// Whether there is anything to print; stages alone are of nothing.
    pub fn any(self) -> bool {
        self.time || self.memory
    }
}

/// A stage of a compilation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// PTX is read and checked.
    Parse,
    /// What holds for the module as a whole, before and after its functions.
    Setup,
    /// PTX becomes Ori.
    Lower,
    /// Ori becomes code.
    Generate,
    /// The container is written, debug information in it included.
    Container,
    /// Debug information of the PTX is taken in.
    DebugInfo,
}

/// The stages with ptxas's names for their times and their memory, in its order.
const STAGES: [(Stage, &str, &str); 6] = [
    (Stage::Parse, "Parse", "Parser"),
    (Stage::Setup, "CompileUnitSetup", "CompileUnitSetup"),
    (Stage::Lower, "DAGgen", "DAGgen"),
    (Stage::Generate, "OCG", "OCG"),
    (Stage::Container, "ELF", "ELF"),
    (Stage::DebugInfo, "DebugInfo", "DebugInfo"),
];

/// What was counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statistics {
    counts: Counts,
    total: Duration,
    /// The peak at the end in KiB; nothing where the system does not say.
    peak: Option<u64>,
    time: [Duration; STAGES.len()],
    memory: [u64; STAGES.len()],
}

impl Statistics {
    /// The texts that are to be printed: what counts, then a line for each stage.
    pub fn texts(&self) -> Vec<String> {
        let mut texts = Vec::new();
        if self.counts.time {
            let total = milliseconds(self.total);
            let mut text = format!("CompileTime = {total:.6} ms");
            if self.counts.by_stage {
                text += " (100%)";
                for ((_, name, _), &time) in STAGES.iter().zip(&self.time) {
                    let name = format!("{name}-time");
                    let time = milliseconds(time);
                    let share = if total > 0.0 {
                        100.0 * time / total
                    } else {
                        0.0
                    };
                    // Writing to a string cannot fail.
                    let _ = write!(text, "\n{name:<21} : {time:.3} ms ({share:.2}%)");
                }
                text += "\n";
            }
            texts.push(text);
        }
        if let Some(peak) = self.peak.filter(|_| self.counts.memory) {
            let mut text = format!("PeakMemoryUsage = {peak}.000 KB");
            if self.counts.by_stage {
                for ((_, _, name), grown) in STAGES.iter().zip(&self.memory) {
                    let name = format!("Peak{name}MemoryUsage");
                    let _ = write!(text, "\n{name:<31} : {grown}.000 KB");
                }
                text += "\n";
            }
            texts.push(text);
        }
        texts
    }

    /// What is said of it.
    pub fn remarks(&self) -> Vec<Diagnostic> {
        let info = |text| Diagnostic::new(Severity::Info, format!("STAT: {text}"));
        let mut remarks: Vec<Diagnostic> = self.texts().into_iter().map(info).collect();
        if self.counts.memory && self.peak.is_none() {
            let what =
                "Memory is counted on Linux only; 'memory' of option '--compiler-stats' is ignored";
            remarks.push(Diagnostic::new(Severity::Warning, what));
        }
        remarks
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// Counts from stage to stage; does nothing if nothing is to be counted.
pub(crate) struct Counter {
    counts: Counts,
    start: Stopwatch,
    /// When the last stage ended, and the peak then.
    last: (Duration, u64),
    time: [Duration; STAGES.len()],
    memory: [u64; STAGES.len()],
}

impl Counter {
    /// Starts to count.
    pub(crate) fn start(counts: Counts) -> Self {
        let mut counter = Self {
            counts,
            start: Stopwatch::start(),
            last: (Duration::ZERO, 0),
            time: [Duration::ZERO; STAGES.len()],
            memory: [0; STAGES.len()],
        };
        counter.last.1 = counter.peak();
        counter
    }

    /// What was done since the last call belongs to `stage`.
    pub(crate) fn ends(&mut self, stage: Stage) {
        if !self.counts.any() {
            return;
        }
        let Some(at) = STAGES.iter().position(|(it, ..)| *it == stage) else {
            return;
        };
        let now = (self.start.elapsed(), self.peak());
        self.time[at] += now.0.saturating_sub(self.last.0);
        self.memory[at] += now.1.saturating_sub(self.last.1);
        self.last = now;
    }

    /// What was counted, if anything was to be.
    pub(crate) fn finish(self) -> Option<Statistics> {
        self.counts.any().then(|| Statistics {
            counts: self.counts,
            total: self.start.elapsed(),
            peak: peak_memory().filter(|_| self.counts.memory),
            time: self.time,
            memory: self.memory,
        })
    }

    fn peak(&self) -> u64 {
        match self.counts.memory {
            true => peak_memory().unwrap_or(0),
            false => 0,
        }
    }
}

/// The most memory this process ever had, in KiB.
fn peak_memory() -> Option<u64> {
    if !cfg!(target_os = "linux") {
        return None;
    }
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    peak.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Counts = Counts {
        time: true,
        memory: true,
        by_stage: true,
    };

    #[test]
    fn stages_add_up_to_no_more_than_the_whole() {
        let mut counter = Counter::start(ALL);
        let block = std::hint::black_box(vec![1_u8; 64 << 20]);
        counter.ends(Stage::Parse);
        std::thread::sleep(Duration::from_millis(2));
        counter.ends(Stage::Generate);
        drop(block);
        let found = counter.finish().unwrap();
        assert!(found.time[3] >= Duration::from_millis(2), "{found:?}");
        assert!(found.time.iter().sum::<Duration>() <= found.total);
        if let Some(peak) = found.peak {
            assert!(
                found.memory[0] >= 32 << 10 && found.memory[0] <= peak,
                "{found:?}"
            );
        }
    }

    #[test]
    fn texts_have_ptxas_s_form() {
        let mut time = [Duration::ZERO; 6];
        time[0] = Duration::from_micros(500);
        let found = Statistics {
            counts: ALL,
            total: Duration::from_millis(2),
            peak: Some(9),
            time,
            memory: [4, 0, 0, 1, 0, 0],
        };
        assert_eq!(
            found.texts(),
            [
                "CompileTime = 2.000000 ms (100%)\n\
                 Parse-time            : 0.500 ms (25.00%)\n\
                 CompileUnitSetup-time : 0.000 ms (0.00%)\n\
                 DAGgen-time           : 0.000 ms (0.00%)\n\
                 OCG-time              : 0.000 ms (0.00%)\n\
                 ELF-time              : 0.000 ms (0.00%)\n\
                 DebugInfo-time        : 0.000 ms (0.00%)\n",
                "PeakMemoryUsage = 9.000 KB\n\
                 PeakParserMemoryUsage           : 4.000 KB\n\
                 PeakCompileUnitSetupMemoryUsage : 0.000 KB\n\
                 PeakDAGgenMemoryUsage           : 0.000 KB\n\
                 PeakOCGMemoryUsage              : 1.000 KB\n\
                 PeakELFMemoryUsage              : 0.000 KB\n\
                 PeakDebugInfoMemoryUsage        : 0.000 KB\n",
            ]
        );
    }

    #[test]
    fn nothing_is_counted_unless_asked() {
        let stages_only = Counts {
            by_stage: true,
            ..Counts::default()
        };
        assert!(Counter::start(stages_only).finish().is_none());
    }
}
