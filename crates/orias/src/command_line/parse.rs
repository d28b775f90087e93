//! From arguments to an [`Invocation`].

use super::invocation::{Action, Input, Invocation};
use super::options_file::split_options_file;
use super::table::{OPTIONS, OptionRow, Status, Takes, Value};
use crate::diagnostics::{Diagnostic, Diagnostics, Severity};

/// How many options files may be open inside each other.
const MAX_OPEN_FILES: usize = 15;

/// How many arguments options files may expand to in all. Files that include each other twice would otherwise double the
/// work at each of the levels above.
const MAX_ARGUMENTS_FROM_FILES: usize = 1 << 20;

/// Options whose values are wrong even when there is nothing to compile.
const CHECKED_AT_ONCE: &[&str] = &["gpu-name"];

/// Reads ptxas's command line, the program's own name left out.
///
/// A refusal holds the remarks that arose before the error, and the error last.
/// `read_file` returns the contents of an options file, or nothing when it cannot be read.
///
/// ```
/// use orias::command_line::{Input, parse};
///
/// let arguments = ["-arch=sm_90a", "-O2", "a.ptx", "-o", "a.cubin"].map(String::from);
/// let invocation = parse(arguments, &mut |_| None).unwrap();
/// assert_eq!(invocation.options.target.to_string(), "sm_90a");
/// assert_eq!(invocation.options.opt_level, 2);
/// assert_eq!(invocation.inputs, [Input::File("a.ptx".into())]);
/// assert_eq!(invocation.output, "a.cubin");
/// ```
pub fn parse(
    arguments: impl IntoIterator<Item = String>,
    read_file: &mut dyn FnMut(&str) -> Option<Vec<u8>>,
) -> Result<Invocation, Diagnostics> {
    Reader::new(arguments, false).parse(read_file)
}

/// Options that are about files or about the command itself.
const OF_THE_COMMAND: &[&str] = &[
    "compiler-stats-file",
    "help",
    "input-as-string",
    "knob-file",
    "list-version",
    "options-file",
    "output-file",
    "version",
];

/// Reads the options for modules that are in memory: nothing is read or written, so what names a file is refused. The target must be
/// named, and the calling thread compiles alone unless `--split-compile` says otherwise.
///
/// ```
/// use orias::command_line::parse_options;
///
/// let options = parse_options(["-arch=sm_90a", "-v"].map(String::from)).unwrap().options;
/// assert!(options.verbose);
/// assert!(parse_options(["-arch=sm_90a", "a.ptx"].map(String::from)).is_err());
/// ```
pub fn parse_options(
    arguments: impl IntoIterator<Item = String>,
) -> Result<Invocation, Diagnostics> {
    Reader::new(arguments, true).parse(&mut |_| None)
}

struct Reader {
    /// The command line and the open options files, innermost last.
    sources: Vec<std::vec::IntoIter<String>>,
    arguments_from_files: usize,
    /// What each row of the table was given.
    values: Vec<Option<Value>>,
    inputs: Vec<Input>,
    remarks: Vec<Diagnostic>,
    /// Whether the modules are in memory.
    in_memory: bool,
}

/// An option as it stands in an argument.
struct Spelled<'a> {
    row: usize,
    /// The name with its dashes, for messages.
    dashed: &'a str,
    /// What follows `=`, or follows the letter directly.
    attached: Option<&'a str>,
    /// Whether the next argument may be its value.
    takes_next: bool,
}

impl Reader {
    fn new(arguments: impl IntoIterator<Item = String>, in_memory: bool) -> Self {
        Self {
            sources: vec![arguments.into_iter().collect::<Vec<_>>().into_iter()],
            arguments_from_files: 0,
            values: vec![None; OPTIONS.len()],
            inputs: Vec::new(),
            remarks: Vec::new(),
            in_memory,
        }
    }

    fn parse(
        mut self,
        read_file: &mut dyn FnMut(&str) -> Option<Vec<u8>>,
    ) -> Result<Invocation, Diagnostics> {
        match self.read(read_file) {
            Ok(()) => self.apply(),
            Err(error) => Err(refuse(self.remarks, error)),
        }
    }

    fn read(
        &mut self,
        read_file: &mut dyn FnMut(&str) -> Option<Vec<u8>>,
    ) -> Result<(), Diagnostic> {
        while let Some(source) = self.sources.last_mut() {
            let Some(argument) = source.next() else {
                self.sources.pop();
                continue;
            };
            if self.in_memory && (argument == "-" || !argument.starts_with('-')) {
                let what = "is no option, and modules come from memory";
                return Err(fatal(format!("'{argument}' {what}")));
            }
            if argument == "-" {
                self.inputs.push(Input::StandardInput);
            } else if argument.starts_with('-') {
                let spelled = find_option(&argument)?;
                self.option(&spelled, read_file)?;
            } else {
                self.inputs.push(Input::File(argument));
            }
        }
        Ok(())
    }

    fn option(
        &mut self,
        spelled: &Spelled<'_>,
        read_file: &mut dyn FnMut(&str) -> Option<Vec<u8>>,
    ) -> Result<(), Diagnostic> {
        let row = &OPTIONS[spelled.row];
        if self.in_memory && OF_THE_COMMAND.contains(&row.long) {
            let what = "is for files, and modules come from memory";
            return Err(fatal(format!("Option '--{}' {what}", row.long)));
        }
        let text = match (row.takes, spelled.attached) {
            (Takes::Nothing, None) => String::new(),
            (Takes::Nothing, Some(_)) => {
                return Err(fatal(format!(
                    "no argument expected after '{}'",
                    spelled.dashed
                )));
            }
            (_, Some(attached)) => attached.to_owned(),
            (_, None) if !spelled.takes_next => String::new(),
            (_, None) => self
                .sources
                .last_mut()
                .and_then(Iterator::next)
                .ok_or_else(|| fatal(format!("argument expected after '{}'", spelled.dashed)))?,
        };
        match row.takes {
            Takes::OptionsFiles => {
                for name in split_list(&text)? {
                    self.open(&name, read_file)?;
                }
            }
            Takes::Module => self.inputs.push(Input::Text(text)),
            Takes::FileText => {
                let contents = read_file(&text).and_then(|bytes| String::from_utf8(bytes).ok());
                let contents =
                    contents.ok_or_else(|| fatal(format!("Could not read file '{text}'")))?;
                self.give(spelled.row, Value::List(vec![contents]));
            }
            _ => self.give(spelled.row, read_value(row, text)?),
        }
        Ok(())
    }

    /// Puts the arguments of an options file before what is left to read.
    fn open(
        &mut self,
        name: &str,
        read_file: &mut dyn FnMut(&str) -> Option<Vec<u8>>,
    ) -> Result<(), Diagnostic> {
        // The command line itself is no file.
        if self.sources.len() > MAX_OPEN_FILES {
            return Err(fatal(format!("Too many options file opened '{name}'")));
        }
        let bytes = read_file(name)
            .ok_or_else(|| fatal(format!("Could not open options file '{name}'")))?;
        let text = String::from_utf8(bytes)
            .map_err(|_| fatal(format!("Options file '{name}' is not UTF-8 text")))?;
        let arguments = split_options_file(&text)
            .map_err(|error| fatal(format!("{error} in options file '{name}'")))?;
        self.arguments_from_files += arguments.len();
        if self.arguments_from_files > MAX_ARGUMENTS_FROM_FILES {
            return Err(fatal(format!(
                "Options files hold more than {MAX_ARGUMENTS_FROM_FILES} arguments"
            )));
        }
        self.sources.push(arguments.into_iter());
        Ok(())
    }

    /// Records a value: lists grow, of everything else the last value counts.
    fn give(&mut self, row: usize, value: Value) {
        match (&mut self.values[row], value) {
            (Some(Value::List(list)), Value::List(more)) => list.extend(more),
            (slot, value) => {
                if slot.as_ref().is_some_and(|old| *old != value) {
                    self.remarks.push(Diagnostic::new(
                        Severity::Warning,
                        format!(
                            "incompatible redefinition for option '{}', the last value of this option was used",
                            OPTIONS[row].long
                        ),
                    ));
                }
                *slot = Some(value);
            }
        }
    }

    /// Lets each option that was given do what its row says.
    fn apply(self) -> Result<Invocation, Diagnostics> {
        let mut invocation = Invocation {
            inputs: self.inputs,
            remarks: self.remarks,
            ..Invocation::default()
        };
        let given = |name: &str| {
            OPTIONS
                .iter()
                .zip(&self.values)
                .any(|(row, value)| row.long == name && value.is_some())
        };
        if self.in_memory && !given("gpu-name") {
            let missing = "Option '--gpu-name' (-arch) is missing: it names the target";
            return Err(refuse(invocation.remarks, fatal(missing)));
        }
        if self.in_memory && !given("split-compile") {
            invocation.options.threads = Some(1);
        }
        let mut refusal = None;
        // What options say may name the target.
        let (target, others): (Vec<_>, Vec<_>) =
            (OPTIONS.iter().zip(&self.values)).partition(|(row, _)| row.long == "gpu-name");
        for (row, value) in target.into_iter().chain(others) {
            let Some(value) = value else { continue };
            let outcome = match row.status {
                Status::Refused(feature) if *value != Value::Bool(false) => Err(
                    Diagnostic::unsupported(format!("{feature} (option '--{}')", row.long)),
                ),
                _ => (row.apply)(&mut invocation, value),
            };
            match outcome {
                Err(error) if CHECKED_AT_ONCE.contains(&row.long) => {
                    return Err(refuse(invocation.remarks, error));
                }
                Err(error) if refusal.is_none() => refusal = Some(error),
                _ => {}
            }
        }
        // Without an input there is nothing to do but explain.
        if !self.in_memory && invocation.action == Action::Compile && invocation.inputs.is_empty() {
            invocation.action = Action::Help;
        }
        if invocation.action != Action::Compile {
            invocation.warnings.clear();
            return Ok(invocation);
        }
        if let Some(error) = refusal {
            return Err(refuse(invocation.remarks, error));
        }
        let level = invocation.options.opt_level;
        let speed = text_of(&self.values, "Ofast-compile");
        let conflict = match speed {
            Some(speed @ ("min" | "mid")) => (level != 1).then_some((speed, "0,2,3")),
            Some(speed @ "max") => (level != 0).then_some((speed, "1,2,3")),
            _ => None,
        };
        if let Some((speed, levels)) = conflict.filter(|_| given("opt-level")) {
            let what = format!(
                "Conflicting options -opt-level=<{levels}> and --Ofast-compile={speed} specified"
            );
            return Err(refuse(invocation.remarks, fatal(what)));
        }
        if given("device-function-maxrregcount") && !given("compile-only") {
            invocation.warnings.push(Diagnostic::new(
                Severity::Warning,
                "Command line option 'device-function-maxrregcount' not supported for 'whole program compilation', will be ignored",
            ));
        }
        for ignored in ["maxntid", "minnctapersm"] {
            if given("maxrregcount") && given(ignored) {
                match ignored {
                    "maxntid" => invocation.options.max_threads = None,
                    _ => invocation.options.min_blocks = None,
                }
                invocation.warnings.push(Diagnostic::new(
                    Severity::Warning,
                    format!(
                        "Conflicting options -maxrregcount and -{ignored} specified, ignoring -{ignored} option"
                    ),
                ));
            }
        }
        if given("device-debug") && given("generate-line-info") {
            invocation.options.line_info = false;
            invocation.warnings.push(Diagnostic::new(
                Severity::Warning,
                "Conflicting options --device-debug and --generate-line-info specified, ignoring --generate-line-info option",
            ));
        }
        if given("device-debug") {
            let quick = invocation.options.fast_compile.is_some();
            let ignored = [
                (given("register-usage-level"), "--register-usage-level"),
                (quick, "--Ofast-compile=<min,mid,max>"),
            ];
            for (_, option) in ignored.iter().filter(|(given, _)| *given) {
                let what = format!(
                    "Conflicting options '--device-debug' and '{option}' specified, ignoring '{option}' option"
                );
                let warning = Diagnostic::new(Severity::Warning, what);
                invocation.warnings.push(warning);
            }
        }
        if given("legacy-bar-warp-wide-behavior") && given("compile-only") {
            invocation.warnings.push(Diagnostic::new(
                Severity::Warning,
                "Option '--legacy-bar-warp-wide-behavior' may not work as expected in separate compilation unless all modules participating in linking have this option specified.",
            ));
        }
        if given("suppress-debug-info") && !given("generate-line-info") && !given("device-debug") {
            invocation.warnings.push(Diagnostic::new(
                Severity::Warning,
                "Option suppress-debug-info requires option device-debug or lineinfo; ignoring since latter is not specified",
            ));
        }
        if given("compiler-stats-file") && !given("compiler-stats") {
            invocation.statistics_file = None;
            invocation.warnings.push(Diagnostic::new(
                Severity::Warning,
                "Option '--compiler-stats-file' requires option '--compiler-stats'; ignoring since latter is not specified",
            ));
        }
        Ok(invocation)
    }
}

/// The text that an option was given.
fn text_of<'a>(values: &'a [Option<Value>], option: &str) -> Option<&'a str> {
    let mut rows = OPTIONS.iter().zip(values);
    match rows.find(|(row, _)| row.long == option)? {
        (_, Some(Value::Text(text))) => Some(text),
        _ => None,
    }
}

/// The row that `argument`, which starts with a dash, names.
fn find_option(argument: &str) -> Result<Spelled<'_>, Diagnostic> {
    let (dashed, attached) = match argument.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (argument, None),
    };
    let row_where = |matches: &dyn Fn(&OptionRow) -> bool| OPTIONS.iter().position(matches);
    if let Some(long) = dashed.strip_prefix("--") {
        let row = row_where(&|row| row.long == long)
            .ok_or_else(|| fatal(format!("Unknown option '-{long}'")))?;
        return Ok(Spelled {
            row,
            dashed,
            attached,
            takes_next: true,
        });
    }
    let short = dashed.strip_prefix('-').unwrap_or(dashed);
    if let Some(row) = row_where(&|row| row.short == short && !short.is_empty()) {
        return Ok(Spelled {
            row,
            dashed,
            attached,
            takes_next: OPTIONS[row].takes != Takes::Level,
        });
    }
    // `-O3`: a number glued to its letter, the text after `=` included if there is one.
    let glued = |row: &OptionRow| {
        matches!(row.takes, Takes::Level | Takes::Number | Takes::NumberOf(_))
            && row.short.len() == 1
            && short.starts_with(row.short)
    };
    match row_where(&glued) {
        Some(row) => Ok(Spelled {
            row,
            dashed: &argument[..2],
            attached: Some(&argument[2..]),
            takes_next: false,
        }),
        None => Err(fatal(format!("Unknown option '{short}'"))),
    }
}

/// `text` as the kind of value that `row` takes.
fn read_value(row: &OptionRow, text: String) -> Result<Value, Diagnostic> {
    match row.takes {
        Takes::Nothing => Ok(Value::Given),
        Takes::Truth => match text.as_str() {
            "true" => Ok(Value::Bool(true)),
            "false" => Ok(Value::Bool(false)),
            _ => Err(fatal(format!("'{text}': expected true or false"))),
        },
        Takes::Number | Takes::Level => read_number(&text).map(Value::Number),
        Takes::NumberOf(allowed) => match read_number(&text)? {
            number if allowed.contains(&number) => Ok(Value::Number(number)),
            _ => Err(not_defined(row, &text)),
        },
        Takes::Text => Ok(Value::Text(text)),
        Takes::OneOf(allowed) => {
            if allowed.contains(&text.as_str()) {
                Ok(Value::Text(text))
            } else {
                Err(not_defined(row, &text))
            }
        }
        Takes::SomeOf(allowed) => {
            let words = split_list(&text)?;
            let known = |word: &str| allowed.iter().any(|it| *it == word || it[..1] == *word);
            match words.iter().find(|word| !known(word)) {
                Some(word) => Err(not_defined(row, word)),
                None => Ok(Value::List(words)),
            }
        }
        Takes::List | Takes::OptionsFiles => split_list(&text).map(Value::List),
        Takes::Texts | Takes::Module | Takes::FileText => Ok(Value::List(vec![text])),
    }
}

fn not_defined(row: &OptionRow, text: &str) -> Diagnostic {
    fatal(format!(
        "Value '{text}' is not defined for option '{}'",
        row.long
    ))
}

/// A number as C reads one: decimal, `0x…` or `0…`, with a sign; nothing at all is zero.
pub(super) fn read_number(text: &str) -> Result<i32, Diagnostic> {
    let trimmed = text.trim_start();
    let (negative, digits) = match trimmed.as_bytes().first() {
        Some(b'-') => (true, &trimmed[1..]),
        Some(b'+') => (false, &trimmed[1..]),
        _ => (false, trimmed),
    };
    if text.is_empty() {
        return Ok(0);
    }
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', _, ..] => (16, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, digits),
    };
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(radix)) {
        return Err(fatal(format!("'{text}': expected a number")));
    }
    i64::from_str_radix(digits, radix)
        .ok()
        .map(|magnitude| if negative { -magnitude } else { magnitude })
        .and_then(|value| i32::try_from(value).ok())
        .ok_or_else(|| fatal(format!("32-bit integer value ({text}) out of range")))
}

/// The non-empty elements of a list; double quotes keep commas together.
fn split_list(text: &str) -> Result<Vec<String>, Diagnostic> {
    let mut elements = Vec::new();
    let mut current = String::new();
    let mut quoted = false;
    for character in text.chars() {
        match character {
            '"' => quoted = !quoted,
            ',' if !quoted => elements.push(std::mem::take(&mut current)),
            other => current.push(other),
        }
    }
    if quoted {
        return Err(fatal("Stray '\"' character"));
    }
    elements.push(current);
    elements.retain(|element| !element.is_empty());
    Ok(elements)
}

fn refuse(mut remarks: Vec<Diagnostic>, error: Diagnostic) -> Diagnostics {
    remarks.push(error);
    Diagnostics(remarks)
}

fn fatal(message: impl Into<String>) -> Diagnostic {
    Diagnostic::new(Severity::Fatal, message)
}
