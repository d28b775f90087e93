//! Lines, blocks and abbreviations of a table file.

use std::collections::BTreeMap;

/// One line of a row: its words and where it stands.
pub struct Line {
    pub file: String,
    pub number: usize,
    pub words: Vec<String>,
    /// The whole line without its first word, for `text`.
    pub rest: String,
}

impl Line {
    /// A message that says where.
    pub fn error(&self, message: impl std::fmt::Display) -> String {
        format!("{}:{}: {message}", self.file, self.number)
    }
}

/// A row: `op NAME` and the lines below it.
pub struct Block {
    pub name: String,
    pub head: Line,
    pub lines: Vec<Line>,
}

/// Splits a file into rows. `let NAME words…` makes `$NAME` stand for those words in the rest of the file; `op NAME like
/// OTHER` starts with OTHER's lines, of which a line with the same subject replaces the copy and `drop SUBJECT` removes it.
pub fn read(file: &str, text: &str) -> Result<Vec<Block>, String> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut abbreviations: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (index, raw) in text.lines().enumerate() {
        let number = index + 1;
        let at = |message: String| format!("{file}:{number}: {message}");
        let line = raw.split('#').next().unwrap_or("").trim_end();
        let Some(first) = line.split_whitespace().next() else {
            continue;
        };
        let rest = line.trim_start()[first.len()..].trim().to_owned();
        let mut words = Vec::new();
        for word in line.split_whitespace() {
            match word.strip_prefix('$') {
                Some(name) => words.extend(
                    abbreviations
                        .get(name)
                        .ok_or_else(|| at(format!("${name} has no `let`")))?
                        .iter()
                        .cloned(),
                ),
                None => words.push(word.to_owned()),
            }
        }
        let line = Line {
            file: file.to_owned(),
            number,
            words,
            rest,
        };
        match first {
            "let" => {
                let [_, name, values @ ..] = line.words.as_slice() else {
                    return Err(at("`let` needs a name".to_owned()));
                };
                abbreviations.insert(name.clone(), values.to_vec());
            }
            "op" => {
                let copied = match line.words.as_slice() {
                    [_, _] => Vec::new(),
                    [_, _, like, other] if like == "like" => blocks
                        .iter()
                        .find(|block| &block.name == other)
                        .ok_or_else(|| at(format!("no row '{other}' above in this file")))?
                        .lines
                        .iter()
                        .map(|line| Line {
                            file: line.file.clone(),
                            number: line.number,
                            words: line.words.clone(),
                            rest: line.rest.clone(),
                        })
                        .collect(),
                    _ => return Err(at("expected `op NAME` or `op NAME like OTHER`".to_owned())),
                };
                blocks.push(Block {
                    name: line.words[1].clone(),
                    head: line,
                    lines: copied,
                });
            }
            _ => {
                let block = blocks
                    .last_mut()
                    .ok_or_else(|| at(format!("'{first}' stands before any `op`")))?;
                if first == "drop" {
                    for gone in &line.words[1..] {
                        let before = block.lines.len();
                        block.lines.retain(|line| &subject(line) != gone);
                        if block.lines.len() == before {
                            return Err(at(format!("nothing called '{gone}' to drop")));
                        }
                    }
                    continue;
                }
                // A copied line gives way to one with the same subject written in this row.
                let head = block.head.number;
                let subject_of_line = subject(&line);
                let replaced = block
                    .lines
                    .iter()
                    .position(|other| subject(other) == subject_of_line && (other.number < head));
                match replaced {
                    Some(position) if subject_of_line != "form" => block.lines[position] = line,
                    Some(_) => {
                        block
                            .lines
                            .retain(|other| other.number > head || subject(other) != "form");
                        block.lines.push(line);
                    }
                    None => block.lines.push(line),
                }
            }
        }
    }
    Ok(blocks)
}

/// What a line is about: the name of the slot or modifier, or the keyword.
fn subject(line: &Line) -> String {
    match line.words[0].as_str() {
        "mod" => line.words.get(1).cloned().unwrap_or_default(),
        other => other.to_owned(),
    }
}
