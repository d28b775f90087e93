//! Reads the text tables.

use super::groups::{Group, Groups, Line, READ_BARRIER, Selector};
use super::latencies::{Latencies, Overwrite, Provenance, Row, Source};
use super::{ClassRow, Completion, Cycles, Pipe, Queue, ResultGroup, Tables, UseGroup};
use orias_sass::RegisterClass;

const CLASSES: &str = include_str!("../../tables/sm_90/classes.tbl");
const GROUPS: &str = include_str!("../../tables/sm_90/groups.tbl");
const MEASURED: &str = include_str!("../../tables/sm_90/measured.tbl");
const MINED: &str = include_str!("../../tables/sm_90/mined.tbl");
const ASSUMED: &str = include_str!("../../tables/sm_90/assumed.tbl");

/// The tables of sm_90.
pub(super) fn sm_90() -> Result<Tables, String> {
    let classes = lines(CLASSES)
        .map(|(number, line)| class(line).map_err(|error| format!("classes.tbl:{number}: {error}")))
        .collect::<Result<Vec<_>, _>>()?;
    let groups = groups(&classes)?;
    let latencies = latencies(&groups)?;
    Ok(Tables {
        classes,
        groups,
        latencies,
    })
}

/// The lines that say something, with their numbers.
fn lines(text: &'static str) -> impl Iterator<Item = (usize, &'static str)> {
    text.lines()
        .enumerate()
        .map(|(index, line)| {
            (
                index + 1,
                line.split('#').next().unwrap_or_default().trim_end(),
            )
        })
        .filter(|(_, line)| !line.is_empty())
}

fn number<T: std::str::FromStr>(word: Option<&str>) -> Result<T, String> {
    word.and_then(|word| word.parse().ok())
        .ok_or_else(|| format!("'{}' is not a number", word.unwrap_or_default()))
}

fn provenance(word: Option<&str>) -> Result<Provenance, String> {
    match word {
        Some("measured") => Ok(Provenance::Measured),
        Some("mined") => Ok(Provenance::Mined),
        Some("published") => Ok(Provenance::Published),
        Some("assumed") => Ok(Provenance::Assumed),
        _ => Err(format!(
            "'{}' is not a provenance",
            word.unwrap_or_default()
        )),
    }
}

fn file(word: Option<&str>) -> Result<RegisterClass, String> {
    match word {
        Some("R") => Ok(RegisterClass::R),
        Some("P") => Ok(RegisterClass::P),
        Some("UR") => Ok(RegisterClass::UR),
        Some("UP") => Ok(RegisterClass::UP),
        Some("B") => Ok(RegisterClass::B),
        _ => Err(format!(
            "'{}' is not a register file",
            word.unwrap_or_default()
        )),
    }
}

/// `class NAME pipe PIPE COMPLETION [reads memory] issue N PROVENANCE [typical N PROVENANCE] : OPERATIONS`
fn class(line: &'static str) -> Result<ClassRow, String> {
    let (head, operations) = line.split_once(" : ").ok_or("no operations")?;
    let mut words = head.split_whitespace();
    let mut row = ClassRow {
        name: "",
        completion: Completion::Fixed,
        reads_in_order: false,
        settles: false,
        settled: false,
        pipe: Pipe::Control,
        issue: Cycles {
            cycles: 0,
            provenance: Provenance::Assumed,
        },
        typical: None,
        operations: operations.split_whitespace().collect(),
    };
    while let Some(word) = words.next() {
        match word {
            "class" => row.name = words.next().unwrap_or_default(),
            "pipe" => row.pipe = pipe(words.next())?,
            "fixed" => row.completion = Completion::Fixed,
            "variable" => row.completion = Completion::Variable,
            "group" => row.completion = Completion::Group,
            "queue" => row.completion = Completion::InOrder(queue(words.next())?),
            "reads" if words.next() == Some("memory") => row.reads_in_order = true,
            "settles" => row.settles = true,
            "settled" => row.settled = true,
            "issue" | "typical" => {
                let cycles = Cycles {
                    cycles: number(words.next())?,
                    provenance: provenance(words.next())?,
                };
                if word == "issue" {
                    row.issue = cycles;
                } else {
                    row.typical = Some(cycles);
                }
            }
            _ => return Err(format!("'{word}' is not understood")),
        }
    }
    if row.name.is_empty() || row.issue.cycles == 0 {
        return Err("a class needs a name and an issue interval".to_owned());
    }
    Ok(row)
}

fn pipe(word: Option<&str>) -> Result<Pipe, String> {
    Ok(match word {
        Some("fma") => Pipe::Fma,
        Some("alu") => Pipe::Alu,
        Some("half") => Pipe::Half,
        Some("fp64") => Pipe::Fp64,
        Some("tensor") => Pipe::Tensor,
        Some("uniform") => Pipe::Uniform,
        Some("control") => Pipe::Control,
        Some("special") => Pipe::Special,
        Some("constant") => Pipe::Constant,
        Some("memory") => Pipe::Memory,
        _ => return Err(format!("'{}' is not a pipe", word.unwrap_or_default())),
    })
}

fn queue(word: Option<&str>) -> Result<Queue, String> {
    Ok(match word {
        Some("shared") => Queue::Shared,
        Some("special") => Queue::Special,
        Some("barrier") => Queue::Barrier,
        Some("system") => Queue::System,
        Some("lanes") => Queue::Lanes,
        _ => return Err(format!("'{}' is not a queue", word.unwrap_or_default())),
    })
}

fn groups(classes: &[ClassRow]) -> Result<Groups, String> {
    let mut groups = Groups::default();
    for (at, line) in lines(GROUPS) {
        let error = |message: String| format!("groups.tbl:{at}: {message}");
        let (head, selectors) = line
            .split_once(" : ")
            .ok_or_else(|| error("no selectors".to_owned()))?;
        let words: Vec<&'static str> = head.split_whitespace().collect();
        let [kind, class, name] = words[..] else {
            return Err(error("a kind, a register file and a name".to_owned()));
        };
        let class = file(Some(class)).map_err(error)?;
        let (list, lines) = match kind {
            "result" => (&mut groups.results, &mut groups.result_lines),
            "use" => (&mut groups.uses, &mut groups.use_lines),
            _ => return Err(error(format!("'{kind}' is neither result nor use"))),
        };
        let known = list
            .iter()
            .position(|group| group.class == class && group.name == name);
        let index = match known {
            _ if kind == "result" && name == "read-barrier" => READ_BARRIER,
            Some(index) => index as u8,
            None => {
                list.push(Group { class, name });
                (list.len() - 1) as u8
            }
        };
        for selector in selectors.split_whitespace() {
            lines.push(Line {
                class,
                group: index,
                selector: Selector::parse(selector, classes).map_err(error)?,
            });
        }
    }
    Ok(groups)
}

/// What an edge leads from and to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EdgeKind {
    /// From a result to a use.
    Latency,
    /// `overwrite`: from a result to a later result.
    Overwrite,
    /// `release`: from a use to a later result.
    Release,
}

/// A line `[overwrite|release] FILE FROM -> TO CYCLES …`.
struct EdgeLine {
    class: RegisterClass,
    kind: EdgeKind,
    from: &'static str,
    to: &'static str,
    /// One number or two.
    numbers: (u32, Option<u32>),
}

fn edge(line: &'static str) -> Result<EdgeLine, String> {
    let (line, kind) = if let Some(rest) = line.strip_prefix("overwrite ") {
        (rest, EdgeKind::Overwrite)
    } else if let Some(rest) = line.strip_prefix("release ") {
        (rest, EdgeKind::Release)
    } else {
        (line, EdgeKind::Latency)
    };
    let mut words = line.split_whitespace();
    let class = file(words.next())?;
    let from = words.next().ok_or("no result group")?;
    if words.next() != Some("->") {
        return Err("no arrow".to_owned());
    }
    let to = words.next().ok_or("no use group")?;
    let first = number(words.next())?;
    let second = match words.next() {
        Some(word) => Some(number(Some(word))?),
        None => None,
    };
    if let Some(word) = words.next() {
        return Err(format!("'{word}' is not understood"));
    }
    let numbers = (first, second);
    Ok(EdgeLine {
        class,
        kind,
        from,
        to,
        numbers,
    })
}

/// The edges of one file, with the date it begins with.
fn edges(name: &str, text: &'static str) -> Result<(&'static str, Vec<EdgeLine>), String> {
    let mut date = "";
    let mut edges = Vec::new();
    for (at, line) in lines(text) {
        match line.strip_prefix("date ") {
            Some(when) => date = when,
            None => edges.push(edge(line).map_err(|error| format!("{name}:{at}: {error}"))?),
        }
    }
    if date.is_empty() {
        return Err(format!("{name}: no date"));
    }
    Ok((date, edges))
}

/// What one file says of all edges of one kind: the first line that fits counts.
struct Matrix {
    numbers: Vec<Option<(u32, Option<u32>)>>,
    columns: usize,
}

impl Matrix {
    /// Lines are laid over each other from the last to the first, so that a line costs no more than the edges it is about.
    fn new(
        file: &str,
        lines: &[EdgeLine],
        kind: EdgeKind,
        from: &[Group],
        to: &[Group],
    ) -> Result<Self, String> {
        let mut matrix = Self {
            numbers: vec![None; from.len() * to.len()],
            columns: to.len(),
        };
        for line in lines.iter().rev().filter(|line| line.kind == kind) {
            let named = |list: &[Group], name: &str| {
                let fits = |group: &Group| {
                    group.class == line.class && (name == "*" || group.name == name)
                };
                let found: Vec<usize> = (0..list.len()).filter(|at| fits(&list[*at])).collect();
                if found.is_empty() && name != "*" {
                    return Err(format!("{file}: no group {:?} {name}", line.class));
                }
                Ok(found)
            };
            let columns = named(to, line.to)?;
            for row in named(from, line.from)? {
                for column in &columns {
                    matrix.numbers[row * matrix.columns + column] = Some(line.numbers);
                }
            }
        }
        Ok(matrix)
    }

    fn get(&self, row: usize, column: usize) -> Option<(u32, Option<u32>)> {
        self.numbers[row * self.columns + column]
    }
}

fn latencies(groups: &Groups) -> Result<Latencies, String> {
    let (measured_date, measured) = edges("measured.tbl", MEASURED)?;
    let (mined_date, mined) = edges("mined.tbl", MINED)?;
    let (assumed_date, assumed) = edges("assumed.tbl", ASSUMED)?;
    let (results, uses) = (&groups.results[..], &groups.uses[..]);
    let of = |file, lines: &[EdgeLine], kind| match kind {
        EdgeKind::Latency => Matrix::new(file, lines, kind, results, uses),
        EdgeKind::Overwrite => Matrix::new(file, lines, kind, results, results),
        EdgeKind::Release => Matrix::new(file, lines, kind, uses, results),
    };
    if let Some(line) = (measured.iter()).find(|line| line.kind != EdgeKind::Latency) {
        return Err(format!(
            "measured.tbl: only latencies are measured, not {:?} {} -> {}",
            line.class, line.from, line.to
        ));
    }
    let measured_latencies = of("measured.tbl", &measured, EdgeKind::Latency)?;
    let mined_latencies = of("mined.tbl", &mined, EdgeKind::Latency)?;
    let mined_overwrites = of("mined.tbl", &mined, EdgeKind::Overwrite)?;
    let mined_releases = of("mined.tbl", &mined, EdgeKind::Release)?;
    let assumed_latencies = of("assumed.tbl", &assumed, EdgeKind::Latency)?;
    let assumed_overwrites = of("assumed.tbl", &assumed, EdgeKind::Overwrite)?;
    let assumed_releases = of("assumed.tbl", &assumed, EdgeKind::Release)?;
    let source = |(cycles, seen): (u32, Option<u32>), date| Source {
        cycles: cycles as u8,
        seen: seen.unwrap_or_default(),
        date,
    };
    let mut edges = Vec::with_capacity(results.len() * uses.len());
    for (index, from) in results.iter().enumerate() {
        for (used, to) in uses.iter().enumerate() {
            if from.class != to.class {
                edges.push(None);
                continue;
            }
            let Some((least, Some(most))) = assumed_latencies.get(index, used) else {
                return Err(format!(
                    "assumed.tbl: no least and most number of cycles for {:?} {} -> {}",
                    from.class, from.name, to.name
                ));
            };
            edges.push(Some(Row {
                result: ResultGroup(index as u8),
                used: UseGroup(used as u8),
                measured: (measured_latencies.get(index, used))
                    .map(|numbers| source(numbers, measured_date)),
                mined: (mined_latencies.get(index, used))
                    .map(|numbers| source(numbers, mined_date)),
                assumed: (least as u8, most as u8),
                assumed_date,
            }));
        }
    }
    let count = uses.len();
    let longest: Vec<u8> = edges
        .chunks(count)
        .map(|row| {
            (row.iter().flatten())
                .map(|row| row.latency(super::Table::Safe).cycles)
                .max()
                .unwrap_or(1)
        })
        .collect();
    // By how many cycles the earlier result comes later than the other one would, to any use that both are known to have.
    let known: Vec<Option<u8>> = edges
        .iter()
        .map(|edge| {
            let row = edge.as_ref()?;
            row.measured.or(row.mined).map(|source| source.cycles)
        })
        .collect();
    let later_by = |earlier: usize, later: usize| {
        let of = |result: usize| known[result * count..][..count].iter();
        (of(earlier).zip(of(later)))
            .filter_map(|(earlier, later)| Some((*earlier)?.saturating_sub((*later)?)))
            .max()
    };
    let mut overwrites = Vec::with_capacity(results.len() * results.len());
    for (earlier, from) in results.iter().enumerate() {
        for (later, to) in results.iter().enumerate() {
            if from.class != to.class {
                overwrites.push(None);
                continue;
            }
            overwrites.push(Some(match assumed_overwrites.get(earlier, later) {
                Some((least, Some(most))) => Overwrite {
                    mined: Some(Source {
                        cycles: least as u8,
                        seen: 0,
                        date: assumed_date,
                    }),
                    derived: most as u8,
                    longest: most as u8,
                },
                _ => {
                    // Of one pipe the later one lands later, as long as the pipe has one latency.
                    let one_latency = [
                        "fma", "alu", "half", "widened", "minmax", "high", "wide-low", "fp64",
                    ];
                    let same = earlier == later && one_latency.contains(&from.name);
                    let by = later_by(earlier, later)
                        .unwrap_or_else(|| longest[earlier].saturating_sub(longest[later]));
                    Overwrite {
                        mined: (mined_overwrites.get(earlier, later))
                            .filter(|_| !same)
                            .map(|numbers| source(numbers, mined_date)),
                        derived: by + 1,
                        longest: longest[earlier],
                    }
                }
            }));
        }
    }
    let mut releases = Vec::with_capacity(uses.len() * results.len());
    for (used, from) in uses.iter().enumerate() {
        for (later, to) in results.iter().enumerate() {
            if from.class != to.class {
                releases.push(None);
                continue;
            }
            let mined = mined_releases.get(used, later);
            releases.push(Some(match (mined, assumed_releases.get(used, later)) {
                (Some((mined, _)), _) => (mined as u8, mined as u8),
                (None, Some((least, Some(most)))) => (least as u8, most as u8),
                (None, Some((least, None))) => (least as u8, least as u8),
                (None, None) => (1, 1),
            }));
        }
    }
    Ok(Latencies {
        releases,
        edges,
        uses: count,
        overwrites,
        results: results.len(),
    })
}
