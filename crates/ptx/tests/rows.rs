//! Every row of the tables accepts what it describes and refuses what it does not.

use orias_ptx::grammar::{PtxVersion, ROWS, Row};
use orias_ptx::opcode::PatternKind;
use orias_ptx::synth::{self, Choice, Sample};
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
        if !verdict.is_empty() && version >= 60 {
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
    each_row(|row, choice, version, target| {
        for spoilt in spoil(choice, &synth::sample(choice, version, target)) {
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
    assert!(
        wrong.is_empty(),
        "{} rows:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// The sample with four operands too many, with a modifier that does not exist, and with a register of a wrong type.
fn spoil(choice: &Choice, sample: &Sample) -> Vec<Sample> {
    let mut spoilt = Vec::new();
    let mut longer = sample.clone();
    longer
        .declarations
        .push_str("\t.reg .pred %wrong<4>;\n\t.reg .b8 %narrow;\n");
    let wrong_register = longer.clone();
    longer
        .operands
        .extend((0..4).map(|at| format!("%wrong{at}")));
    spoilt.push(longer);
    let mut unknown = sample.clone();
    unknown.opcode.push_str(".nosuchmodifier");
    spoilt.push(unknown);
    let shape = &choice.form.shapes[choice.shape];
    for (at, pattern) in shape.operands.iter().enumerate() {
        if let PatternKind::Value(value) = &pattern.kind
            && value.form.register
            && value.ty.bits() != 8
        {
            let mut other = wrong_register.clone();
            other.operands[at] = "%narrow".to_owned();
            spoilt.push(other);
            break;
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
