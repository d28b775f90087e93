//! Reads the text tables.

use super::groups::{Group, Groups, READ_BARRIER, Selector};
use super::latencies::{Latencies, Overwrite, Provenance, Row, Source};
use super::{Class, ClassRow, Completion, Cycles, Pipe, Queue, ResultGroup, Tables, UseGroup};
use super::{Timing, names};
use orias_sass::{Op, RegisterClass};

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
    let timings: Vec<Option<Timing>> = Op::all()
        .map(|op| {
            let index = classes
                .iter()
                .position(|row| row.operations.iter().any(|pattern| names(pattern, op)))?;
            let row = &classes[index];
            Some(Timing {
                class: Class(index as u8),
                completion: row.completion,
                reads_in_order: row.reads_in_order,
                settles: row.settles,
                settled: row.settled,
                pipe: row.pipe,
                issue: row.issue,
                typical: row.typical,
            })
        })
        .collect();
    let groups = groups(&classes, &timings)?;
    let latencies = latencies(&groups)?;
    Ok(Tables {
        classes,
        timings,
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

fn groups(classes: &[ClassRow], timings: &[Option<Timing>]) -> Result<Groups, String> {
    let mut groups = Groups {
        result_rules: vec![Vec::new(); Op::COUNT],
        use_rules: vec![Vec::new(); Op::COUNT],
        ..Groups::default()
    };
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
        let (list, rules) = match kind {
            "result" => (&mut groups.results, &mut groups.result_rules),
            "use" => (&mut groups.uses, &mut groups.use_rules),
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
            let selector = Selector::parse(selector).map_err(error)?;
            for op in Op::all() {
                let Some(timing) = timings[op.index()] else {
                    continue;
                };
                rules[op.index()].extend(selector.rule(op, timing.class, classes, class, index));
            }
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
    numbers: Vec<u32>,
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
    let numbers = words
        .map(|word| number(Some(word)))
        .collect::<Result<Vec<u32>, _>>()?;
    if numbers.is_empty() {
        return Err("no cycles".to_owned());
    }
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

fn latencies(groups: &Groups) -> Result<Latencies, String> {
    let (measured_date, measured) = edges("measured.tbl", MEASURED)?;
    let (mined_date, mined) = edges("mined.tbl", MINED)?;
    let (assumed_date, assumed) = edges("assumed.tbl", ASSUMED)?;
    let known = |list: &[Group], class, name: &str| {
        name == "*"
            || list
                .iter()
                .any(|group| group.class == class && group.name == name)
    };
    for line in measured.iter().chain(&mined).chain(&assumed) {
        let (from, to) = match line.kind {
            EdgeKind::Latency => (&groups.results, &groups.uses),
            EdgeKind::Overwrite => (&groups.results, &groups.results),
            EdgeKind::Release => (&groups.uses, &groups.results),
        };
        if !known(from, line.class, line.from) || !known(to, line.class, line.to) {
            return Err(format!(
                "{:?} {} -> {}: no such groups",
                line.class, line.from, line.to
            ));
        }
    }
    let find = |lines: &[EdgeLine], kind: EdgeKind, from: &Group, to: &Group| {
        lines
            .iter()
            .find(|line| {
                line.kind == kind
                    && line.class == from.class
                    && (line.from == from.name || line.from == "*")
                    && (line.to == to.name || line.to == "*")
            })
            .map(|line| line.numbers.clone())
    };
    let source = |numbers: Option<Vec<u32>>, date| {
        numbers.map(|numbers| Source {
            cycles: numbers[0] as u8,
            seen: numbers.get(1).copied().unwrap_or_default(),
            date,
        })
    };
    let mut edges = Vec::new();
    for (index, from) in groups.results.iter().enumerate() {
        for (used, to) in groups.uses.iter().enumerate() {
            if from.class != to.class {
                edges.push(None);
                continue;
            }
            let assumed = find(&assumed, EdgeKind::Latency, from, to).ok_or_else(|| {
                format!(
                    "assumed.tbl: nothing for {:?} {} -> {}",
                    from.class, from.name, to.name
                )
            })?;
            let [least, most] = assumed[..] else {
                return Err("assumed.tbl: a least and a most number of cycles".to_owned());
            };
            edges.push(Some(Row {
                result: ResultGroup(index as u8),
                used: UseGroup(used as u8),
                measured: source(find(&measured, EdgeKind::Latency, from, to), measured_date),
                mined: source(find(&mined, EdgeKind::Latency, from, to), mined_date),
                assumed: (least as u8, most as u8),
                assumed_date,
            }));
        }
    }
    let uses = groups.uses.len();
    let longest = |index: usize| {
        (edges[index * uses..(index + 1) * uses].iter().flatten())
            .map(|row| row.latency(super::Table::Safe).cycles)
            .max()
            .unwrap_or(1)
    };
    // By how many cycles the earlier result comes later than the other one would, to any use that both are known to have.
    let known = |row: &Row| row.measured.or(row.mined).map(|source| source.cycles);
    let later_by = |earlier: usize, later: usize| {
        (0..uses)
            .filter_map(|used| {
                let of = |result: usize| edges[result * uses + used].as_ref().and_then(known);
                Some(of(earlier)?.saturating_sub(of(later)?))
            })
            .max()
    };
    let mut overwrites = Vec::new();
    for (earlier, from) in groups.results.iter().enumerate() {
        for (later, to) in groups.results.iter().enumerate() {
            // Of one pipe the later one lands later, as long as the pipe has one latency.
            let one_latency = [
                "fma", "alu", "half", "widened", "minmax", "high", "wide-low", "fp64",
            ];
            let same = earlier == later && one_latency.contains(&from.name);
            let mined = find(&mined, EdgeKind::Overwrite, from, to).filter(|_| !same);
            let by = later_by(earlier, later)
                .unwrap_or_else(|| longest(earlier).saturating_sub(longest(later)));
            let stated =
                find(&assumed, EdgeKind::Overwrite, from, to).filter(|pair| pair.len() == 2);
            overwrites.push((from.class == to.class).then(|| match stated {
                Some(pair) => Overwrite {
                    mined: Some(Source {
                        cycles: pair[0] as u8,
                        seen: 0,
                        date: assumed_date,
                    }),
                    derived: pair[1] as u8,
                    longest: pair[1] as u8,
                },
                None => Overwrite {
                    mined: source(mined, mined_date),
                    derived: by + 1,
                    longest: longest(earlier),
                },
            }));
        }
    }
    let mut releases = Vec::new();
    for from in &groups.uses {
        for to in &groups.results {
            let known = find(&mined, EdgeKind::Release, from, to).map(|numbers| numbers[0] as u8);
            let assumed = find(&assumed, EdgeKind::Release, from, to)
                .map_or((1, 1), |numbers| (numbers[0] as u8, numbers[1] as u8));
            releases.push((from.class == to.class).then_some(match known {
                Some(mined) => (mined, mined),
                None => assumed,
            }));
        }
    }
    Ok(Latencies {
        releases,
        edges,
        uses,
        overwrites,
        results: groups.results.len(),
    })
}
