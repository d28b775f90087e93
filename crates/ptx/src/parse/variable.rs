//! Variables and parameters: types, alignment, arrays, attributes and initialisers.

use super::scope::Binding;
use super::{Parsed, Parser};
use crate::ast::{
    Attribute, Constant, Initialiser, InitialiserPart, Item, Linkage, Pointee, Pointer, Space,
    Statement, Variable, VariableId,
};
use crate::diagnostic::{Diagnostic, Span};
use crate::lex::TokenKind;
use crate::name::Name;
use crate::opaque::{self, Field};
use crate::types::{Type, TypeClass};

/// What stands in front of the names of a declaration.
pub(super) struct Head {
    space: Space,
    bank: Option<u8>,
    ty: Type,
    vector: u8,
    align: Option<u32>,
    attributes: Vec<Attribute>,
    pointer: Option<Pointer>,
}

/// What `WARP_SZ` stands for.
pub(super) const WARP_SIZE: u64 = 32;

/// The space that a directive names.
pub(super) fn space_of(text: &[u8]) -> Option<Space> {
    Some(match text {
        b".const" => Space::Const,
        b".global" => Space::Global,
        b".local" => Space::Local,
        b".param" => Space::Param,
        b".shared" => Space::Shared,
        b".tex" => Space::Tex,
        _ => return None,
    })
}

/// The type that a dotted word names.
pub(super) fn type_of(text: &[u8]) -> Option<Type> {
    Type::from_name(std::str::from_utf8(text.strip_prefix(b".")?).ok()?)
}

/// Whether a variable or register may be declared with the type.
pub(super) fn declarable(ty: Type) -> bool {
    match ty.class() {
        TypeClass::Packed => false,
        _ => !matches!(
            ty,
            Type::U4 | Type::S4 | Type::U2 | Type::S2 | Type::B1 | Type::B4 | Type::B6
        ),
    }
}

impl Parser<'_> {
    /// A declaration at module level, from its space on.
    pub(super) fn module_variables(&mut self, linkage: Linkage) -> Parsed<()> {
        let head = self.variable_head()?;
        loop {
            let id = self.declarator(&head, linkage)?;
            self.module.items.push(Item::Variable(id));
            if !self.eat(b',') {
                break;
            }
        }
        self.expect(b';')
    }

    /// A declaration inside a function, from its space on.
    pub(super) fn local_variables(&mut self) -> Parsed<()> {
        let head = self.variable_head()?;
        loop {
            let id = self.declarator(&head, Linkage::Internal)?;
            self.function.body.statements.push(Statement::Variable(id));
            if !self.eat(b',') {
                break;
            }
        }
        self.expect(b';')
    }

    /// `.global .attribute(.managed) .align 16 .v4 .f32`
    fn variable_head(&mut self) -> Parsed<Head> {
        let Some(space) = space_of(self.current()) else {
            return Err(self.unexpected("a state space"));
        };
        self.advance();
        let mut bank = None;
        if space == Space::Const && self.eat(b'[') {
            let token = self.token;
            let number = self.small_integer("a constant bank")?;
            if number > 10 {
                self.report(Diagnostic::error(
                    token.span(),
                    format!("Constant bank {number} is out of range, expected 0 to 10"),
                ));
            }
            bank = Some(number.min(10) as u8);
            self.expect(b']')?;
        }
        let mut head = Head {
            space,
            bank,
            ty: Type::B32,
            vector: 1,
            align: None,
            attributes: Vec::new(),
            pointer: None,
        };
        self.type_words(&mut head, false)?;
        Ok(head)
    }

    /// `.align 8`
    fn alignment(&mut self) -> Parsed<Option<u32>> {
        self.advance();
        let at = self.token;
        let align = self.integer_token("an alignment")?;
        let legal = u32::try_from(align)
            .ok()
            .filter(|align| align.is_power_of_two());
        if legal.is_none() {
            self.report(Diagnostic::error(
                Span::new(at.start, self.last_end),
                "Alignment must be a power of two",
            ));
        }
        Ok(legal)
    }

    /// `.ptr .global .align 8`, or `.ptr .texref`: the last words before a parameter's name.
    fn pointer(&mut self) -> Parsed<Pointer> {
        self.advance();
        let mut pointer = Pointer {
            to: Pointee::from_name(self.current()),
            align: None,
        };
        if pointer.to.is_some() {
            self.advance();
        }
        if self.current() == b".align" {
            pointer.align = self.alignment()?;
        }
        Ok(pointer)
    }

    /// The dotted words between a space and a name; those of a parameter in a list end with what it points to.
    fn type_words(&mut self, head: &mut Head, of_list: bool) -> Parsed<()> {
        let mut ty = None;
        while self.token.kind == TokenKind::Dotted {
            let text = self.current();
            match text {
                b".align" => head.align = self.alignment()?,
                b".v2" | b".v4" => {
                    head.vector = text[2] - b'0';
                    self.advance();
                }
                b".attribute" => {
                    self.advance();
                    head.attributes = self.attributes()?;
                }
                b".ptr" if of_list && ty.is_some() && head.space == Space::Param => {
                    head.pointer = Some(self.pointer()?);
                    break;
                }
                _ => match type_of(text) {
                    Some(found) if ty.is_none() && declarable(found) => {
                        ty = Some(found);
                        self.advance();
                    }
                    _ => return Err(self.unexpected("a type")),
                },
            }
        }
        match ty {
            Some(ty) => head.ty = ty,
            None if head.space == Space::Tex => head.ty = Type::U64,
            None => return Err(self.unexpected("a type")),
        }
        Ok(())
    }

    /// `(.managed)` or `(.unified(1, 2))`
    pub(super) fn attributes(&mut self) -> Parsed<Vec<Attribute>> {
        let mut attributes = Vec::new();
        self.expect(b'(')?;
        loop {
            match self.current() {
                b".managed" => {
                    self.advance();
                    attributes.push(Attribute::Managed);
                }
                b".unified" => {
                    self.advance();
                    self.expect(b'(')?;
                    let first = self.integer_constant("the first half of an identifier")?;
                    self.expect(b',')?;
                    let second = self.integer_constant("the second half of an identifier")?;
                    self.expect(b')')?;
                    attributes.push(Attribute::Unified(first as u64, second as u64));
                }
                _ => return Err(self.unexpected(".managed or .unified")),
            }
            if !self.eat(b',') {
                break;
            }
        }
        self.expect(b')')?;
        Ok(attributes)
    }

    /// `name[4][2] = {…}`; a name may be numbered, `name<4>`, for parameters of old code.
    fn declarator(&mut self, head: &Head, linkage: Linkage) -> Parsed<VariableId> {
        let token = self.name("a name")?;
        let name = self.intern(token);
        let dimensions = self.dimensions(usize::MAX)?;
        // The name is bound behind the initialiser: a variable cannot start with its own address.
        let initialiser = if self.eat(b'=') {
            Some(self.initialiser()?)
        } else {
            None
        };
        let variable = Variable {
            name,
            span: token.span(),
            space: head.space,
            bank: head.bank,
            linkage,
            ty: head.ty,
            vector: head.vector,
            align: head.align,
            dimensions,
            initialiser,
            attributes: head.attributes.clone(),
            pointer: head.pointer,
            register: None,
        };
        Ok(self.declare_variable(name, variable))
    }

    fn dimensions(&mut self, most: usize) -> Parsed<Vec<u64>> {
        let mut dimensions = Vec::new();
        while dimensions.len() < most && self.token.is(b'[') {
            self.advance();
            if self.eat(b']') {
                if !dimensions.is_empty() {
                    let span = Span::new(self.last_end - 1, self.last_end);
                    self.report(Diagnostic::error(
                        span,
                        "Only the first dimension of an array may be left open",
                    ));
                }
                dimensions.push(0);
                continue;
            }
            let size = self.integer_token("the size of an array")?;
            self.expect(b']')?;
            dimensions.push(size);
        }
        Ok(dimensions)
    }

    /// Adds a variable and binds its name, unless the scope has that name already.
    fn declare_variable(&mut self, name: Name, variable: Variable) -> VariableId {
        let id = VariableId(self.module.variables.len() as u32);
        let span = variable.span;
        let taken = match self.scopes.get_here(name) {
            Binding::Unbound => self.scopes.in_range_here(&self.module.names, name),
            Binding::Variable(old) if self.scopes.depth() == 0 => {
                // An extern declaration may come before or after the definition.
                let old = &self.module.variables[old.index()];
                let same = old.space == variable.space && old.ty == variable.ty;
                let declared =
                    old.linkage == Linkage::Extern || variable.linkage == Linkage::Extern;
                let common = old.linkage == Linkage::Common && variable.linkage == Linkage::Common;
                !(same && (declared || common))
            }
            _ => true,
        };
        if taken {
            let text = self.module.names.text(name);
            self.diagnostics.push(Diagnostic::error(
                span,
                format!("Duplicate definition of variable '{text}'"),
            ));
        }
        self.module.variables.push(variable);
        self.scopes.bind(name, Binding::Variable(id));
        id
    }

    /// One parameter of a function, prototype or entry. `None` when it has no name.
    pub(super) fn parameter(&mut self, named: bool) -> Parsed<VariableId> {
        let space = match self.current() {
            b".param" => Space::Param,
            b".reg" => Space::Reg,
            _ => return Err(self.unexpected(".param or .reg")),
        };
        self.advance();
        let mut head = Head {
            space,
            bank: None,
            ty: Type::B32,
            vector: 1,
            align: None,
            attributes: Vec::new(),
            pointer: None,
        };
        self.type_words(&mut head, true)?;
        let token = match self.current() {
            b"_" => self.advance(),
            _ => self.name("a name")?,
        };
        let name = self.intern(token);
        if named && self.module.names.bytes(name) == b"_" {
            self.report(Diagnostic::error(
                token.span(),
                "Illegal parameter name '_'",
            ));
        }
        let dimensions = self.dimensions(1)?;
        let mut variable = Variable {
            name,
            span: token.span(),
            space,
            bank: None,
            linkage: Linkage::Internal,
            ty: head.ty,
            vector: head.vector,
            align: head.align,
            dimensions,
            initialiser: None,
            attributes: head.attributes,
            pointer: head.pointer,
            register: None,
        };
        if !named || self.module.names.bytes(name) == b"_" {
            let id = VariableId(self.module.variables.len() as u32);
            self.module.variables.push(variable);
            return Ok(id);
        }
        if space == Space::Reg {
            let register = self.declare_register(name, token.span(), head.ty, head.vector);
            variable.register = Some(register);
            let id = VariableId(self.module.variables.len() as u32);
            self.module.variables.push(variable);
            return Ok(id);
        }
        Ok(self.declare_variable(name, variable))
    }

    /// A value, or values in braces.
    fn initialiser(&mut self) -> Parsed<Initialiser> {
        let start = self.token.start;
        let mut parts = Vec::new();
        let mut bytes = Vec::new();
        let mut depth = 0_u32;
        loop {
            if depth > 0 && self.small_numbers(&mut parts, &mut bytes) {
                continue;
            }
            if self.eat(b'{') {
                depth += 1;
                parts.push(InitialiserPart::Open);
                if !self.token.is(b'}') {
                    continue;
                }
            } else {
                self.initial_value(&mut parts)?;
            }
            while depth > 0 && self.eat(b'}') {
                depth -= 1;
                parts.push(InitialiserPart::Close);
            }
            if depth == 0 {
                break;
            }
            self.expect(b',')?;
        }
        Ok(Initialiser {
            span: Span::new(start, self.last_end),
            parts,
            bytes,
        })
    }

    /// Several small numbers, each with its comma: what tables are made of. Whether there are any.
    fn small_numbers(&mut self, parts: &mut Vec<InitialiserPart>, bytes: &mut Vec<u8>) -> bool {
        if self.token.kind != TokenKind::Integer {
            return false;
        }
        let first = bytes.len();
        let Some(end) = self.lexer.small_numbers(self.token.start, bytes) else {
            return false;
        };
        parts.push(InitialiserPart::Bytes {
            first: first as u32,
            count: (bytes.len() - first) as u32,
        });
        self.last_end = end;
        self.token = self.lexer.next_token();
        true
    }

    /// A constant, an address, or a byte of one of them.
    fn initial_value(&mut self, parts: &mut Vec<InitialiserPart>) -> Parsed<()> {
        if self.token.kind == TokenKind::Word && self.lexer.peek_is(b'=') {
            return self.field(parts);
        }
        if self.at_address() {
            return self.initial_address(parts);
        }
        let single = self.token.kind == TokenKind::Integer && self.lexer.peek_is(b'(');
        let start = self.token.start;
        let value = self.constant()?;
        let mask = match value {
            Constant::Signed(value) => value.cast_unsigned(),
            Constant::Unsigned(value) => value,
            Constant::Single(_) | Constant::Double(_) => 0,
        };
        if !single {
            parts.push(InitialiserPart::Constant(value));
            return Ok(());
        }
        if !(0..8).any(|byte| mask == 0xff << (8 * byte)) {
            let span = Span::new(start, self.last_end);
            self.report(
                Diagnostic::error(
                    span,
                    format!("Invalid mask value '{mask:#x}' used in initializer"),
                )
                .expected("a mask of one byte, 0xff to 0xff00000000000000"),
            );
        }
        self.expect(b'(')?;
        parts.push(InitialiserPart::Mask(mask));
        if self.at_address() {
            self.initial_address(parts)?;
        } else {
            let value = self.integer_constant("a constant or the name of a variable")?;
            parts.push(InitialiserPart::Constant(Constant::Signed(value)));
        }
        self.expect(b')')
    }

    /// `name = value` in the record of a texture, sampler or surface.
    fn field(&mut self, parts: &mut Vec<InitialiserPart>) -> Parsed<()> {
        let token = self.name("a field")?;
        self.expect(b'=')?;
        let text = self.shown(token);
        let Some(field) = Field::from_name(&text) else {
            return Err(self.fail(Diagnostic::error(
                token.span(),
                format!("Unrecognized field name '{text}' in opaque struct initializer"),
            )));
        };
        parts.push(InitialiserPart::Field(field));
        if !self.at_address() {
            let value = self.constant()?;
            parts.push(InitialiserPart::Constant(value));
            return Ok(());
        }
        let token = self.name("a value")?;
        let text = self.shown(token);
        match opaque::value(&text) {
            Some(value) => {
                parts.push(InitialiserPart::Constant(Constant::Signed(value)));
                Ok(())
            }
            None => Err(self.fail(Diagnostic::error(
                token.span(),
                format!("Unrecognized initial value symbol '{text}'"),
            ))),
        }
    }

    fn at_address(&self) -> bool {
        self.token.kind == TokenKind::Word && self.current() != b"WARP_SZ"
    }

    /// `name`, `name+4`, `generic(name)`, `generic(name)+4`
    fn initial_address(&mut self, parts: &mut Vec<InitialiserPart>) -> Parsed<()> {
        // `generic` is a name where no parenthesis follows.
        let generic = self.current() == b"generic" && self.lexer.peek_is(b'(');
        if generic {
            self.advance();
            self.expect(b'(')?;
        }
        let token = self.name("a constant or the name of a variable")?;
        let name = self.intern(token);
        let binding = self.scopes.get(name);
        if generic {
            self.expect(b')')?;
        }
        let mut offset = None;
        if self.eat(b'+') {
            offset = Some(self.integer_constant("an offset")?);
        }
        match binding {
            Binding::Variable(variable) => parts.push(InitialiserPart::Variable {
                variable,
                offset: offset.unwrap_or(0),
                generic,
            }),
            Binding::Function(function) if !generic && offset.is_none() => {
                parts.push(InitialiserPart::Function(function));
            }
            Binding::Function(_) => {
                let span = Span::new(token.start, self.last_end);
                return Err(self.fail(
                    Diagnostic::error(span, "Invalid initial value expression")
                        .expected("the name of a function alone"),
                ));
            }
            _ => {
                let text = self.shown(token);
                return Err(self.fail(
                    Diagnostic::error(
                        token.span(),
                        format!("Invalid initial value symbol '{text}'"),
                    )
                    .expected("a variable or function that is declared before"),
                ));
            }
        }
        Ok(())
    }
}
