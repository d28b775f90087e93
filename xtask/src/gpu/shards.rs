//! Numbered items shared out among processes, each with a context of its own on the device.
//!
//! A kernel that never ends and a fault on the device take their process with them. So a child runs a range of items and prints
//! `@N WORDS` before each thing it tries with item N; when it dies, or says nothing for too long, the thing it was trying is
//! reported and another child goes on after that item. Other lines of a child are findings and are handed on, except those that
//! begin with `+`: they are counted by what follows, for the totals; a line `#N WHAT` counts N times.
//!
//! Starting a kernel at a time is slow. A child may do many items together, and says so by words that begin with [`TOGETHER`] behind the
//! number of the first. When it is lost then, another child does the same items one by one: it gets the word [`ALONE`].

use super::worker::lines_of;
use std::collections::BTreeMap;
use std::ops::Range;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

/// After so many lost children the rest is given up: the device, or everything, is broken.
const LOSSES: usize = 60;

/// How the words of a child begin that does several items at a time.
pub const TOGETHER: &str = "together";
/// The last word of a child that is to do its first items one by one.
pub const ALONE: &str = "alone";

/// What all children said.
#[derive(Debug, Default)]
pub struct Summary {
    /// How often each `+` line was printed.
    pub counts: BTreeMap<String, u64>,
    /// Findings, lost items among them.
    pub findings: u64,
}

struct Shard {
    child: Child,
    lines: Receiver<String>,
    heard: Instant,
    at: usize,
    doing: String,
    end: usize,
}

impl Shard {
    fn start(words: &[String], alone: bool, range: Range<usize>) -> Result<Self, String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut child = Command::new(program)
            .args(["gpu", "shard"])
            .arg(range.start.to_string())
            .arg(range.end.to_string())
            .args(words)
            .args(alone.then_some(ALONE))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("a shard did not start: {error}"))?;
        let output = child.stdout.take().ok_or("a shard without output")?;
        Ok(Self {
            child,
            lines: lines_of(output),
            heard: Instant::now(),
            at: range.start,
            doing: "at the start".to_owned(),
            end: range.end,
        })
    }
}

impl Drop for Shard {
    fn drop(&mut self) {
        // The child may have ended by itself; either way it must not outlive us.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs `gpu shard FIRST END WORDS…` over items 0 to `count`, `jobs` at a time. Nothing new is started after `limit`.
pub fn run(
    words: &[String],
    count: usize,
    jobs: usize,
    patience: Duration,
    limit: Duration,
) -> Result<Summary, String> {
    let jobs = jobs.clamp(1, count.max(1));
    let started = Instant::now();
    let mut may_batch = false;
    let mut summary = Summary::default();
    let mut losses = 0;
    let mut shards: Vec<Option<Shard>> = Vec::new();
    for job in 0..jobs {
        let range = count * job / jobs..count * (job + 1) / jobs;
        shards.push(Some(Shard::start(words, false, range)?));
    }
    while shards.iter().any(Option::is_some) {
        std::thread::sleep(Duration::from_millis(5));
        for slot in &mut shards {
            let Some(shard) = slot else { continue };
            let lost = loop {
                match shard.lines.try_recv() {
                    Ok(line) => {
                        shard.heard = Instant::now();
                        take(&line, shard, &mut summary);
                    }
                    Err(TryRecvError::Disconnected) => {
                        let good = shard.child.wait().is_ok_and(|status| status.success());
                        break Some((!good).then_some("ends its process"));
                    }
                    Err(TryRecvError::Empty) if shard.heard.elapsed() > patience => {
                        break Some(Some("does not end"));
                    }
                    Err(TryRecvError::Empty) => break None,
                }
            };
            let Some(how) = lost else { continue };
            let (at, end) = (shard.at, shard.end);
            let together = shard.doing.starts_with(TOGETHER);
            may_batch |= together;
            if let Some(how) = how {
                losses += 1;
                if !together {
                    println!("item {at} {}: {how}", shard.doing);
                    summary.findings += 1;
                }
            }
            *slot = None;
            let next = if together { at } else { at + 1 };
            if how.is_some() && next < end {
                if losses > LOSSES || started.elapsed() > limit {
                    println!("items {next} to {end} are not tried");
                    summary.findings += 1;
                    *summary.counts.entry("not tried".to_owned()).or_default() +=
                        (end - next) as u64;
                } else {
                    *slot = Some(Shard::start(words, may_batch, next..end)?);
                }
            }
        }
    }
    Ok(summary)
}

fn take(line: &str, shard: &mut Shard, summary: &mut Summary) {
    if let Some(rest) = line.strip_prefix('@') {
        let (number, doing) = rest.split_once(' ').unwrap_or((rest, ""));
        shard.at = number.parse().unwrap_or(shard.at);
        shard.doing = doing.to_owned();
    } else if let Some((count, what)) = line.strip_prefix('#').and_then(|it| it.split_once(' ')) {
        *summary.counts.entry(what.to_owned()).or_default() += count.parse::<u64>().unwrap_or(0);
    } else if let Some(what) = line.strip_prefix('+') {
        *summary.counts.entry(what.to_owned()).or_default() += 1;
    } else {
        summary.findings += 1;
        println!("{line}");
    }
}
