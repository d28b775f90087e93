//! Variables: where they may be, how large, and whether their initialisers fit.

use super::{Checker, Mode};
use crate::ast::{
    Constant, Initialiser, InitialiserPart, Item, Linkage, Space, Statement, TargetOption, Variable,
};
use crate::types::{Type, TypeClass};

/// The constant memory of a module.
const CONSTANT_BYTES: u64 = 65536;

impl Checker<'_, '_> {
    pub(super) fn variables(&mut self) {
        let module = self.module;
        let mut constant = 0_u64;
        let mut last_constant = None;
        for item in &module.items {
            if let Item::Variable(id) = item {
                let variable = module.variable(*id);
                self.variable(variable, true);
                if variable.space == Space::Const && variable.linkage != Linkage::Extern {
                    let align = u64::from(alignment(variable));
                    constant = constant
                        .div_ceil(align)
                        .saturating_mul(align)
                        .saturating_add(size(variable));
                    last_constant = Some(variable.span);
                }
                if self.options.mode == Mode::Real
                    && variable.linkage == Linkage::Extern
                    && variable.space != Space::Shared
                    && !self.defined_elsewhere(variable)
                {
                    let name = module.name(variable.name);
                    self.error(
                        variable.span,
                        format!("Unresolved extern variable '{name}'"),
                    );
                }
            }
        }
        if self.options.mode == Mode::Real && constant > CONSTANT_BYTES {
            self.error(
                last_constant.unwrap_or_default(),
                format!(
                    "File uses too much global constant data ({constant:#x} bytes, {CONSTANT_BYTES:#x} max)"
                ),
            );
        }
        for function in &module.functions {
            let Some(body) = &function.body else { continue };
            for statement in &body.statements {
                if let Statement::Variable(id) = statement {
                    self.variable(module.variable(*id), false);
                }
            }
        }
    }

    fn defined_elsewhere(&self, variable: &Variable) -> bool {
        self.module.items.iter().any(|item| match item {
            Item::Variable(id) => {
                let other = self.module.variable(*id);
                other.name == variable.name && other.linkage != Linkage::Extern
            }
            _ => false,
        })
    }

    fn variable(&mut self, variable: &Variable, at_module: bool) {
        let module = self.module;
        let name = module.name(variable.name);
        let span = variable.span;
        if at_module {
            let message = match variable.space {
                Space::Local => {
                    Some("Module-scoped variables in .local state space are not allowed with ABI")
                }
                Space::Reg => {
                    Some("Module-scoped variables in .reg state space are not allowed with ABI")
                }
                Space::Param => Some("Parameter variables may not be declared at module scope"),
                _ => None,
            };
            if let Some(message) = message {
                self.error(span, message);
            }
        }
        if variable.space == Space::Param {
            self.parameter_alignment(variable);
        }
        if variable.ty == Type::Pred {
            self.error(
                span,
                format!("Predicate variable '{name}' must be in register state space"),
            );
        }
        if variable.space == Space::Tex && module.version >= 15 {
            self.error(
                span,
                "Deprecated feature: '.tex' not supported as of PTX version 1.5",
            );
        }
        if variable.bank.is_some() && module.version >= 22 {
            self.error(
                span,
                "Deprecated feature: 'explicit constant banks' not supported as of PTX version 2.2",
            );
        }
        if variable.ty.class() == TypeClass::Opaque {
            let independent = module
                .target_options
                .contains(&TargetOption::TexmodeIndependent);
            if variable.ty == Type::Samplerref && !independent {
                self.error(
                    span,
                    "Instruction or declaration violates .target texmode_unified setting",
                );
            }
            if variable.space != Space::Global && variable.space != Space::Param {
                self.error(
                    span,
                    format!("Variable '{name}' of opaque type must be in .global state space"),
                );
            }
        }
        if variable.linkage == Linkage::Common && variable.space != Space::Global {
            self.error(span, ".common variables must be declared in .global space");
        }
        let open = variable.dimensions.first() == Some(&0);
        match &variable.initialiser {
            Some(_) if variable.linkage == Linkage::Extern => self.error(
                span,
                format!("No initial value is allowed for external symbol '{name}'"),
            ),
            Some(_) if !matches!(variable.space, Space::Global | Space::Const) => self.error(
                span,
                format!("No initial value is allowed for '{name}' in this state space"),
            ),
            Some(initialiser) => self.initialiser(variable, initialiser),
            None if (open || variable.dimensions.contains(&0))
                && variable.linkage != Linkage::Extern =>
            {
                self.error(
                    span,
                    format!("Non-external variable '{name}' has incomplete type"),
                );
            }
            None => {}
        }
        if variable.vector > 1 && variable.element_bytes() > 16 && variable.vector != 8 {
            self.error(
                span,
                format!("Vector type of variable '{name}' is too wide"),
            );
        }
    }

    /// Parameters are passed in memory that is aligned to 128 bytes at most.
    pub(super) fn parameter_alignment(&mut self, variable: &Variable) {
        if variable.align.is_some_and(|align| align > 128) {
            let name = self.module.name(variable.name);
            self.error(
                variable.span,
                format!(
                    "Parameter '{name}' has illegal alignment (must be aligned to 1, 2, 4, 8, 16, 32, 64, or 128 bytes)"
                ),
            );
        }
    }

    /// Walks the values with the shape of the variable: each brace is one dimension, the innermost one a vector.
    fn initialiser(&mut self, variable: &Variable, initialiser: &Initialiser) {
        let mut shape: Vec<u64> = variable.dimensions.clone();
        if variable.vector > 1 {
            shape.push(u64::from(variable.vector));
        }
        // How many elements each open brace has seen.
        let mut counts: Vec<u64> = Vec::new();
        let mut mask = false;
        for part in &initialiser.parts {
            match part {
                InitialiserPart::Open
                | InitialiserPart::Constant(_)
                | InitialiserPart::Variable { .. }
                | InitialiserPart::Function(_) => {
                    if mask {
                        mask = false;
                        continue;
                    }
                    if let Some(count) = counts.last_mut() {
                        *count += 1;
                        let limit = shape.get(counts.len() - 1).copied().unwrap_or(0);
                        let open = counts.len() == 1 && limit == 0;
                        if *counts.last().unwrap_or(&0) > limit && !open {
                            self.error(
                                initialiser.span,
                                "Greater number of elements in array initializer",
                            );
                            return;
                        }
                    }
                    if *part == InitialiserPart::Open {
                        if counts.len() >= shape.len() {
                            self.error(initialiser.span, "Initial value type mismatch");
                            return;
                        }
                        counts.push(0);
                        continue;
                    }
                    if counts.len() != shape.len() || !self.value_fits(variable, part) {
                        let deeper = counts.len() < shape.len() && !counts.is_empty();
                        let message = if deeper {
                            "Greater number of elements in array initializer"
                        } else {
                            "Initial value type mismatch"
                        };
                        self.error(initialiser.span, message);
                        return;
                    }
                }
                InitialiserPart::Close => {
                    counts.pop();
                }
                InitialiserPart::Mask(_) => mask = true,
            }
        }
    }

    fn value_fits(&self, variable: &Variable, part: &InitialiserPart) -> bool {
        let class = variable.ty.class();
        let integer = matches!(
            class,
            TypeClass::Unsigned | TypeClass::Signed | TypeClass::Bits
        );
        match part {
            InitialiserPart::Constant(Constant::Signed(_) | Constant::Unsigned(_)) => integer,
            InitialiserPart::Constant(Constant::Single(_)) => {
                matches!(variable.ty, Type::F32 | Type::F64 | Type::B32 | Type::F16)
            }
            InitialiserPart::Constant(Constant::Double(_)) => {
                matches!(variable.ty, Type::F32 | Type::F64 | Type::B64 | Type::F16)
            }
            InitialiserPart::Variable { .. } | InitialiserPart::Function(_) => {
                integer && variable.ty.bits() >= 32
            }
            _ => true,
        }
    }
}

/// The alignment in bytes: what is written, or the size of an element.
pub(super) fn alignment(variable: &Variable) -> u32 {
    variable
        .align
        .unwrap_or_else(|| variable.element_bytes().clamp(1, 128) as u32)
}

/// The size in bytes, counting the initialiser of an array whose first dimension is open.
pub(super) fn size(variable: &Variable) -> u64 {
    if variable.dimensions.first() != Some(&0) {
        return variable.bytes();
    }
    let Some(initialiser) = &variable.initialiser else {
        return 0;
    };
    let mut depth = 0;
    let mut first = 0_u64;
    for part in &initialiser.parts {
        match part {
            InitialiserPart::Open => {
                if depth == 1 {
                    first += 1;
                }
                depth += 1;
            }
            InitialiserPart::Close => depth -= 1,
            InitialiserPart::Mask(_) => {}
            _ if depth == 1 => first += 1,
            _ => {}
        }
    }
    variable.dimensions[1..].iter().fold(
        variable.element_bytes().saturating_mul(first),
        |size, &n| size.saturating_mul(n),
    )
}
