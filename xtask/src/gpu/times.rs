//! How long launches take with cubins that were made from the same code in several ways.
//!
//! A kernel of a few microseconds is over before the host could start the next one, so launches are recorded in a graph, as many as
//! fill [`GRAPH`], and the graph is timed. All cubins of a launch run in one process on the same buffers, in turns: a round times
//! each once, and the next round begins with another one. Every cubin is loaded twice, so that it lies at two places of memory;
//! its time in a round is the mean of both. What is compared is the ratio of two times of one round, of which the median over all
//! rounds counts: clocks that change from round to round change both. How far the two copies of the reference differ from each
//! other, by the same median, is the *floor*: smaller differences mean nothing.
//!
//! A launch with a ratio near [`SLOW`] or above it is timed again at the end, by a process that loads everything anew and in
//! [`MORE`] times as many rounds. What that says stands in the place of the first ratios, whether it is more or less.
//!
//! Buffers that a launch changes are restored before each one, in the graph, unless they hold nothing but the poison that marks
//! outputs; a graph of the copies alone is timed beside the others and taken off.

use super::driver::{Buffer, DriverError, Gpu, Graph, Module};
use super::job::{Job, Outcome};
use super::worker::{Filled, Workers};
use super::{cubin_of, tests};
use std::path::Path;
use std::time::Duration;

/// How long a graph takes, about.
const GRAPH: Duration = Duration::from_micros(500);

/// At most this many launches are in a graph.
const MOST: u32 = 200;

/// At least this many.
const FEWEST: u32 = 3;

/// Rounds of every graph before anything counts.
const WARM_UP: usize = 3;

/// A ratio that counts as slow.
const SLOW: f64 = 1.05;

/// A ratio from which on a launch is timed again.
const DOUBTFUL: f64 = 1.04;

/// How many times as many rounds that takes.
const MORE: u32 = 6;

/// What outputs are filled with.
const POISON: u8 = 0xa5;

/// What to time, and how often.
pub struct Options {
    rounds: u32,
    filter: String,
    /// Whether launches with large ratios are timed again.
    again: bool,
}

impl Options {
    /// Reads the words after the folders.
    pub fn parse(words: &[&str]) -> Result<Self, String> {
        let mut options = Self {
            rounds: 25,
            filter: String::new(),
            again: true,
        };
        let mut rest = words;
        while let [first, ..] = rest {
            rest = match rest {
                ["--once", rest @ ..] => {
                    options.again = false;
                    rest
                }
                ["--rounds", n, rest @ ..] => {
                    options.rounds = n.parse().map_err(|_| format!("'{n}' is not a count"))?;
                    rest
                }
                ["--filter", text, rest @ ..] => {
                    options.filter = (*text).to_owned();
                    rest
                }
                _ => return Err(format!("not understood: {first}")),
            };
        }
        Ok(options)
    }
}

/// A launch that was timed.
struct Timed {
    job: Job,
    found: Comparison,
}

/// Times every launch of a manifest with the cubins of `cubins` and of each of the `others`.
pub fn run(manifest: &str, cubins: &str, others: &str, options: &Options) -> Result<(), String> {
    let folders: Vec<&str> = std::iter::once(cubins).chain(others.split(',')).collect();
    let mut workers = Workers::new();
    let mut timed: Vec<Timed> = Vec::new();
    let (mut failed, mut missing) = (0, 0);
    println!(
        "| launch | {cubins}, us | floor | {} |",
        folders[1..].join(" | ")
    );
    println!("{}|", "| --- ".repeat(2 + folders.len()));
    for test in tests(manifest)? {
        let mut job = Job::from_test(&test, cubin_of(&test, cubins)?)?;
        if !job.name.contains(&options.filter) {
            continue;
        }
        job.rounds = options.rounds;
        for folder in &folders {
            job.rivals.push(cubin_of(&test, folder)?);
        }
        if !job.rivals.iter().all(|rival| Path::new(rival).exists()) {
            missing += 1;
            continue;
        }
        match race_of(&mut workers, &job)? {
            Ok(found) => {
                println!("{}", found.row(&job.name));
                timed.push(Timed { job, found });
            }
            Err(message) => {
                failed += 1;
                println!("| {} | failed: {message} |", job.name);
            }
        }
    }
    if timed.is_empty() {
        return Err("nothing was timed".to_owned());
    }
    let mut again = 0;
    let doubtful = |timed: &&mut Timed| options.again && timed.found.doubtful();
    for Timed { job, found } in timed.iter_mut().filter(doubtful) {
        again += 1;
        job.rounds *= MORE;
        match race_of(&mut Workers::new(), job)? {
            Ok(second) => {
                println!("{}", second.row(&format!("{} again", job.name)));
                *found = second;
            }
            Err(message) => {
                failed += 1;
                println!("| {} again | failed: {message} |", job.name);
            }
        }
    }
    let count = timed.len();
    let mut floors: Vec<f64> = timed.iter().map(|timed| timed.found.floor).collect();
    floors.sort_by(f64::total_cmp);
    println!(
        "\n{count} launches timed, {again} of them twice, {missing} without all cubins, {failed} failed; \
         floor: median {:.3}, 95 % at most {:.3}, largest {:.3}",
        median(&floors),
        floors[(count - 1) * 95 / 100],
        floors[count - 1]
    );
    for (at, folder) in folders[1..].iter().enumerate() {
        let ratios = || {
            timed
                .iter()
                .map(|timed| (timed.found.ratios[at], &timed.job.name))
        };
        let mean = ratios().map(|(ratio, _)| ratio.ln()).sum::<f64>() / count as f64;
        let largest = ratios().max_by(|a, b| a.0.total_cmp(&b.0));
        let (largest, name) = largest.ok_or("nothing was timed")?;
        println!(
            "{folder}: geometric mean {:.4}, largest {largest:.3} ({name}), {} above {SLOW}",
            mean.exp(),
            ratios().filter(|(ratio, _)| *ratio > SLOW).count()
        );
    }
    if failed == 0 {
        Ok(())
    } else {
        Err(format!("{failed} launches failed"))
    }
}

/// Times one launch; the inner error is the launch's own.
fn race_of(workers: &mut Workers, job: &Job) -> Result<Result<Comparison, String>, String> {
    Ok(match workers.run(job)? {
        Outcome::Ran { rounds, .. } => Ok(Comparison::of(&rounds)),
        Outcome::Failed(message) => Err(message),
    })
}

/// What the rounds of one launch say.
#[derive(Debug, PartialEq)]
struct Comparison {
    /// The reference, in microseconds.
    reference: f64,
    /// How far the ratio of its two copies is from one.
    floor: f64,
    /// Each other cubin against it.
    ratios: Vec<f64>,
}

impl Comparison {
    /// From two times a cubin in each round, the reference first.
    fn of(rounds: &[Vec<f64>]) -> Self {
        let over_rounds = |value: &dyn Fn(&[f64]) -> f64| {
            let values: Vec<f64> = rounds.iter().map(|round| value(round)).collect();
            median(&values)
        };
        let both =
            |round: &[f64], cubin: usize| f64::midpoint(round[2 * cubin], round[2 * cubin + 1]);
        let cubins = rounds.first().map_or(0, |round| round.len() / 2);
        Self {
            reference: over_rounds(&|round| both(round, 0)),
            floor: (over_rounds(&|round| round[1] / round[0]) - 1.0).abs(),
            ratios: (1..cubins)
                .map(|cubin| over_rounds(&|round| both(round, cubin) / both(round, 0)))
                .collect(),
        }
    }

    /// Whether a ratio is so large that it should be looked at twice.
    fn doubtful(&self) -> bool {
        self.ratios.iter().any(|ratio| *ratio > DOUBTFUL)
    }

    fn row(&self, name: &str) -> String {
        let ratios: Vec<String> = self
            .ratios
            .iter()
            .map(|ratio| format!("{ratio:.3}"))
            .collect();
        let (reference, floor) = (self.reference, self.floor);
        format!(
            "| {name} | {reference:.2} | {floor:.3} | {} |",
            ratios.join(" | ")
        )
    }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        count if count.is_multiple_of(2) => f64::midpoint(sorted[count / 2 - 1], sorted[count / 2]),
        count => sorted[count / 2],
    }
}

/// The worker's side: for each round the microseconds of a launch of each of a job's rivals, twice a rival. The buffers hold what
/// the job's own runs left.
pub fn race(
    gpu: &Gpu,
    job: &Job,
    parameters: &[Vec<u8>],
    buffers: &[Filled<'_>],
) -> Result<Vec<Vec<f64>>, String> {
    if job.rivals.is_empty() {
        return Ok(Vec::new());
    }
    timed(gpu, job, parameters, buffers).map_err(|error| match error {
        Trouble::Driver(error) => error.to_string(),
        Trouble::File(what) => what,
    })
}

enum Trouble {
    Driver(DriverError),
    File(String),
}

impl From<DriverError> for Trouble {
    fn from(error: DriverError) -> Self {
        Self::Driver(error)
    }
}

fn timed(
    gpu: &Gpu,
    job: &Job,
    parameters: &[Vec<u8>],
    buffers: &[Filled<'_>],
) -> Result<Vec<Vec<f64>>, Trouble> {
    let mut modules: Vec<Module> = Vec::new();
    for rival in &job.rivals {
        let image =
            std::fs::read(rival).map_err(|error| Trouble::File(format!("{rival}: {error}")))?;
        for _ in 0..2 {
            modules.push(gpu.load(&image)?);
        }
    }
    let mut kernels = Vec::new();
    for module in &modules {
        kernels.push(module.kernel(&job.kernel, job.smem)?);
    }
    let mut firsts = Vec::new();
    for (buffer, first) in buffers {
        let output = first.iter().all(|byte| *byte == POISON);
        if !output && buffer.read()? != *first {
            firsts.push((buffer, gpu.buffer(first)?));
        }
    }
    let restored: Vec<(&Buffer, &Buffer)> = firsts
        .iter()
        .map(|(buffer, first)| (*buffer, first))
        .collect();
    let record =
        |kernel, times| Graph::record((kernel, job.grid, job.block, parameters), &restored, times);
    let few = record(Some(&kernels[0]), FEWEST)?;
    few.time()?;
    let fits = GRAPH.as_nanos() / few.time()?.as_nanos().max(1);
    let times = u32::try_from(fits).unwrap_or(MOST).clamp(FEWEST, MOST);
    let mut graphs = Vec::new();
    for kernel in &kernels {
        graphs.push(record(Some(kernel), times)?);
    }
    let copies = match restored.as_slice() {
        [] => None,
        _ => Some(record(None, times)?),
    };
    let microseconds = |graph: &Graph<'_>| graph.time().map(|time| time.as_secs_f64() * 1e6);
    for _ in 0..WARM_UP {
        for graph in graphs.iter().chain(&copies) {
            graph.time()?;
        }
    }
    let mut rounds = Vec::new();
    for round in 0..job.rounds as usize {
        let mut row = vec![0.0; graphs.len()];
        for turn in 0..graphs.len() {
            let at = (round + turn) % graphs.len();
            row[at] = microseconds(&graphs[at])?;
        }
        if let Some(copies) = &copies {
            let taken = microseconds(copies)?;
            for time in &mut row {
                *time = (*time - taken).max(f64::MIN_POSITIVE);
            }
        }
        rounds.push(row);
    }
    Ok(rounds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_taken_within_rounds_and_the_floor_between_copies() {
        // The clock halves in the second round; the other cubin always takes a tenth longer, and the reference's second copy a hundredth.
        let rounds: Vec<Vec<f64>> = [1.0, 2.0, 1.0]
            .map(|clock| vec![clock, 1.01 * clock, 1.1055 * clock, 1.1055 * clock])
            .into();
        let found = Comparison::of(&rounds);
        assert!((found.floor - 0.01).abs() < 1e-9, "{found:?}");
        assert!((found.ratios[0] - 1.1).abs() < 1e-9, "{found:?}");
        assert_eq!(found.row("a"), "| a | 1.00 | 0.010 | 1.100 |");
        assert!(found.doubtful());
    }

    #[test]
    fn the_median_of_an_even_count_lies_between_the_middle_two() {
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
    }
}
