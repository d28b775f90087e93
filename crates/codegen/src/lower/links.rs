//! What a linker is told of a module's functions: how they are called.
//!
//! nvlink joins a call through a pointer with every function of the same prototype whose address is taken, which is how it counts stacks and
//! registers. A prototype is spelled as ptxas 13.0.88 spells it: `#`, a letter for the result, one for each parameter.

use crate::module::Links;
use orias_ptx::ast::{self, FunctionId, OperandKind, TargetListKind, VariableId};
use orias_ptx::grammar::Op;
use orias_ptx::types::Type;
use rustc_hash::FxHashSet;

/// The links of `module`.
pub(super) fn of(module: &orias_ptx::Module<'_>) -> Links {
    let mut links = Links::default();
    let mut known = FxHashSet::default();
    for function in &module.functions {
        let name = module.name(function.name);
        if !function.entry && known.insert(name) {
            let spelled = spell(module, &function.returns, &function.parameters);
            links.prototypes.push((name.to_owned(), spelled));
        }
        let Some(body) = &function.body else { continue };
        for instruction in &body.instructions {
            if module.opcode(instruction).op != Some(Op::Call) {
                continue;
            }
            let operands = body.operands(instruction);
            let lists = operands.iter().filter_map(|operand| match operand.kind {
                OperandKind::List(id) => body.lists.get(id.index()),
                _ => None,
            });
            for spelled in lists.filter_map(|list| spell_list(module, &list.kind)) {
                let call = (name.to_owned(), spelled);
                if !links.indirect.contains(&call) {
                    links.indirect.push(call);
                }
            }
        }
    }
    let aliases = module.aliases.iter();
    let named = |name| module.name(name).to_owned();
    links.aliases = aliases.map(|it| (named(it.name), named(it.of))).collect();
    links
}

/// The prototype of what a call through a pointer reaches.
fn spell_list(module: &orias_ptx::Module<'_>, list: &TargetListKind) -> Option<String> {
    match list {
        TargetListKind::Branch(_) => None,
        TargetListKind::Call(functions) => {
            let first: FunctionId = *functions.first()?;
            let function = module.function(first);
            Some(spell(module, &function.returns, &function.parameters))
        }
        TargetListKind::Prototype(it) => Some(spell(module, &it.returns, &it.parameters)),
    }
}

fn spell(
    module: &orias_ptx::Module<'_>,
    returns: &[VariableId],
    parameters: &[VariableId],
) -> String {
    let mut text = "#".to_owned();
    match returns {
        [] => text.push('v'),
        some => text.extend(some.iter().map(|id| letter(module.variable(*id)))),
    }
    text.extend(parameters.iter().map(|id| letter(module.variable(*id))));
    text
}

/// How a parameter is spelled: by its kind, an array by its bytes.
fn letter(variable: &ast::Variable) -> String {
    if !variable.dimensions.is_empty() || variable.vector > 1 {
        return format!("b{}", variable.bytes());
    }
    let letter = match (variable.ty, variable.ty.bits()) {
        (Type::F32, _) => "f",
        (Type::F64, _) => "d",
        (_, 128) => "x",
        (_, 64) => "l",
        (_, 16) => "h",
        (_, 8) => "b",
        _ => "i",
    };
    letter.to_owned()
}
