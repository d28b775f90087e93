//! What the three files of cycles say together.

use crate::read::{EdgeFile, EdgeKind, EdgeLine, Group, Groups};

pub struct Files<'t> {
    pub measured: EdgeFile<'t>,
    pub mined: EdgeFile<'t>,
    pub assumed: EdgeFile<'t>,
}

/// What one file says of an edge.
#[derive(Clone, Copy)]
pub struct EdgeRecord<'t> {
    pub cycles: u8,
    pub seen: u32,
    pub date: &'t str,
}

/// Everything known of an edge from a result to a use.
pub struct Row<'t> {
    pub measured: Option<EdgeRecord<'t>>,
    pub mined: Option<EdgeRecord<'t>>,
    pub assumed: (u8, u8),
    pub assumed_date: &'t str,
}

/// What is known of two writes of one register.
pub struct Overwrite<'t> {
    pub mined: Option<EdgeRecord<'t>>,
    pub derived: u8,
    pub longest: u8,
}

/// Tables by two groups each; nothing where the register files differ.
pub struct Latencies<'t> {
    pub edges: Vec<Option<Row<'t>>>,
    pub overwrites: Vec<Option<Overwrite<'t>>>,
    pub releases: Vec<Option<(u8, u8)>>,
}

/// What a line says: one number or two, and when they were found out.
type Said<'t> = (u32, Option<u32>, &'t str);

/// What one file says of all edges of one kind: the first line that fits counts.
struct Matrix<'t> {
    numbers: Vec<Option<Said<'t>>>,
    columns: usize,
}

impl<'t> Matrix<'t> {
    /// Lines are laid over each other from the last to the first.
    fn new(
        file: &EdgeFile<'t>,
        kind: EdgeKind,
        from: &[Group<'_>],
        to: &[Group<'_>],
    ) -> Result<Self, String> {
        let mut matrix = Self {
            numbers: vec![None; from.len() * to.len()],
            columns: to.len(),
        };
        for line in file.edges.iter().rev().filter(|line| line.kind == kind) {
            let columns = named(file.name, line, to, line.to)?;
            for row in named(file.name, line, from, line.from)? {
                for column in &columns {
                    matrix.numbers[row * matrix.columns + column] =
                        Some((line.numbers.0, line.numbers.1, line.date));
                }
            }
        }
        Ok(matrix)
    }

    fn get(&self, row: usize, column: usize) -> Option<Said<'t>> {
        self.numbers[row * self.columns + column]
    }
}

/// The groups of a line's register file that have `name`; `*` is all of them.
fn named(
    file: &str,
    line: &EdgeLine<'_>,
    list: &[Group<'_>],
    name: &str,
) -> Result<Vec<usize>, String> {
    let fits = |group: &Group<'_>| group.class == line.class && (name == "*" || group.name == name);
    let found: Vec<usize> = (0..list.len()).filter(|at| fits(&list[*at])).collect();
    if found.is_empty() && name != "*" {
        return Err(format!("{file}: no group {} {name}", line.class));
    }
    Ok(found)
}

/// What finished code may rely on: what `Row::latency` of the library says of the safe table.
fn safe(row: &Row<'_>) -> u8 {
    match (row.measured, row.mined) {
        (None, Some(mined)) => mined.cycles,
        (Some(measured), Some(mined)) => measured.cycles.max(mined.cycles),
        (Some(measured), None) if measured.cycles >= row.assumed.0 => measured.cycles,
        (_, None) => row.assumed.1,
    }
}

pub fn combine<'t>(groups: &Groups<'_>, files: &Files<'t>) -> Result<Latencies<'t>, String> {
    let Files {
        measured,
        mined,
        assumed,
    } = files;
    let (results, uses) = (&groups.results[..], &groups.uses[..]);
    let of = |file, kind| match kind {
        EdgeKind::Latency => Matrix::new(file, kind, results, uses),
        EdgeKind::Overwrite => Matrix::new(file, kind, results, results),
        EdgeKind::Release => Matrix::new(file, kind, uses, results),
    };
    if let Some(line) = (measured.edges.iter()).find(|line| line.kind != EdgeKind::Latency) {
        return Err(format!(
            "{}: only latencies are measured, not {} {} -> {}",
            measured.name, line.class, line.from, line.to
        ));
    }
    let measured_latencies = of(measured, EdgeKind::Latency)?;
    let mined_latencies = of(mined, EdgeKind::Latency)?;
    let assumed_latencies = of(assumed, EdgeKind::Latency)?;
    let source = |(cycles, seen, date): Said<'t>| EdgeRecord {
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
            let Some((least, Some(most), assumed_date)) = assumed_latencies.get(index, used) else {
                return Err(format!(
                    "{}: no least and most number of cycles for {} {} -> {}",
                    assumed.name, from.class, from.name, to.name
                ));
            };
            edges.push(Some(Row {
                measured: measured_latencies.get(index, used).map(source),
                mined: mined_latencies.get(index, used).map(source),
                assumed: (least as u8, most as u8),
                assumed_date,
            }));
        }
    }
    let releases = releases(
        groups,
        &of(mined, EdgeKind::Release)?,
        &of(assumed, EdgeKind::Release)?,
    );
    let mined_overwrites = of(mined, EdgeKind::Overwrite)?;
    let assumed_overwrites = of(assumed, EdgeKind::Overwrite)?;
    let count = uses.len();
    let longest: Vec<u8> = edges
        .chunks(count)
        .map(|row| row.iter().flatten().map(safe).max().unwrap_or(1))
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
                Some((least, Some(most), date)) => Overwrite {
                    mined: Some(source((least, None, date))),
                    derived: most as u8,
                    longest: most as u8,
                },
                _ => {
                    let same = earlier == later && from.one_latency;
                    let by = later_by(earlier, later)
                        .unwrap_or_else(|| longest[earlier].saturating_sub(longest[later]));
                    Overwrite {
                        mined: (mined_overwrites.get(earlier, later))
                            .filter(|_| !same)
                            .map(source),
                        derived: by + 1,
                        longest: longest[earlier],
                    }
                }
            }));
        }
    }
    Ok(Latencies {
        edges,
        overwrites,
        releases,
    })
}

/// Cycles after which a use has been read, at least and at most.
fn releases(
    groups: &Groups<'_>,
    mined: &Matrix<'_>,
    assumed: &Matrix<'_>,
) -> Vec<Option<(u8, u8)>> {
    let mut releases = Vec::with_capacity(groups.uses.len() * groups.results.len());
    for (used, from) in groups.uses.iter().enumerate() {
        for (later, to) in groups.results.iter().enumerate() {
            if from.class != to.class {
                releases.push(None);
                continue;
            }
            releases.push(Some(
                match (mined.get(used, later), assumed.get(used, later)) {
                    (Some((mined, ..)), _) => (mined as u8, mined as u8),
                    (None, Some((least, Some(most), _))) => (least as u8, most as u8),
                    (None, Some((least, None, _))) => (least as u8, least as u8),
                    (None, None) => (1, 1),
                },
            ));
        }
    }
    releases
}
