//! The statements of a body: scopes, declarations, labels and debug positions.

use super::function::LabelUse;
use super::scope::{Binding, MAX_DEPTH, Range};
use super::variable::{declarable, type_of};
use super::{Parsed, Parser};
use crate::ast::{
    FunctionId, Inlined, Label, LabelId, ListId, Location, OperandKind, Prototype, Register,
    RegisterDeclaration, RegisterId, Statement, TargetList, TargetListKind,
};
use crate::diagnostic::{Diagnostic, Span};
use crate::lex::{Token, TokenKind};
use crate::name::Name;
use crate::types::{Type, TypeClass};

/// The most registers that one declaration may name. None of them costs memory before it is used.
const MAX_RANGE: u64 = u32::MAX as u64;

impl Parser<'_> {
    /// A body, from `{` to its `}`. The scope with the parameters is open already.
    pub(super) fn body(&mut self) {
        self.advance();
        let base = self.scopes.depth();
        loop {
            match self.token.kind {
                TokenKind::End => {
                    self.unexpected("'}'");
                    break;
                }
                TokenKind::Punctuation(b'}') => {
                    self.advance();
                    if self.scopes.depth() == base {
                        break;
                    }
                    self.close_scope();
                }
                TokenKind::Punctuation(b'{') => {
                    if self.scopes.depth() - base >= MAX_DEPTH {
                        let span = self.token.span();
                        self.report(Diagnostic::error(
                            span,
                            format!("Scopes are nested more than {MAX_DEPTH} deep"),
                        ));
                        self.skip_braces();
                        continue;
                    }
                    self.advance();
                    self.open_scope();
                }
                _ => {
                    let before = self.token.start;
                    if self.statement().is_err() {
                        self.function.scratch.clear();
                        for _ in 0..self.recover() {
                            if self.scopes.depth() - base < MAX_DEPTH {
                                self.open_scope();
                            }
                        }
                        if self.token.start == before && !self.token.is(b'}') {
                            self.advance();
                        }
                    }
                }
            }
        }
        self.resolve_labels();
    }

    fn open_scope(&mut self) {
        self.scopes.open();
        self.function.body.statements.push(Statement::Open);
        self.function.scope_parents.push(self.function.scope);
        self.function.scope = self.function.scope_parents.len() as u32 - 1;
    }

    fn close_scope(&mut self) {
        self.scopes.close();
        self.function.body.statements.push(Statement::Close);
        self.function.scope = self.function.scope_parents[self.function.scope as usize];
    }

    #[inline]
    fn statement(&mut self) -> Parsed<()> {
        match self.token.kind {
            TokenKind::Word => {
                let token = self.token;
                // A label is a word and a colon; blanks may stand between.
                if self.lexer.next_byte() == b':' || self.colon_follows() {
                    self.name("a label")?;
                    self.advance();
                    return self.label(token);
                }
                self.instruction()
            }
            TokenKind::Punctuation(b'@') => self.instruction(),
            TokenKind::Dotted => self.directive(),
            _ => Err(self.unexpected("a statement")),
        }
    }

    fn colon_follows(&self) -> bool {
        let next = self.lexer.next_byte();
        if !next.is_ascii_whitespace() && next != b'/' {
            return false;
        }
        self.lexer.clone().next_token().is(b':')
    }

    fn label(&mut self, token: Token) -> Parsed<()> {
        let name = self.intern(token);
        if self.token.kind == TokenKind::Dotted {
            let kind = match self.current() {
                b".branchtargets" => Some(self.branch_targets()?),
                b".calltargets" => Some(self.call_targets()?),
                b".callprototype" => Some(self.call_prototype()?),
                _ => None,
            };
            if let Some(kind) = kind {
                let id = ListId(self.function.body.lists.len() as u32);
                let span = token.span();
                self.function
                    .body
                    .lists
                    .push(TargetList { name, span, kind });
                self.function.body.statements.push(Statement::List(id));
                if self.scopes.get_here(name) != Binding::Unbound {
                    self.duplicate("label", token);
                }
                self.scopes.bind(name, Binding::List(id));
                return Ok(());
            }
        }
        let id = LabelId(self.function.body.labels.len() as u32);
        self.function.body.labels.push(Label {
            name,
            span: token.span(),
        });
        let key = (name, self.function.scope);
        let twice = self.function.labels.insert(key, id).is_some();
        if twice || self.scopes.get_here(name) != Binding::Unbound {
            self.duplicate("label", token);
        }
        self.function.body.statements.push(Statement::Label(id));
        Ok(())
    }

    fn duplicate(&mut self, what: &str, token: Token) {
        let text = self.shown(token);
        self.report(Diagnostic::error(
            token.span(),
            format!("Duplicate definition of {what} '{text}'"),
        ));
    }

    /// Notes that a label is used in the current scope; the place is filled in at the end of the function.
    pub(super) fn use_label(&mut self, token: Token, at: LabelUse) {
        let name = self.intern(token);
        let scope = self.function.scope;
        self.function
            .label_uses
            .push((name, scope, token.span(), at));
    }

    fn resolve_labels(&mut self) {
        let uses = std::mem::take(&mut self.function.label_uses);
        for (name, mut scope, span, at) in uses {
            let found = loop {
                if let Some(&label) = self.function.labels.get(&(name, scope)) {
                    break Some(label);
                }
                if scope == 0 {
                    break None;
                }
                scope = self.function.scope_parents[scope as usize];
            };
            let Some(label) = found else {
                self.unknown_symbol(name, span);
                if let LabelUse::Operand(operand) = at {
                    self.function.body.operands[operand as usize].kind = OperandKind::Error;
                }
                continue;
            };
            match at {
                LabelUse::Operand(operand) => {
                    self.function.body.operands[operand as usize].kind = OperandKind::Label(label);
                }
                LabelUse::List(list, entry) => {
                    let list = &mut self.function.body.lists[list as usize];
                    if let TargetListKind::Branch(labels) = &mut list.kind {
                        labels[entry as usize] = label;
                    }
                }
            }
        }
    }

    /// Reports a name that means nothing, with the nearest one that does.
    pub(super) fn unknown_symbol(&mut self, name: Name, span: Span) {
        let text = self.module.names.text(name);
        let mut diagnostic = Diagnostic::error(span, format!("Unknown symbol '{text}'"));
        let labels = self.function.body.labels.iter().take(500);
        let near = crate::diagnostic::nearest(
            text,
            labels
                .map(|label| self.module.names.text(label.name))
                .filter(|label| *label != text),
        );
        if let Some(near) = near.filter(|_| !text.starts_with('%')) {
            diagnostic = diagnostic.suggest(format!("did you mean '{near}'?"));
        }
        self.report(diagnostic);
    }

    fn directive(&mut self) -> Parsed<()> {
        match self.current() {
            b".reg" => self.registers(),
            b".param" | b".local" | b".shared" | b".global" | b".const" => self.local_variables(),
            b".loc" => self.location(),
            b".pragma" => {
                self.advance();
                for span in self.pragma_strings()? {
                    let at = self.function.body.pragmas.len() as u32;
                    self.function.body.pragmas.push(span);
                    self.function.body.statements.push(Statement::Pragma(at));
                }
                Ok(())
            }
            _ => Err(self.unexpected("a statement")),
        }
    }

    /// `.reg .v4 .f32 a, b<10>;`
    fn registers(&mut self) -> Parsed<()> {
        self.advance();
        let mut vector = 1;
        if matches!(self.current(), b".v2" | b".v4") {
            vector = self.current()[2] - b'0';
            self.advance();
        }
        let ty = match self.token.kind {
            TokenKind::Dotted => type_of(self.current()),
            _ => None,
        };
        let usable = |ty: &Type| declarable(*ty) && ty.class() != TypeClass::Opaque;
        let Some(ty) = ty.filter(usable) else {
            return Err(self.unexpected("a type that registers can have"));
        };
        self.advance();
        loop {
            let token = self.name("a register")?;
            let name = self.intern(token);
            let mut count = None;
            if self.eat(b'<') {
                let at = self.token;
                let written = self.integer_token("how many registers")?;
                if written > MAX_RANGE {
                    self.report(Diagnostic::error(
                        at.span(),
                        format!("Register range of {written} is out of bounds"),
                    ));
                }
                count = Some(written.min(MAX_RANGE) as u32);
                self.expect(b'>')?;
            }
            match count {
                None => {
                    self.declare_register(name, token.span(), ty, vector);
                }
                Some(count) => {
                    let range = Range { count, ty, vector };
                    let length = self.module.names.bytes(name).len();
                    if !self.scopes.bind_range(name, length, range) {
                        self.duplicate("variable", token);
                    }
                }
            }
            let at = self.function.body.declarations.len() as u32;
            self.function.body.declarations.push(RegisterDeclaration {
                name,
                span: token.span(),
                count,
                ty,
                vector,
            });
            self.function.body.statements.push(Statement::Registers(at));
            if !self.eat(b',') {
                break;
            }
        }
        self.expect(b';')
    }

    pub(super) fn declare_register(
        &mut self,
        name: Name,
        span: Span,
        ty: Type,
        vector: u8,
    ) -> RegisterId {
        let taken = self.scopes.get_here(name) != Binding::Unbound
            || self.scopes.in_range_here(&self.module.names, name);
        if taken {
            let text = self.module.names.text(name);
            self.report(Diagnostic::error(
                span,
                format!("Duplicate definition of variable '{text}'"),
            ));
        }
        let id = RegisterId(self.function.body.registers.len() as u32);
        self.function
            .body
            .registers
            .push(Register { name, ty, vector });
        self.scopes.bind(name, Binding::Register(id));
        id
    }

    /// `.loc 1 20 5, function_name $L, inlined_at 1 3 4`
    fn location(&mut self) -> Parsed<()> {
        let start = self.advance().start;
        let file = self.small_integer("the number of a file")?;
        let line = self.small_integer("a line")?;
        let column = self.small_integer("a column")?;
        let mut inlined = None;
        if self.eat(b',') {
            if self.current() != b"function_name" {
                return Err(self.unexpected("function_name"));
            }
            self.advance();
            let token = self.name("the label of a function's name")?;
            let function = self.intern(token);
            let mut offset = 0;
            if self.eat(b'+') {
                offset = self.integer_token("an offset")?;
            }
            self.expect(b',')?;
            if self.current() != b"inlined_at" {
                return Err(self.unexpected("inlined_at"));
            }
            self.advance();
            let at = (
                self.small_integer("the number of a file")?,
                self.small_integer("a line")?,
                self.small_integer("a column")?,
            );
            inlined = Some(Inlined {
                function,
                offset,
                at,
            });
        }
        let at = self.function.body.locations.len() as u32;
        self.function.body.locations.push(Location {
            file,
            line,
            column,
            inlined,
            span: Span::new(start, self.last_end),
        });
        self.function.body.statements.push(Statement::Location(at));
        Ok(())
    }

    fn branch_targets(&mut self) -> Parsed<TargetListKind> {
        self.advance();
        let mut labels = Vec::new();
        loop {
            labels.push(self.name("a label")?);
            if !self.eat(b',') {
                break;
            }
        }
        self.expect(b';')?;
        // Uses point into the list, which is there only if the statement is whole.
        let list = self.function.body.lists.len() as u32;
        for (entry, token) in labels.iter().enumerate() {
            self.use_label(*token, LabelUse::List(list, entry as u32));
        }
        Ok(TargetListKind::Branch(vec![LabelId(0); labels.len()]))
    }

    fn call_targets(&mut self) -> Parsed<TargetListKind> {
        self.advance();
        let mut functions: Vec<FunctionId> = Vec::new();
        loop {
            let token = self.name("a function")?;
            let name = self.intern(token);
            match self.scopes.get(name) {
                Binding::Function(function) => functions.push(function),
                _ => self.unknown_symbol(name, token.span()),
            }
            if !self.eat(b',') {
                break;
            }
        }
        self.expect(b';')?;
        Ok(TargetListKind::Call(functions))
    }

    /// `.callprototype (.param .b32 _) _ (.param .b64 _);`
    fn call_prototype(&mut self) -> Parsed<TargetListKind> {
        self.advance();
        let mut prototype = Prototype::default();
        if self.token.is(b'(') {
            prototype.returns = self.parameters(false)?;
        }
        if self.token.kind != TokenKind::Word {
            return Err(self.unexpected("'_'"));
        }
        self.advance();
        if self.token.is(b'(') {
            prototype.parameters = self.parameters(false)?;
        }
        prototype.directives = self.function_directives()?;
        self.expect(b';')?;
        Ok(TargetListKind::Prototype(prototype))
    }
}
