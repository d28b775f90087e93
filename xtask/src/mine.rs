//! `cargo xtask mine [--table] CUBIN…`, `cargo xtask mine --calibrate | --check`: the smallest distances finished code dares.
//!
//! Walks every function of the given cubins with `verify`'s flow and keeps, for each pair of operations and operands, the
//! smallest number of cycles between the two, and how often the dependence was covered in which way ([`Cover`]). What ptxas never
//! goes below is safe; this is where `verify` takes its latencies from.
//!
//! With `--table` the edges are those of `machine`'s groups, in the form of its `mined.tbl`. An edge seen less than
//! [`ENOUGH`] times is left out: its smallest distance says more about the program around it than about the chip.
//! With `--calibrate` what the half of the corpus shows that is set apart for it ([`crate::conformance::verify::calibration`]) goes into
//! that file; with `--check` it is an error if the file would change.

use orias_cubin::Cubin;
use orias_machine::Machine;
use orias_machine::timing::{Completion, Place, ResultGroup, UseGroup};
use orias_sass::{Instruction, Register, Target, modifier_names as name};
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
            let program =
                Program::of(&function, TARGET).map_err(|error| format!("{path}: {error}"))?;
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
        if ["fma", "high", "wide-low", "widened", "alu", "minmax"]
            .contains(&machine().result_name(written))
        {
            return None;
        }
        let other = match machine().use_name(used) {
            "fma" => "alu",
            "alu" => "fma",
            _ => return None,
        };
        let other = (machine().use_groups())
            .find(|g| machine().use_name(*g) == other && g.class() == used.class())?;
        self.latencies.get(&(written, other))
    }

    /// The edges of `mined.tbl`: cycles, and how often the edge was seen.
    ///
    /// A smallest distance beyond what is assumed to be enough was not chosen for the edge's sake, and says nothing.
    fn table(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for ((written, used), seen) in &self.latencies {
            let (needed, enough) = machine()
                .latencies()
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
                    machine().result_name(*written),
                    machine().use_name(*used),
                    seen.total()
                ));
            }
        }
        for ((written, later), seen) in &self.overwrites {
            if let Some(least) = seen.least().filter(|_| seen.total() >= ENOUGH) {
                lines.push(format!(
                    "overwrite {:?} {} -> {} {least} {}",
                    written.class(),
                    machine().result_name(*written),
                    machine().result_name(*later),
                    seen.total()
                ));
            }
        }
        for ((used, later), seen) in &self.releases {
            // Only what is written early can come before what is read late.
            let believed =
                |_: &u16| seen.total() >= ENOUGH && machine().result_name(*later) == "move";
            if let Some(least) = seen.least().filter(believed) {
                lines.push(format!(
                    "release {:?} {} -> {} {least} {}",
                    used.class(),
                    machine().use_name(*used),
                    machine().result_name(*later),
                    seen.total()
                ));
            }
        }
        lines
    }
}

/// The target whose code is read.
const TARGET: Target = Target::DEFAULT;

fn machine() -> &'static Machine {
    Machine::judging(TARGET)
}

/// An operand as the report names it: operation, register file and slot; the register's number in operands of several, and
/// the shape of matrix operations, since timing depends on them.
fn operand(instruction: &Instruction, place: Place, register: Register) -> String {
    let op = instruction.op();
    let mut text = op.name().to_owned();
    if (machine().timing(op)).is_some_and(|timing| machine().class_name(timing.class) == "tensor") {
        for modifier in [name::SHAPE, name::ACC, name::TYPE] {
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
    let timing = machine().timing(op);
    let fixed = timing.is_some_and(|timing| timing.completion == Completion::Fixed);
    let offset = if fixed { offset } else { String::new() };
    format!("{text} {:?}.{slot}{offset}", register.class)
}

/// An edge of the table: its name, cycles, and how often it was seen.
type Mined = BTreeMap<String, (u16, u64)>;

/// Reads lines of the table.
fn edges<'a>(lines: impl Iterator<Item = &'a str>) -> Result<Mined, String> {
    lines
        .map(|line| {
            let mut words = line.rsplitn(3, ' ');
            let mut number = || words.next().and_then(|word| word.parse::<u64>().ok());
            let numbers = number().zip(number());
            match (numbers, words.next()) {
                (Some((seen, cycles)), Some(name)) => {
                    let cycles = u16::try_from(cycles).map_err(|error| error.to_string())?;
                    Ok((name.to_owned(), (cycles, seen)))
                }
                _ => Err(format!("not an edge: {line}")),
            }
        })
        .collect()
}

/// `cargo xtask mine --calibrate`: takes what the calibrating half shows into `machine`'s table. An edge keeps the smallest distance
/// that was ever mined: which half of the exercises calibrates changes when exercises are added. With `check` nothing is written, and
/// it is an error if the table would change.
fn calibrate(check: bool) -> Result<(), String> {
    let mut mine = Mine::default();
    let cubins = crate::conformance::verify::calibration()?;
    for cubin in &cubins {
        if let Err(error) = mine.add(&cubin.to_string_lossy()) {
            println!("left out: {error}");
        }
    }
    let file = crate::oracle::repository().join("crates/machine/tables/sm_90/mined.tbl");
    let text = std::fs::read_to_string(&file).map_err(|error| error.to_string())?;
    let is_head =
        |line: &&str| line.is_empty() || line.starts_with('#') || line.starts_with("date ");
    let (head, rows): (Vec<&str>, Vec<&str>) = text.lines().partition(is_head);
    let known = edges(rows.iter().copied())?;
    let lines = mine.table();
    let mined = edges(lines.iter().map(String::as_str))?;
    println!(
        "{} edges of {} cubins, {} functions, {} instructions; {} in the table",
        mined.len(),
        cubins.len(),
        mine.functions,
        mine.instructions,
        known.len()
    );
    let mut changes = 0;
    let mut merged = known.clone();
    for (name, &(cycles, seen)) in &mined {
        match merged.get_mut(name) {
            Some(row) if row.0 > cycles => {
                println!("{name}: {} in the table, {cycles} now", row.0);
                *row = (cycles, seen);
                changes += 1;
            }
            Some(_) => {}
            None => {
                println!("{name}: {cycles}, not in the table");
                merged.insert(name.clone(), (cycles, seen));
                changes += 1;
            }
        }
    }
    let apart = |name: &&String| mined.get(*name).is_none_or(|row| row.0 > known[*name].0);
    let earlier = known.keys().filter(apart).count();
    println!("{earlier} edges of the table come from earlier calibrations");
    if check {
        return match changes {
            0 => Ok(()),
            _ => Err(format!("{changes} edges would change")),
        };
    }
    // Edges in the order they stand in, then new ones.
    let row = |name: &str| {
        let (cycles, seen) = merged[name];
        format!("{name} {cycles} {seen}")
    };
    let mut lines: Vec<String> = edges_in_order(&rows).iter().map(|name| row(name)).collect();
    lines.extend(
        merged
            .keys()
            .filter(|name| !known.contains_key(*name))
            .map(|name| row(name)),
    );
    let text = format!("{}\n\n{}\n", head.join("\n").trim_end(), lines.join("\n"));
    std::fs::write(&file, text).map_err(|error| error.to_string())
}

/// The names of edges, as the table has them.
fn edges_in_order(rows: &[&str]) -> Vec<String> {
    let name = |row: &&str| row.rsplitn(3, ' ').last().map(str::to_owned);
    rows.iter().filter_map(name).collect()
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
