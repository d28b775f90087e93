//! Takes the lines of the tables apart.

/// A class of operations with one timing. Names of variants are Rust as it is written out.
pub struct ClassRow<'t> {
    pub name: &'t str,
    pub completion: String,
    pub reads_in_order: bool,
    pub settles: bool,
    pub settled: bool,
    pub texture: bool,
    pub unit: &'static str,
    pub keeps: Vec<Keeps>,
    pub typical: Option<Cycles>,
    pub expected: Option<Cycles>,
    pub operations: Vec<&'t str>,
}

/// A unit that an instruction keeps, and for how many cycles.
pub type Keeps = (&'static str, u8);

pub struct Cycles {
    pub cycles: u16,
    pub provenance: &'static str,
}

/// Results or uses with one timing.
pub struct Group<'t> {
    pub class: &'t str,
    pub name: &'t str,
    /// A result of one pipe with one latency.
    pub one_latency: bool,
    /// A result that code on the other side of a call never reads late.
    pub not_late: bool,
    /// Cycles before a write of variable latency, where no latency tells.
    pub overwritten_late: Option<u8>,
    /// A use that code on the other side of a call may begin with.
    pub ordinary: bool,
    /// A use that is as early as any.
    pub arithmetic: bool,
}

/// A selector of a line, with the group the line is about: `PATTERN[/SLOT][+N][{MODIFIER=VALUE&MODIFIER=VALUE}]`.
pub struct Line<'t> {
    pub class: &'t str,
    /// The group's number; none for results that come with the read barrier.
    pub group: Option<usize>,
    pub pattern: Pattern<'t>,
    pub slot: Option<&'t str>,
    pub offset: u8,
    pub when: Vec<(&'t str, &'t str)>,
}

/// Which operations a selector is about.
pub enum Pattern<'t> {
    /// Those of a class, by its number.
    Class(usize),
    /// Those with this name, or with names that begin so.
    Name(&'t str),
}

#[derive(Default)]
pub struct Groups<'t> {
    pub results: Vec<Group<'t>>,
    pub uses: Vec<Group<'t>>,
    /// In the order of the table, which is the order in which they count.
    pub result_lines: Vec<Line<'t>>,
    pub use_lines: Vec<Line<'t>>,
}

/// What an edge leads from and to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum EdgeKind {
    /// From a result to a use.
    Latency,
    /// `overwrite`: from a result to a later result.
    Overwrite,
    /// `release`: from a use to a later result.
    Release,
}

/// A line `[overwrite|release] FILE FROM -> TO CYCLES …`.
pub struct EdgeLine<'t> {
    pub class: &'t str,
    pub kind: EdgeKind,
    pub from: &'t str,
    pub to: &'t str,
    /// One number or two.
    pub numbers: (u32, Option<u32>),
    /// When they were found out.
    pub date: &'t str,
}

/// One file of edges.
pub struct EdgeFile<'t> {
    pub name: &'static str,
    pub edges: Vec<EdgeLine<'t>>,
}

/// The lines that say something, with their numbers.
pub fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .map(|(index, line)| {
            let said = line.split('#').next().unwrap_or_default();
            (index + 1, said.trim_end())
        })
        .filter(|(_, line)| !line.is_empty())
}

pub fn number<T: std::str::FromStr>(word: Option<&str>) -> Result<T, String> {
    word.and_then(|word| word.parse().ok())
        .ok_or_else(|| format!("'{}' is not a number", word.unwrap_or_default()))
}

/// The variant that a word of a table stands for.
fn variant(
    what: &str,
    words: &[(&str, &'static str)],
    word: Option<&str>,
) -> Result<&'static str, String> {
    let word = word.unwrap_or_default();
    words
        .iter()
        .find(|(name, _)| *name == word)
        .map(|(_, variant)| *variant)
        .ok_or_else(|| format!("'{word}' is not a {what}"))
}

pub fn provenance(word: Option<&str>) -> Result<&'static str, String> {
    const WORDS: [(&str, &str); 4] = [
        ("measured", "Measured"),
        ("mined", "Mined"),
        ("published", "Published"),
        ("assumed", "Assumed"),
    ];
    variant("provenance", &WORDS, word)
}

pub fn unit(word: Option<&str>) -> Result<&'static str, String> {
    const WORDS: [(&str, &str); 14] = [
        ("alu", "Alu"),
        ("fma", "Fma"),
        ("half", "Half"),
        ("fp64", "Fp64"),
        ("special", "Special"),
        ("tensor", "Tensor"),
        ("group", "Group"),
        ("uniform", "Uniform"),
        ("uniform-move", "UniformMove"),
        ("constant", "Constant"),
        ("system", "System"),
        ("memory", "Memory"),
        ("barrier", "Barrier"),
        ("control", "Control"),
    ];
    variant("unit", &WORDS, word)
}

/// `UNIT N UNIT N …`
pub fn keeps(words: &[&str]) -> Result<Vec<Keeps>, String> {
    let pairs = words.chunks(2);
    pairs
        .map(|pair| Ok((unit(pair.first().copied())?, number(pair.get(1).copied())?)))
        .collect()
}

pub fn token(word: Option<&str>) -> Result<&'static str, String> {
    const WORDS: [(&str, &str); 5] = [
        ("proxy", "Proxy"),
        ("fence", "Fence"),
        ("mbarrier", "Mbarrier"),
        ("acquire", "Acquire"),
        ("registers", "Registers"),
    ];
    variant("token", &WORDS, word)
}

pub fn role(word: Option<&str>) -> Result<&'static str, String> {
    const WORDS: [(&str, &str); 4] = [
        ("writes", "Writes"),
        ("releases", "Releases"),
        ("needs", "Needs"),
        ("ensures", "Ensures"),
    ];
    variant("role", &WORDS, word)
}

fn queue(word: Option<&str>) -> Result<&'static str, String> {
    const WORDS: [(&str, &str); 5] = [
        ("shared", "Shared"),
        ("special", "Special"),
        ("barrier", "Barrier"),
        ("system", "System"),
        ("lanes", "Lanes"),
    ];
    variant("queue", &WORDS, word)
}

fn file(word: Option<&str>) -> Result<&'static str, String> {
    const WORDS: [(&str, &str); 5] = [
        ("R", "R"),
        ("P", "P"),
        ("UR", "UR"),
        ("UP", "UP"),
        ("B", "B"),
    ];
    variant("register file", &WORDS, word)
}

/// The classes; the first of a name counts, at the place of the last.
pub fn classes(text: &str) -> Result<Vec<ClassRow<'_>>, String> {
    let mut rows: Vec<ClassRow<'_>> = Vec::new();
    for (number, line) in lines(text) {
        let row = class(line).map_err(|error| format!("classes.tbl:{number}: {error}"))?;
        match rows.iter().position(|known| known.name == row.name) {
            // What a delta says takes the place of what it replaces, so that the order of patterns stays.
            Some(index) => {
                let own = rows.remove(index);
                rows.push(own);
            }
            None => rows.push(row),
        }
    }
    Ok(rows)
}

/// `class NAME COMPLETION [reads memory] … unit UNIT [keeps UNIT N …] PROVENANCE [typical|expected N PROVENANCE] : OPERATIONS`
fn class(line: &str) -> Result<ClassRow<'_>, String> {
    let (head, operations) = line.split_once(" : ").ok_or("no operations")?;
    let words: Vec<&str> = head.split_whitespace().collect();
    let mut words = words.into_iter().peekable();
    let mut row = ClassRow {
        name: "",
        completion: String::new(),
        reads_in_order: false,
        settles: false,
        settled: false,
        texture: false,
        unit: "",
        keeps: Vec::new(),
        typical: None,
        expected: None,
        operations: operations.split_whitespace().collect(),
    };
    while let Some(word) = words.next() {
        match word {
            "class" => row.name = words.next().unwrap_or_default(),
            "fixed" => row.completion = "Fixed".to_owned(),
            "variable" => row.completion = "Variable".to_owned(),
            "group" => row.completion = "Group".to_owned(),
            "queue" => row.completion = format!("InOrder(Queue::{})", queue(words.next())?),
            "reads" if words.next() == Some("memory") => row.reads_in_order = true,
            "settles" => row.settles = true,
            "settled" => row.settled = true,
            "texture" => row.texture = true,
            "unit" => {
                row.unit = unit(words.next())?;
                if words.next_if_eq(&"keeps").is_some() {
                    while provenance(words.peek().copied()).is_err() {
                        let pair = [words.next(), words.next()].map(Option::unwrap_or_default);
                        row.keeps.extend(keeps(&pair)?);
                    }
                }
                provenance(words.next())?;
            }
            "typical" | "expected" => {
                let cycles = Cycles {
                    cycles: number(words.next())?,
                    provenance: provenance(words.next())?,
                };
                match word {
                    "typical" => row.typical = Some(cycles),
                    _ => row.expected = Some(cycles),
                }
            }
            _ => return Err(format!("'{word}' is not understood")),
        }
    }
    if row.name.is_empty() || row.completion.is_empty() || row.unit.is_empty() {
        return Err("a class needs a name, a completion and a unit".to_owned());
    }
    if (row.completion == "Fixed") != row.expected.is_some()
        || row.typical.is_some() == row.expected.is_some()
    {
        return Err("`expected` of a fixed latency, `typical` of all others".to_owned());
    }
    Ok(row)
}

pub fn groups<'t>(text: &'t str, classes: &[ClassRow<'_>]) -> Result<Groups<'t>, String> {
    let mut groups = Groups::default();
    for (at, line) in lines(text) {
        let error = |message: String| format!("groups.tbl:{at}: {message}");
        let (head, selectors) = line
            .split_once(" : ")
            .ok_or_else(|| error("no selectors".to_owned()))?;
        let words: Vec<&str> = head.split_whitespace().collect();
        let [kind, class, name, flags @ ..] = &words[..] else {
            return Err(error("a kind, a register file and a name".to_owned()));
        };
        let (kind, class, name) = (*kind, *class, *name);
        file(Some(class)).map_err(error)?;
        let (list, lines) = match kind {
            "result" => (&mut groups.results, &mut groups.result_lines),
            "use" => (&mut groups.uses, &mut groups.use_lines),
            _ => return Err(error(format!("'{kind}' is neither result nor use"))),
        };
        let known = list
            .iter()
            .position(|group| group.class == class && group.name == name);
        let group = match known {
            _ if kind == "result" && name == "read-barrier" => None,
            Some(index) => Some(index),
            None => {
                list.push(Group {
                    class,
                    name,
                    one_latency: false,
                    not_late: false,
                    overwritten_late: None,
                    ordinary: false,
                    arithmetic: false,
                });
                Some(list.len() - 1)
            }
        };
        if let Some(index) = group {
            flag(&mut list[index], flags).map_err(error)?;
        } else if !flags.is_empty() {
            return Err(error("no flags for the read barrier".to_owned()));
        }
        for text in selectors.split_whitespace() {
            lines.push(selector(text, class, group, classes).map_err(error)?);
        }
    }
    Ok(groups)
}

fn flag(group: &mut Group<'_>, flags: &[&str]) -> Result<(), String> {
    let mut flags = flags.iter();
    while let Some(flag) = flags.next() {
        match *flag {
            "one-latency" => group.one_latency = true,
            "not-late" => group.not_late = true,
            "overwritten-late" => {
                group.overwritten_late = Some(number(flags.next().copied())?);
            }
            "ordinary" => group.ordinary = true,
            "arithmetic" => group.arithmetic = true,
            _ => return Err(format!("'{flag}' is not understood")),
        }
    }
    Ok(())
}

fn selector<'t>(
    text: &'t str,
    class: &'t str,
    group: Option<usize>,
    classes: &[ClassRow<'_>],
) -> Result<Line<'t>, String> {
    let bad = || format!("'{text}' is not a selector");
    let (rest, when) = match text.split_once('{') {
        Some((rest, condition)) => {
            let conditions = condition.strip_suffix('}').ok_or_else(bad)?.split('&');
            let when = conditions.map(|condition| condition.split_once('=').ok_or_else(bad));
            (rest, when.collect::<Result<Vec<_>, _>>()?)
        }
        None => (text, Vec::new()),
    };
    let (rest, offset) = match rest.split_once('+') {
        Some((rest, offset)) => (rest, offset.parse().map_err(|_| bad())?),
        None => (rest, 0),
    };
    let (pattern, slot) = match rest.split_once('/') {
        Some((pattern, slot)) => (pattern, Some(slot)),
        None => (rest, None),
    };
    let pattern = match pattern.strip_prefix('=') {
        Some(name) => {
            let known = classes.iter().position(|row| row.name == name);
            Pattern::Class(known.ok_or_else(|| format!("'{name}' is not a class"))?)
        }
        None => Pattern::Name(pattern),
    };
    Ok(Line {
        class,
        group,
        pattern,
        slot,
        offset,
        when,
    })
}

fn edge<'t>(line: &'t str, date: &'t str) -> Result<EdgeLine<'t>, String> {
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
    Ok(EdgeLine {
        class,
        kind,
        from,
        to,
        numbers: (first, second),
        date,
    })
}

/// The edges of a file. `date` is said before the lines it is about.
pub fn edges<'t>(name: &'static str, text: &'t str) -> Result<EdgeFile<'t>, String> {
    let mut file = EdgeFile {
        name,
        edges: Vec::new(),
    };
    let mut date = "";
    for (at, line) in lines(text) {
        match line.strip_prefix("date ") {
            Some(when) => date = when,
            None if date.is_empty() => return Err(format!("{name}:{at}: no date before it")),
            None => {
                let edge = edge(line, date).map_err(|error| format!("{name}:{at}: {error}"))?;
                file.edges.push(edge);
            }
        }
    }
    Ok(file)
}
