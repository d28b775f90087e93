//! Variables: where they may be, how large, and whether their initialisers fit.

use super::{Checker, Mode};
use crate::Span;
use crate::ast::{
    Attribute, Constant, Initialiser, InitialiserPart, Item, Linkage, Space, Statement,
    TargetOption, Variable,
};
use crate::types::{Type, TypeClass};

/// The constant memory of a module.
const CONSTANT_BYTES: u64 = 65536;

/// The largest variable in global memory. ptxas takes larger ones, which no chip can load.
const MOST_GLOBAL_BYTES: u64 = 1 << 40;

const MISMATCH: &str = "Initial value type mismatch";
const ARRAY_COUNT: &str = "Greater number of elements in array initializer";
const VECTOR_COUNT: &str = "Incorrect number of elements in vector initializer";

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
                    let align = u64::from(variable.alignment());
                    constant = constant
                        .div_ceil(align)
                        .saturating_mul(align)
                        .saturating_add(size(variable));
                    last_constant = Some(variable.span);
                }
                if self.options.mode == Mode::Real
                    && variable.linkage == Linkage::Extern
                    // An open array in shared memory is as long as a launch says.
                    && !(variable.space == Space::Shared && variable.dimensions.contains(&0))
                    && !self.defined_elsewhere(variable)
                {
                    let name = module.name(variable.name);
                    if variable.dimensions.contains(&0) {
                        let message = format!("Unresolved extern variable '{name}'");
                        self.error(variable.span, message);
                    } else {
                        let message = format!(
                            "Unresolved extern variable '{name}' in whole program compilation, ignoring extern qualifier"
                        );
                        self.warning(variable.span, message);
                    }
                }
            }
        }
        if self.options.mode.is_real() && constant > CONSTANT_BYTES {
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

    /// A declaration's definition, behind it, is seen outside the module.
    fn static_definition(&mut self, declaration: &Variable) {
        let module = self.module;
        let definition = module.items.iter().find_map(|item| match item {
            Item::Variable(id) => {
                let other = module.variable(*id);
                let is_it = other.name == declaration.name
                    && other.linkage == Linkage::Internal
                    && other.span.start > declaration.span.start;
                is_it.then_some(other)
            }
            _ => None,
        });
        if let Some(definition) = definition {
            let name = module.name(definition.name);
            let message = format!("'.extern' variable '{name}' cannot be resolved by a '.static'");
            self.error(definition.span, message);
        }
    }

    /// Unified addresses are for modules that are linked later.
    pub(super) fn unified(&mut self, attributes: &[Attribute], span: Span) {
        let unified = |it: &Attribute| matches!(it, Attribute::Unified(..));
        if attributes.iter().any(unified) {
            let message = match self.options.mode {
                Mode::Object => {
                    "not supported yet: the tables of '.unified' functions and variables"
                }
                _ => "Feature 'unified Functions' requires command line option '--compile-only'.",
            };
            self.error(span, message);
        }
    }

    /// Managed memory is global.
    pub(super) fn managed(&mut self, variable: &Variable) {
        if variable.space != Space::Global && variable.attributes.contains(&Attribute::Managed) {
            let name = self.module.name(variable.name);
            let message = format!("Illegal attribute '.managed' for symbol '{name}'");
            self.error(variable.span, message);
        }
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
        if at_module && variable.linkage == Linkage::Extern {
            self.static_definition(variable);
        }
        self.unified(&variable.attributes, span);
        self.managed(variable);
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
            if !at_module && variable.space != Space::Param {
                self.error(
                    span,
                    "Texture/surface variable must be at module or entry parameter scope",
                );
            }
            if variable.linkage == Linkage::Common {
                self.error(span, "Illegal type for .common symbol");
            }
            if variable.vector > 1 {
                self.error(span, "Vector type only allowed over basic types");
            }
        }
        if variable.linkage == Linkage::Common && variable.space != Space::Global {
            self.error(span, ".common variables must be declared in .global space");
        }
        let open = variable.dimensions.first() == Some(&0);
        match &variable.initialiser {
            // ptxas minds values, and braces but for an array's own.
            Some(initialiser)
                if variable.ty == Type::F16
                    && (variable.dimensions.is_empty() || initialiser.parts.len() > 2) =>
            {
                self.error(span, "No initial value is allowed for .f16 type");
            }
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
        if variable.space == Space::Global && variable.bytes() > MOST_GLOBAL_BYTES {
            let bytes = variable.bytes();
            self.error(
                span,
                format!("Variable '{name}' has {bytes} bytes, the limit is {MOST_GLOBAL_BYTES}"),
            );
        }
        if variable.vector > 1 && variable.element_bytes() > 16 {
            self.error(span, "Vector type too large, exceeds 128 bit limit");
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

    /// Walks the values with the shape of the variable: each brace is one dimension, the innermost one a vector. Says the first thing
    /// that is wrong.
    fn initialiser(&mut self, variable: &Variable, initialiser: &Initialiser) {
        if variable.ty.class() == TypeClass::Opaque {
            return self.record(variable, initialiser);
        }
        if let Err(message) = self.initial_values(variable, initialiser) {
            self.error(initialiser.span, message);
        }
    }

    /// The record of a texture, sampler or surface: fields that it has, in braces.
    fn record(&mut self, variable: &Variable, initialiser: &Initialiser) {
        if initialiser.parts.first() != Some(&InitialiserPart::Open) {
            return self.error(initialiser.span, MISMATCH);
        }
        let mut named = false;
        for part in &initialiser.parts {
            match part {
                InitialiserPart::Open | InitialiserPart::Close => {}
                InitialiserPart::Field(field) if field.belongs_to(variable.ty) => named = true,
                InitialiserPart::Field(field) => {
                    let name = field.name();
                    let message =
                        format!("Unrecognized field name '{name}' in opaque struct initializer");
                    return self.error(initialiser.span, message);
                }
                _ if std::mem::take(&mut named) => {}
                _ => {
                    return self.error(
                        initialiser.span,
                        "Opaque structure initializer requires named fields",
                    );
                }
            }
        }
    }

    fn initial_values(
        &self,
        variable: &Variable,
        initialiser: &Initialiser,
    ) -> Result<(), &'static str> {
        let mut shape: Vec<u64> = variable.dimensions.clone();
        let is_vector = variable.vector > 1;
        if is_vector {
            shape.push(u64::from(variable.vector));
        }
        // How many elements each open brace has seen.
        let mut counts: Vec<u64> = Vec::new();
        let mut masked = false;
        let mut found = Ok(());
        for part in &initialiser.parts {
            match part {
                InitialiserPart::Mask(_) => masked = true,
                InitialiserPart::Close => {
                    let in_vector = is_vector && counts.len() == shape.len();
                    let count = counts.pop().unwrap_or(0);
                    if in_vector && count != u64::from(variable.vector) {
                        return Err(VECTOR_COUNT);
                    }
                    // An array of open size has as many elements as are written, at least one.
                    if counts.is_empty() && count == 0 && shape.first() == Some(&0) {
                        return Err(MISMATCH);
                    }
                }
                _ => {
                    let depth = counts.len();
                    if let Some(count) = counts.last_mut() {
                        *count += values(part);
                        let limit = shape.get(depth - 1).copied().unwrap_or(0);
                        let open = depth == 1 && limit == 0;
                        if *count > limit && !open {
                            return Err(if is_vector && depth == shape.len() {
                                VECTOR_COUNT
                            } else {
                                ARRAY_COUNT
                            });
                        }
                    }
                    if *part == InitialiserPart::Open {
                        if depth >= shape.len() {
                            return Err(MISMATCH);
                        }
                        counts.push(0);
                        continue;
                    }
                    let masked = std::mem::take(&mut masked);
                    let fits = if depth == shape.len() {
                        self.value_fits(variable.ty, part, masked)
                    } else {
                        Err(MISMATCH)
                    };
                    // Too many values are worse than one that does not fit.
                    found = found.and(fits);
                }
            }
        }
        found
    }

    /// Whether a variable of type `ty` can start with a value, or with a byte of it.
    fn value_fits(
        &self,
        ty: Type,
        part: &InitialiserPart,
        masked: bool,
    ) -> Result<(), &'static str> {
        let untyped = ty.class() == TypeClass::Bits;
        let integer = matches!(ty.class(), TypeClass::Unsigned | TypeClass::Signed);
        let holds_address = matches!(ty, Type::U32 | Type::U64) || masked && ty == Type::U8;
        let fits = match part {
            InitialiserPart::Constant(Constant::Signed(_) | Constant::Unsigned(_))
            | InitialiserPart::Bytes { .. } => integer || untyped,
            InitialiserPart::Constant(Constant::Single(_) | Constant::Double(_)) => {
                untyped || matches!(ty, Type::F32 | Type::F64)
            }
            InitialiserPart::Variable {
                variable: target, ..
            } => {
                let space = self.module.variable(*target).space;
                if !matches!(space, Space::Global | Space::Const) {
                    return Err(
                        "Variable used as initial value not in .global or .const state space",
                    );
                }
                holds_address
            }
            InitialiserPart::Function(_) => holds_address,
            InitialiserPart::Field(_) => false,
            InitialiserPart::Open | InitialiserPart::Close | InitialiserPart::Mask(_) => true,
        };
        if fits { Ok(()) } else { Err(MISMATCH) }
    }
}

/// How many elements a part gives a value.
fn values(part: &InitialiserPart) -> u64 {
    match part {
        InitialiserPart::Bytes { count, .. } => u64::from(*count),
        _ => 1,
    }
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
            InitialiserPart::Mask(_) | InitialiserPart::Field(_) => {}
            _ if depth == 1 => first += values(part),
            _ => {}
        }
    }
    variable.dimensions[1..].iter().fold(
        variable.element_bytes().saturating_mul(first),
        |size, &n| size.saturating_mul(n),
    )
}
