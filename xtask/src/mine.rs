//! `cargo xtask mine [--table] CUBIN…`, `cargo xtask mine --calibrate | --check`: the smallest distances finished code dares.
//!
//! Walks every function of the given cubins with `verify`'s flow and keeps, for each pair of operations and operands, the
//! smallest number of cycles between the two, and how often the dependence was covered in which way ([`Cover`]). What ptxas never
//! goes below is safe; this is where `verify` takes its latencies from.
//!
//! With `--table` the edges are those of `machine`'s groups, in the form of its `mined.tbl`. An edge seen less than
//! [`ENOUGH`] times is left out: its smallest distance says more about the program around it than about the chip.
//! With `--calibrate` that file is written anew, from the half of the corpus that is set apart for it
//! ([`crate::conformance::verify::calibration`]); with `--check` it is compared with what would be written.

use orias_cubin::Cubin;
use orias_machine::timing::{Completion, Place, ResultGroup, UseGroup, of, rows};
use orias_sass::{Instruction, Register, Target};
use orias_verify::flow::{self, Dependence, Hazard, Need};
use orias_verify::program::Program;
use std::collections::BTreeMap;

/// How often an edge must be seen to be believed.
const ENOUGH: u64 = 30;

/// And how often to be believed that more is needed than was assumed.
const OFTEN: u64 = 200;

/// What makes sure that an earlier instruction is done with a register when a later one needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Cover {
    /// Cycles that pass.
    Stall,
    /// A stall of 0 in between, which waits until the pipelines are empty.
    Drained,
    /// A wait for a barrier that the earlier instruction sets itself.
    OwnBarrier,
    /// A wait for a barrier of a later instruction of its queue.
    LaterBarrier,
    /// A wait for a group of warpgroup operations.
    Group,
    /// A wait on the way round a loop or across a branch backwards.
    Around,
    /// Nothing.
    Nothing,
}

impl Cover {
    /// What covers a dependence.
    fn of(program: &Program, dependence: &Dependence) -> Cover {
        let (earlier, later) = (dependence.earlier, dependence.later);
        let between = program.instructions.get(earlier + 1..=later);
        match dependence.need {
            Need::Cycles(_) => {
                let stalls = program.instructions.get(earlier..later).unwrap_or(&[]);
                match stalls.iter().any(|one| one.control.stall() == 0) {
                    true => Cover::Drained,
                    false => Cover::Stall,
                }
            }
            _ if !dependence.met => Cover::Nothing,
            Need::Group => Cover::Group,
            Need::Wait(_) => {
                let Some(between) = between else {
                    return Cover::Around;
                };
                let control = program.instructions[earlier].control;
                let own = match dependence.hazard {
                    Hazard::WriteAfterRead => [control.read_barrier, control.write_barrier],
                    _ => [control.write_barrier, control.read_barrier],
                };
                let own = (own.into_iter().flatten()).fold(0, |set, one| set | 1 << one.index());
                let waited = (between.iter()).fold(0, |set, one| set | one.control.wait.bits());
                match own & waited {
                    0 => Cover::LaterBarrier,
                    _ => Cover::OwnBarrier,
                }
            }
        }
    }

    fn name(self) -> &'static str {
        match self {
            Cover::Stall => "stall",
            Cover::Drained => "drained",
            Cover::OwnBarrier => "own barrier",
            Cover::LaterBarrier => "later barrier",
            Cover::Group => "group",
            Cover::Around => "around a loop",
            Cover::Nothing => "nothing",
        }
    }
}

/// What is known of one edge.
#[derive(Clone, Debug, Default)]
struct Seen {
    /// How often each distance was seen, without a wait.
    distances: BTreeMap<u16, u64>,
    /// Where the smallest distance was.
    place: String,
    /// How often it was covered in which way.
    covers: BTreeMap<Cover, u64>,
}

impl Seen {
    fn record(&mut self, dependence: &Dependence, cover: Cover, place: impl FnOnce() -> String) {
        let count = self.covers.entry(cover).or_default();
        *count += 1;
        match dependence.need {
            Need::Cycles(_) => {
                if self.least().is_none_or(|least| dependence.cycles < least) {
                    self.place = place();
                }
                *self.distances.entry(dependence.cycles).or_default() += 1;
            }
            _ if cover == Cover::Nothing && *count == 1 => self.place = place(),
            _ => {}
        }
    }

    fn least(&self) -> Option<u16> {
        self.distances.keys().next().copied()
    }

    fn total(&self) -> u64 {
        self.distances.values().sum()
    }
}

/// Everything that was mined.
#[derive(Default)]
pub struct Mine {
    operations: BTreeMap<(Hazard, String, String), Seen>,
    latencies: BTreeMap<(ResultGroup, UseGroup), Seen>,
    overwrites: BTreeMap<(ResultGroup, ResultGroup), Seen>,
    releases: BTreeMap<(UseGroup, ResultGroup), Seen>,
    functions: usize,
    instructions: usize,
}

impl Mine {
    /// Walks the functions of one cubin.
    pub fn add(&mut self, path: &str) -> Result<(), String> {
        let bytes = std::fs::read(path).map_err(|error| format!("{path}: {error}"))?;
        let cubin = Cubin::read(&bytes).map_err(|error| format!("{path}: {error}"))?;
        for function in cubin.functions() {
            let program = Program::of(&function, Target::Sm90a)
                .map_err(|error| format!("{path}: {error}"))?;
            self.functions += 1;
            self.instructions += program.instructions.len();
            flow::observe(&program, |dependence| {
                self.record(&program, path, &dependence);
            })
            .map_err(|error| format!("{path}: {error}"))?;
        }
        Ok(())
    }

    fn record(&mut self, program: &Program, path: &str, dependence: &Dependence) {
        let name =
            |index: usize, place| operand(&program.instructions[index], place, dependence.register);
        let place = || {
            format!(
                "{path}:{}+{:#x}->{:#x}",
                program.name,
                dependence.earlier * 16,
                dependence.later * 16
            )
        };
        let cover = Cover::of(program, dependence);
        let key = (
            dependence.hazard,
            name(dependence.earlier, dependence.earlier_place),
            name(dependence.later, dependence.later_place),
        );
        self.operations
            .entry(key)
            .or_default()
            .record(dependence, cover, place);
        if let (Hazard::WriteAfterRead, Some(used), Some(later), Need::Cycles(_)) = (
            dependence.hazard,
            dependence.used,
            dependence.overwritten,
            dependence.need,
        ) {
            self.releases
                .entry((used, later))
                .or_default()
                .record(dependence, cover, place);
        }
        let Some(written) = dependence.written else {
            return;
        };
        match (dependence.hazard, dependence.used, dependence.overwritten) {
            (Hazard::ReadAfterWrite, Some(used), _) => {
                self.latencies
                    .entry((written, used))
                    .or_default()
                    .record(dependence, cover, place);
            }
            (Hazard::WriteAfterWrite, _, Some(later)) => {
                self.overwrites
                    .entry((written, later))
                    .or_default()
                    .record(dependence, cover, place);
            }
            _ => {}
        }
    }

    /// What the other one of the two big pipes sees of a result that comes from neither: they are equally far from it.
    fn sibling(&self, written: ResultGroup, used: UseGroup) -> Option<&Seen> {
        if ["fma", "high", "wide-low", "widened", "alu", "minmax"].contains(&written.name()) {
            return None;
        }
        let other = match used.name() {
            "fma" => "alu",
            "alu" => "fma",
            _ => return None,
        };
        let other = UseGroup::all().find(|g| g.name() == other && g.class() == used.class())?;
        self.latencies.get(&(written, other))
    }

    /// The edges of `mined.tbl`: cycles, and how often the edge was seen.
    ///
    /// A smallest distance beyond what is assumed to be enough was not chosen for the edge's sake, and says nothing.
    fn table(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for ((written, used), seen) in &self.latencies {
            let (needed, enough) = rows()
                .find(|row| row.result == *written && row.used == *used)
                .map_or((0, 0), |row| {
                    (u16::from(row.assumed.0), u16::from(row.assumed.1))
                });
            let believed = |least: &u16| {
                let often = if *least > needed { OFTEN } else { ENOUGH };
                seen.total() >= often && *least <= enough
            };
            let least = [Some(seen), self.sibling(*written, *used)]
                .into_iter()
                .flatten()
                .filter_map(Seen::least)
                .min();
            if let Some(least) = least.filter(believed) {
                lines.push(format!(
                    "{:?} {} -> {} {least} {}",
                    written.class(),
                    written.name(),
                    used.name(),
                    seen.total()
                ));
            }
        }
        for ((written, later), seen) in &self.overwrites {
            if let Some(least) = seen.least().filter(|_| seen.total() >= ENOUGH) {
                lines.push(format!(
                    "overwrite {:?} {} -> {} {least} {}",
                    written.class(),
                    written.name(),
                    later.name(),
                    seen.total()
                ));
            }
        }
        for ((used, later), seen) in &self.releases {
            // Only what is written early can come before what is read late.
            let believed = |_: &u16| seen.total() >= ENOUGH && later.name() == "move";
            if let Some(least) = seen.least().filter(believed) {
                lines.push(format!(
                    "release {:?} {} -> {} {least} {}",
                    used.class(),
                    used.name(),
                    later.name(),
                    seen.total()
                ));
            }
        }
        lines
    }
}

/// An operand as the report names it: operation, register file and slot; the register's number in operands of several, and
/// the shape of matrix operations, since timing depends on them.
fn operand(instruction: &Instruction, place: Place, register: Register) -> String {
    let op = instruction.op();
    let mut text = op.name().to_owned();
    if of(op).is_some_and(|timing| timing.class.name() == "tensor") {
        for modifier in ["shape", "acc", "type"] {
            if let Some(value) = instruction.modifier(modifier) {
                text += &format!("({value})");
            }
        }
    }
    let offset = (instruction.accesses().into_iter())
        .find(|access| Place::of(instruction, access) == place && access.contains(register))
        .filter(|access| access.count > 1)
        .map_or(String::new(), |access| {
            format!("+{}", register.index - access.register.index)
        });
    let slot = match place {
        Place::Guard => "guard",
        Place::Implicit => "implicit",
        Place::Slot(slot) => op.row().slots[usize::from(slot)].name,
    };
    // Sources of variable latency are read at issue or late: the class tells nothing about the place.
    let fixed = of(op).is_some_and(|timing| timing.completion == Completion::Fixed);
    let offset = if fixed { offset } else { String::new() };
    format!("{text} {:?}.{slot}{offset}", register.class)
}

/// `cargo xtask mine --calibrate`: writes `machine`'s table; `--check` says where it differs from the one there is.
fn calibrate(check: bool) -> Result<(), String> {
    let mut mine = Mine::default();
    let cubins = crate::conformance::verify::calibration()?;
    for cubin in &cubins {
        if let Err(error) = mine.add(&cubin.to_string_lossy()) {
            println!("left out: {error}");
        }
    }
    let file = crate::oracle::repository().join("crates/machine/tables/sm_90/mined.tbl");
    let known = std::fs::read_to_string(&file).map_err(|error| error.to_string())?;
    let is_head =
        |line: &&str| line.is_empty() || line.starts_with('#') || line.starts_with("date ");
    let (head, known): (Vec<&str>, Vec<&str>) = known.lines().partition(is_head);
    let lines = mine.table();
    println!(
        "{} edges of {} cubins, {} functions, {} instructions",
        lines.len(),
        cubins.len(),
        mine.functions,
        mine.instructions
    );
    if check {
        return differences(&known, &lines);
    }
    let text = format!("{}\n\n{}\n", head.join("\n").trim_end(), lines.join("\n"));
    std::fs::write(&file, text).map_err(|error| error.to_string())
}

/// Prints the edges that two tables have different cycles for, or that only one of them has. How often an edge was seen may differ.
fn differences(known: &[&str], mined: &[String]) -> Result<(), String> {
    let edge = |line: &str| {
        let mut words: Vec<&str> = line.split(' ').collect();
        words.pop();
        let cycles = words.pop().unwrap_or_default().to_owned();
        (words.join(" "), cycles)
    };
    let known: BTreeMap<String, String> = known.iter().map(|line| edge(line)).collect();
    let mined: BTreeMap<String, String> = mined.iter().map(|line| edge(line)).collect();
    let mut count = 0;
    for name in known
        .keys()
        .chain(mined.keys().filter(|name| !known.contains_key(*name)))
    {
        let (before, now) = (known.get(name), mined.get(name));
        if before != now {
            let shown = |cycles: Option<&String>| cycles.map_or("none", String::as_str).to_owned();
            println!("{name}: {} in the table, {} now", shown(before), shown(now));
            count += 1;
        }
    }
    match count {
        0 => Ok(()),
        _ => Err(format!("{count} edges differ")),
    }
}

/// `cargo xtask mine`.
pub fn run(args: &[String]) -> Result<(), String> {
    if let [flag] = args
        && ["--calibrate", "--check"].contains(&flag.as_str())
    {
        return calibrate(flag == "--check");
    }
    let (table, files) = match args.split_first() {
        Some((first, rest)) if first == "--table" => (true, rest),
        _ => (false, args),
    };
    let mut mine = Mine::default();
    for path in files {
        if let Err(error) = mine.add(path) {
            println!("# left out: {error}");
        }
    }
    if table {
        for line in mine.table() {
            println!("{line}");
        }
        return Ok(());
    }
    for ((hazard, earlier, later), seen) in &mine.operations {
        let hazard = match hazard {
            Hazard::ReadAfterWrite => "RAW",
            Hazard::WriteAfterRead => "WAR",
            Hazard::WriteAfterWrite => "WAW",
            Hazard::Leaves => "CALL",
            Hazard::Counted => "COUNT",
            Hazard::Barrier => "BAR",
        };
        let cycles = seen
            .least()
            .map_or("-".to_owned(), |least| least.to_string());
        let covers: Vec<String> = (seen.covers.iter())
            .map(|(cover, count)| format!("{} {count}", cover.name()))
            .collect();
        println!(
            "{hazard} {earlier} -> {later}: {cycles} ({}) {}",
            covers.join(", "),
            seen.place
        );
    }
    let mut totals: BTreeMap<Cover, u64> = BTreeMap::new();
    for (cover, count) in mine.operations.values().flat_map(|seen| &seen.covers) {
        *totals.entry(*cover).or_default() += count;
    }
    for (cover, count) in totals {
        println!("{}: {count}", cover.name());
    }
    println!(
        "{} functions, {} instructions, {} edges",
        mine.functions,
        mine.instructions,
        mine.operations.len()
    );
    Ok(())
}
