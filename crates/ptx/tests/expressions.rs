//! Constant expressions have the values that ptxas 13.0.88 gives them.
//!
//! `expressions.txt` was recorded: a line has the type of a variable, an expression, and the bits ptxas put into the variable that starts with
//! it, or `refused`. The expressions are every operator on small and extreme operands, every spelling of numbers, and random ones.

use orias_ptx::ast::{Constant, InitialiserPart};
use orias_ptx::{Options, check, parse};

/// The bits a variable starts with; `None` where the module is refused.
fn value(ty: &str, expression: &str) -> Option<u64> {
    let source = format!(
        ".version 8.8\n.target sm_90a\n.address_size 64\n.global .{ty} x = {expression};\n"
    );
    let (module, said) = parse(source.as_bytes());
    let options = Options::for_architecture("sm_90a").expect("an architecture");
    if said.error_count() > 0 || check(&module, &options).error_count() > 0 {
        return None;
    }
    let initialiser = module.variables[0].initialiser.as_ref()?;
    let [InitialiserPart::Constant(value)] = initialiser.parts[..] else {
        panic!("{expression} is not one value");
    };
    Some(match value {
        Constant::Signed(value) => value.cast_unsigned(),
        Constant::Unsigned(value) => value,
        Constant::Single(bits) => bits.into(),
        Constant::Double(bits) if ty == "f32" => (f64::from_bits(bits) as f32).to_bits().into(),
        Constant::Double(bits) => bits,
    })
}

#[test]
fn expressions_have_the_values_that_ptxas_gives_them() {
    let lines: Vec<&str> = include_str!("expressions.txt").lines().collect();
    let mut wrong = Vec::new();
    for line in &lines {
        // `|` is an operator, too.
        let (ty, rest) = line.split_once(" | ").expect("a type");
        let (expression, wanted) = rest.rsplit_once(" | ").expect("a value");
        let wanted = wanted
            .strip_prefix("0x")
            .map(|digits| u64::from_str_radix(digits, 16).expect("a number"));
        let found = value(ty, expression);
        if found != wanted {
            wrong.push(format!("{line}: {found:x?}"));
        }
    }
    assert!(lines.len() > 700);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
