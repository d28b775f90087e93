//! Every row of the tables accepts what it describes and refuses what it does not.

use orias_generate::synth::{self, Choice, Sample};
use orias_ptx::grammar::{PtxVersion, ROWS, Row};
use orias_ptx::opcode::PatternKind;
use orias_ptx::target::Target;
use orias_ptx::{NEWEST_VERSION, Options};

/// The messages for a module, empty when it is accepted.
fn verdict(text: &str) -> String {
    let (module, mut diagnostics) = orias_ptx::parse(text.as_bytes());
    diagnostics.append(orias_ptx::check(&module, &Options::default()));
    if diagnostics.has_errors() {
        diagnostics.to_excerpts("sample", text.as_bytes())
    } else {
        String::new()
    }
}

/// A choice for each row, on the first target that has the row.
fn each_row(mut visit: impl FnMut(&'static Row, &Choice, PtxVersion, Target)) {
    for row in ROWS {
        let mut found = false;
        'versions: for version in [NEWEST_VERSION, 60, 50, 20, 14] {
            for target in synth::targets(row) {
                if target.since().is_none_or(|since| since > version) && version >= 60 {
                    continue;
                }
                if let Some(choice) = synth::choices(row, version, target, 1).first() {
                    visit(row, choice, version, target);
                    found = true;
                    break 'versions;
                }
            }
        }
        assert!(
            found,
            "{}:{}: no target has `{}`",
            row.file, row.line, row.syntax
        );
    }
}

#[test]
fn every_row_accepts_an_instruction_made_from_it() {
    let mut wrong = Vec::new();
    each_row(|row, choice, version, target| {
        let text = synth::sample(choice, version, target).text();
        let verdict = verdict(&text);
        if !verdict.is_empty() {
            wrong.push(format!(
                "{}:{}: `{}`\n{verdict}",
                row.file, row.line, row.syntax
            ));
        }
    });
    assert!(
        wrong.is_empty(),
        "{} rows:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn every_row_refuses_operands_it_does_not_have() {
    let mut wrong = Vec::new();
    let mut tried = 0;
    each_row(|row, choice, version, target| {
        let spoilt = spoil(choice, &synth::sample(choice, version, target));
        assert!(
            !spoilt.is_empty(),
            "{}:{}: no negative test for `{}`",
            row.file,
            row.line,
            row.syntax
        );
        tried += 1;
        for spoilt in spoilt {
            if verdict(&spoilt.text()).is_empty() {
                wrong.push(format!(
                    "{}:{}: `{}` took {}",
                    row.file,
                    row.line,
                    row.syntax,
                    spoilt.statement()
                ));
            }
        }
    });
    assert_eq!(tried, ROWS.len(), "a row without negative test");
    assert!(
        wrong.is_empty(),
        "{} rows:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// What never stands where a row has an operand of that kind.
fn misplaced(kind: &PatternKind) -> Option<&'static str> {
    match kind {
        PatternKind::Value(value) if value.ty.bits() == 8 => None,
        PatternKind::Value(value) if value.form.register => Some("%narrow"),
        PatternKind::Value(_) => Some("[%far]"),
        PatternKind::Vector(..) => Some("{%narrow, %narrow, %narrow}"),
        PatternKind::Bracket(_) => Some("{%far}"),
        PatternKind::Pair(..) => Some("[%far]"),
        PatternKind::Label | PatternKind::TargetList => Some("1"),
        PatternKind::Function => Some("1.0"),
        _ => None,
    }
}

/// The sample with four operands too many, and with each of its operands replaced by one of another kind.
fn spoil(choice: &Choice, sample: &Sample) -> Vec<Sample> {
    let mut plain = sample.clone();
    plain
        .declarations
        .push_str("\t.reg .pred %wrong<4>;\n\t.reg .b8 %narrow;\n\t.reg .b64 %far;\n");
    let mut longer = plain.clone();
    longer
        .operands
        .extend((0..4).map(|at| format!("%wrong{at}")));
    let mut spoilt = vec![longer];
    let shape = &choice.form.shapes[choice.shape];
    for (at, pattern) in shape.operands.iter().enumerate() {
        if let Some(misplaced) = misplaced(&pattern.kind) {
            let mut other = plain.clone();
            other.operands[at] = misplaced.to_owned();
            spoilt.push(other);
        }
    }
    spoilt
}

#[test]
fn every_gated_row_is_refused_before_its_gate() {
    let mut wrong = Vec::new();
    each_row(|row, choice, _, target| {
        let least = row.since.iter().map(|gate| gate.ptx).min().unwrap_or(0);
        if least <= 20 {
            return;
        }
        let sample = synth::sample(choice, least - 1, target);
        if verdict(&sample.text()).is_empty() {
            wrong.push(format!(
                "{}:{}: `{}` is accepted before PTX {least}: {}",
                row.file,
                row.line,
                row.syntax,
                sample.statement()
            ));
        }
    });
    assert!(
        wrong.is_empty(),
        "{} rows:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn printing_and_reading_again_gives_the_same_program() {
    each_row(|row, choice, version, target| {
        let text = synth::sample(choice, version, target).text();
        let (module, _) = orias_ptx::parse(text.as_bytes());
        let once = orias_ptx::print(&module);
        let (again, diagnostics) = orias_ptx::parse(once.as_bytes());
        assert!(
            !diagnostics.has_errors(),
            "{}: {}",
            row.syntax,
            diagnostics.to_excerpts("printed", once.as_bytes())
        );
        assert_eq!(once, orias_ptx::print(&again), "{}", row.syntax);
    });
}
