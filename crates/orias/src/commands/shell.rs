//! `orias manual` and `orias completions`: manual pages, and what shells need to complete command lines.
//!
//! Both are made from the tables that the command itself goes by, so that neither can list an option that is not there: the options of the
//! compile mode are the rows of `command_line::OPTIONS`, the subcommands those of [`super::COMMANDS`], and the options of a subcommand what its
//! own help says.

use super::COMMANDS;
use crate::report::Report;
use clap::{Parser, ValueEnum};
use orias::command_line::{OPTIONS, OptionRow, Status, Takes};
use std::fmt::Write as _;

/// Prints a manual page, as roff.
#[derive(Parser)]
#[command(name = "manual", bin_name = "orias manual")]
struct ManualArguments {
    /// The subcommand to explain; the command itself without it
    subcommand: Option<String>,
}

/// Prints what a shell needs to complete command lines of orias.
#[derive(Parser)]
#[command(name = "completions", bin_name = "orias completions")]
struct CompletionsArguments {
    /// The shell
    shell: Shell,
}

/// The shells that completions are made for.
#[derive(Clone, Copy, ValueEnum)]
enum Shell {
    /// To be read by ~/.bashrc, or put below bash-completion's folder.
    Bash,
    /// To be put into a folder of $fpath as _orias.
    Zsh,
    /// To be put into ~/.config/fish/completions as orias.fish.
    Fish,
}

/// `orias manual`.
pub fn manual(arguments: &[String]) -> Report {
    let arguments = match ManualArguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => return error.into(),
    };
    match arguments.subcommand {
        None => Report::success(page()),
        Some(name) => match COMMANDS.iter().find(|command| command.name == name) {
            Some(command) => Report::success(subcommand_page(command.name, command.about)),
            None => Report::usage(
                "manual",
                format_args!("no subcommand is named '{name}'{}", suggestion(&name)),
            ),
        },
    }
}

/// `orias completions`.
pub fn completions(arguments: &[String]) -> Report {
    match CompletionsArguments::try_parse_from(arguments) {
        Ok(arguments) => Report::success(match arguments.shell {
            Shell::Bash => bash(),
            Shell::Zsh => zsh(),
            Shell::Fish => fish(),
        }),
        Err(error) => error.into(),
    }
}

fn suggestion(name: &str) -> String {
    orias_codegen::names::suggestion(name, COMMANDS.iter().map(|command| command.name))
}

/// What a subcommand says of itself.
fn help_of(name: &str) -> String {
    let command = COMMANDS.iter().find(|command| command.name == name);
    let said = command.map(|command| (command.run)(&[name.to_owned(), "--help".to_owned()]));
    said.map_or(String::new(), |report| {
        String::from_utf8_lossy(&report.output).into_owned()
    })
}

/// The options of a subcommand with two dashes, in the order of its help.
fn options_of(name: &str) -> Vec<String> {
    let help = help_of(name);
    let lines = help
        .lines()
        .filter(|line| line.trim_start().starts_with('-'));
    let long = lines.filter_map(|line| line.split_whitespace().find(|word| word.starts_with("--")));
    long.map(|word| word.trim_end_matches(',').to_owned())
        .collect()
}

/// Text for roff: what it would take for its own is escaped.
fn roff(text: &str) -> String {
    let escaped = text.replace('\\', "\\e").replace('-', "\\-");
    let lines = escaped
        .lines()
        .map(|line| match line.starts_with(['.', '\'']) {
            true => format!("\\&{line}"),
            false => line.to_owned(),
        });
    lines.collect::<Vec<_>>().join("\n")
}

fn head(out: &mut String, name: &str, about: &str) {
    let version = env!("CARGO_PKG_VERSION");
    let title = name.to_uppercase();
    let _ = writeln!(out, ".TH {title} 1 \"\" \"Orias {version}\" \"Orias\"");
    let _ = writeln!(out, ".SH NAME\n{} \\- {}", roff(name), roff(about));
}

/// The manual page of the command.
fn page() -> String {
    let mut out = String::new();
    head(
        &mut out,
        "orias",
        "an open PTX assembler: PTX in, a cubin out",
    );
    out += ".SH SYNOPSIS\n.B orias\n[\\fIoptions\\fR] \\fIfile\\fR ...\n.br\n.B orias\n\\fB\\-j\\fR \\fIthreads\\fR [\\fIoptions\\fR] \\fIfile or folder\\fR ...\n.br\n.B orias\n\\fIsubcommand\\fR ...\n";
    out += ".SH DESCRIPTION\n";
    out += &roff(
        "Compiles PTX into a cubin that NVIDIA's driver loads. It takes the command line of ptxas, and is one when it is called under that name. \
         With -j each input is compiled by itself, several at a time, and what is there already is not made again. \
         With a subcommand as its first argument it is one of several instruments; orias-SUBCOMMAND(1) explains each.",
    );
    out += "\n.SH SUBCOMMANDS\n";
    for command in COMMANDS {
        let _ = writeln!(
            out,
            ".TP\n\\fB{}\\fR\n{}",
            roff(command.name),
            roff(command.about)
        );
    }
    out += ".SH OPTIONS\n";
    for row in OPTIONS {
        let short = match row.short {
            "" => String::new(),
            short => format!(" (\\fB\\-{}\\fR)", roff(short)),
        };
        let _ = writeln!(
            out,
            ".TP\n\\fB\\-\\-{}\\fR {}{short}\n{}",
            roff(row.long),
            roff(row.argument),
            roff(&told(row))
        );
    }
    out += ".SH ENVIRONMENT\n";
    for (name, about) in crate::stand_in::VARIABLES {
        let _ = writeln!(out, ".TP\n\\fB{name}\\fR\n{}", roff(about));
    }
    out += ".SH EXIT STATUS\n";
    out += &roff(
        "0 for success and 255 for failure, as ptxas has it. Subcommands end with 1 for findings and bad input, and with 2 for bad usage.",
    );
    out += "\n.SH SEE ALSO\n";
    let pages = COMMANDS
        .iter()
        .map(|command| format!("\\fBorias\\-{}\\fR(1)", command.name));
    out += &pages.collect::<Vec<_>>().join(", ");
    out.push('\n');
    out
}

/// What an option does, and what Orias makes of it.
fn told(row: &OptionRow) -> String {
    match row.status {
        Status::Effective => row.about.to_owned(),
        Status::NoEffect(why) => format!("{} No effect: {why}.", row.about),
        Status::Refused(what) => format!("{} Refused: {what} not supported yet.", row.about),
    }
}

/// The manual page of a subcommand: its help, as it is.
fn subcommand_page(name: &str, about: &str) -> String {
    let mut out = String::new();
    head(&mut out, &format!("orias-{name}"), about);
    let _ = writeln!(
        out,
        ".SH DESCRIPTION\n.nf\n{}\n.fi\n.SH SEE ALSO\n\\fBorias\\fR(1)",
        roff(help_of(name).trim_end())
    );
    out
}

/// The words that may follow an option, if they are few.
fn values(row: &OptionRow) -> Vec<String> {
    match row.takes {
        Takes::Truth => vec!["true".into(), "false".into()],
        Takes::OneOf(words) | Takes::SomeOf(words) => {
            words.iter().map(|word| (*word).to_owned()).collect()
        }
        Takes::NumberOf(numbers) => numbers.iter().map(ToString::to_string).collect(),
        Takes::Level => (0..=3).map(|level| level.to_string()).collect(),
        _ => Vec::new(),
    }
}

/// The options of the compile mode, each with the words that may follow its `=`.
fn compile_words() -> Vec<String> {
    let mut words = Vec::new();
    for row in OPTIONS {
        let values = values(row);
        let dashed = format!("--{}", row.long);
        match (row.takes, values.is_empty()) {
            (Takes::Nothing, _) => words.push(dashed),
            (_, true) => words.push(format!("{dashed}=")),
            (_, false) => {
                words.extend(values.iter().map(|value| format!("{dashed}={value}")));
            }
        }
        if row.short != row.long && !row.short.is_empty() {
            words.push(format!("-{}", row.short));
        }
    }
    words
}

fn bash() -> String {
    let names: Vec<&str> = COMMANDS.iter().map(|command| command.name).collect();
    let mut out = String::from(
        "_orias() {\n    local word=${COMP_WORDS[COMP_CWORD]} first=${COMP_WORDS[1]} words\n    \
         # The shell takes = for a word of its own.\n    \
         if [[ $word == = ]]; then word=${COMP_WORDS[COMP_CWORD-1]}=; fi\n    \
         if [[ $COMP_CWORD -gt 1 && ${COMP_WORDS[COMP_CWORD-1]} == = ]]; then word=${COMP_WORDS[COMP_CWORD-2]}=$word; fi\n    \
         case $first in\n",
    );
    for name in &names {
        let _ = writeln!(out, "    {name}) words='{}' ;;", options_of(name).join(" "));
    }
    let _ = writeln!(
        out,
        "    *) words='{}'\n       [[ $COMP_CWORD -eq 1 ]] && words+=' help {}' ;;\n    esac",
        compile_words().join(" "),
        names.join(" ")
    );
    out += "    COMPREPLY=($(compgen -W \"$words\" -- \"$word\") $(compgen -f -- \"$word\"))\n    \
            if [[ $word == *=* ]]; then COMPREPLY=(\"${COMPREPLY[@]#*=}\"); fi\n    \
            [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace\n    \
            return 0\n}\ncomplete -o filenames -F _orias orias\n";
    out
}

/// Text between single quotes of a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

fn zsh() -> String {
    let mut out = String::from(
        "#compdef orias\n_orias() {\n    local -a words subcommands\n    subcommands=(\n",
    );
    for command in COMMANDS {
        let _ = writeln!(
            out,
            "        {}",
            quoted(&format!("{}:{}", command.name, command.about))
        );
    }
    out += "    )\n    case $words[2] in\n";
    let mut arms = String::new();
    for command in COMMANDS {
        let options: Vec<String> = options_of(command.name)
            .iter()
            .map(|it| quoted(it))
            .collect();
        let _ = writeln!(
            arms,
            "    {}) options=({}) ;;",
            command.name,
            options.join(" ")
        );
    }
    let all: Vec<String> = compile_words().iter().map(|it| quoted(it)).collect();
    let _ = writeln!(arms, "    *) options=({}) ;;", all.join(" "));
    // `words` is the command line, which zsh hands over; the local one above would hide it.
    out = out.replace("local -a words subcommands", "local -a options subcommands");
    out += &arms;
    out += "    esac\n    if (( CURRENT == 2 )); then _describe subcommand subcommands; fi\n    \
            compadd -- $options\n    _files\n}\n_orias \"$@\"\n";
    out
}

fn fish() -> String {
    let escape = |text: &str| {
        let text = text.replace('\\', "\\\\").replace('\'', "\\'");
        format!("'{text}'")
    };
    let mut out = String::new();
    for command in COMMANDS {
        let _ = writeln!(
            out,
            "complete -c orias -n __fish_use_subcommand -a {} -d {}",
            command.name,
            escape(command.about)
        );
        for option in options_of(command.name) {
            let _ = writeln!(
                out,
                "complete -c orias -n '__fish_seen_subcommand_from {}' -l {}",
                command.name,
                option.trim_start_matches('-')
            );
        }
    }
    let names: Vec<&str> = COMMANDS.iter().map(|command| command.name).collect();
    for row in OPTIONS {
        let takes = match (row.takes, values(row)) {
            (Takes::Nothing, _) => String::new(),
            (_, values) if values.is_empty() => " -r".into(),
            (_, values) => format!(" -x -a {}", escape(&values.join(" "))),
        };
        let short = match row.short {
            "" => String::new(),
            short => format!(" -o {short}"),
        };
        let _ = writeln!(
            out,
            "complete -c orias -n 'not __fish_seen_subcommand_from {}' -l {}{short}{takes} -d {}",
            names.join(" "),
            row.long,
            escape(row.about)
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_every_option_and_subcommand() {
        let page = page();
        for row in OPTIONS {
            let named = format!("\\fB\\-\\-{}\\fR", roff(row.long));
            assert!(page.contains(&named), "{}", row.long);
        }
        for command in COMMANDS {
            assert!(page.contains(&format!("\\fB{}\\fR", command.name)));
            let own = subcommand_page(command.name, command.about);
            assert!(own.contains("Usage: orias"), "{}", command.name);
        }
    }

    #[test]
    fn nothing_is_taken_for_a_request_of_roff() {
        assert_eq!(roff(".so file\n-x\\n"), "\\&.so file\n\\-x\\en");
        for line in page().lines().filter(|line| line.starts_with('.')) {
            let request = line.split_whitespace().next().unwrap_or_default();
            assert!(
                [".TH", ".SH", ".TP", ".B", ".br"].contains(&request),
                "{line}"
            );
        }
    }

    #[test]
    fn options_of_subcommands_are_found() {
        let options = options_of("reschedule");
        assert!(options.contains(&"--shuffle".to_owned()), "{options:?}");
        assert!(options_of("run").contains(&"--opt-level".to_owned()));
    }

    #[test]
    fn values_of_options_are_completed() {
        let words = compile_words();
        for word in [
            "--opt-level=3",
            "--fmad=false",
            "--gpu-name=",
            "--verbose",
            "-arch",
        ] {
            assert!(words.contains(&word.to_owned()), "{word}");
        }
    }
}
