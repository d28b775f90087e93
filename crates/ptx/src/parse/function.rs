//! Functions and entries: heads, directives, and the frame around a body.

use super::scope::Binding;
use super::{Parsed, Parser};
use crate::ast::{
    Attribute, Body, Function, FunctionDirective, FunctionDirectiveKind, FunctionId, Item, LabelId,
    Linkage, Variable, VariableId,
};
use crate::diagnostic::{Diagnostic, Span};
use crate::lex::TokenKind;
use crate::name::Name;
use rustc_hash::FxHashMap;

/// Where a label is used before it is known.
#[derive(Clone, Copy, Debug)]
pub(super) enum LabelUse {
    /// In that operand of the pool.
    Operand(u32),
    /// In that entry of that target list.
    List(u32, u32),
}

/// What is collected while a body is read.
#[derive(Debug, Default)]
pub(super) struct FunctionState {
    pub body: Body,
    /// The parent of each scope; the function's own scope is 0.
    pub scope_parents: Vec<u32>,
    /// The scope being read.
    pub scope: u32,
    pub labels: FxHashMap<(Name, u32), LabelId>,
    pub label_uses: Vec<(Name, u32, Span, LabelUse)>,
    /// Operands of the statement being read, with their open parts.
    pub scratch: Vec<crate::ast::Operand>,
}

impl Parser<'_> {
    pub(super) fn function_item(&mut self, linkage: Linkage, entry: bool) -> Parsed<()> {
        let depth = self.scopes.depth();
        let result = self.function_parts(linkage, entry);
        while self.scopes.depth() > depth {
            self.scopes.close();
        }
        result
    }

    fn function_parts(&mut self, linkage: Linkage, entry: bool) -> Parsed<()> {
        self.advance();
        let mut attributes = Vec::new();
        if self.at_dotted(b".attribute") {
            self.advance();
            let at = self.token;
            attributes = self.attributes()?;
            if attributes.contains(&Attribute::Managed) {
                self.report(Diagnostic::error(
                    at.span(),
                    "Parsing error near '.managed': syntax error",
                ));
            }
        }
        // Parameters are declared in the scope of the body, which opens here.
        self.function = FunctionState::default();
        self.function.scope_parents.push(0);
        self.scopes.open();
        let mut returns = Vec::new();
        if !entry && self.token.is(b'(') {
            returns = self.parameters(true)?;
        }
        let token = self.name("the name of a function")?;
        let name = self.intern(token);
        let mut parameters = Vec::new();
        if self.token.is(b'(') {
            parameters = self.parameters(true)?;
        }
        let directives = self.function_directives()?;
        let has_body = match self.token.kind {
            TokenKind::Punctuation(b'{') => true,
            TokenKind::Punctuation(b';') => false,
            _ => return Err(self.unexpected("a directive, '{' or ';'")),
        };
        let id = self.declare_function(
            Function {
                name,
                span: token.span(),
                entry,
                linkage,
                attributes,
                returns,
                parameters,
                directives,
                body: None,
            },
            has_body,
        );
        if has_body {
            self.body();
            let body = std::mem::take(&mut self.function.body);
            self.module.functions[id.index()].body = Some(body);
        } else {
            self.advance();
        }
        self.module.items.push(Item::Function(id));
        Ok(())
    }

    /// `(.param .b32 a, .reg .f32 b)`
    pub(super) fn parameters(&mut self, named: bool) -> Parsed<Vec<VariableId>> {
        self.expect(b'(')?;
        let mut list = Vec::new();
        if self.eat(b')') {
            return Ok(list);
        }
        loop {
            list.push(self.parameter(named)?);
            if !self.eat(b',') {
                break;
            }
        }
        self.expect(b')')?;
        Ok(list)
    }

    pub(super) fn function_directives(&mut self) -> Parsed<Vec<FunctionDirective>> {
        let mut directives = Vec::new();
        while self.token.kind == TokenKind::Dotted {
            let start = self.token.start;
            let text = self.current();
            let Some(kind) = FunctionDirectiveKind::ALL
                .iter()
                .copied()
                .find(|kind| kind.name().as_bytes() == text)
            else {
                return Err(self.unexpected("a directive of a function"));
            };
            self.advance();
            let mut values = [1; 3];
            let mut count = 0;
            let most = match kind {
                FunctionDirectiveKind::MaxNTid
                | FunctionDirectiveKind::ReqNTid
                | FunctionDirectiveKind::ReqNCtaPerCluster => 3,
                FunctionDirectiveKind::NoReturn
                | FunctionDirectiveKind::ExplicitCluster
                | FunctionDirectiveKind::BlocksAreClusters
                | FunctionDirectiveKind::Pragma => 0,
                _ => 1,
            };
            if kind == FunctionDirectiveKind::Pragma {
                self.string()?;
                while self.eat(b',') {
                    self.string()?;
                }
                self.expect(b';')?;
            }
            while count < most {
                values[count] = self.small_integer("the value of a directive")?;
                count += 1;
                if count < most && !self.eat(b',') {
                    break;
                }
            }
            directives.push(FunctionDirective {
                kind,
                span: Span::new(start, self.last_end),
                values,
                count: count as u8,
            });
        }
        Ok(directives)
    }

    /// Adds a function and binds its name at module level.
    fn declare_function(&mut self, mut function: Function, defined: bool) -> FunctionId {
        let id = FunctionId(self.module.functions.len() as u32);
        let (name, span) = (function.name, function.span);
        let text = self.module.names.text(name);
        let mut messages = Vec::new();
        match self.scopes.get_outermost(name) {
            Binding::Unbound => {}
            Binding::Function(old) => {
                let old = &self.module.functions[old.index()];
                if old.body.is_some() {
                    messages.push(format!("Duplicate definition of function '{text}'"));
                } else if old.entry != function.entry {
                    let what = "as entry and function";
                    messages.push(format!("Inconsistent redefinition of '{text}' {what}"));
                }
                let differences = self.differences(old, &function).into_iter();
                messages.extend(differences.map(|difference| {
                    format!("Inconsistent prototypes of '{text}', {difference} differ")
                }));
                // What a function is for the linker its first declaration says; a later one without a word keeps to it.
                let silent = function.linkage == Linkage::Internal
                    && matches!(old.linkage, Linkage::Visible | Linkage::Weak);
                if old.linkage != function.linkage && !silent {
                    messages.push(format!("Inconsistent redefinition of variable '{text}'"));
                }
                function.linkage = old.linkage;
            }
            _ => messages.push(format!("Duplicate definition of function '{text}'")),
        }
        if defined && function.linkage == Linkage::Extern {
            messages.push(format!(
                "Function definition conflicts with '.extern' declaration for function '{text}'"
            ));
        }
        for message in messages {
            self.report(Diagnostic::error(span, message));
        }
        self.module.functions.push(function);
        self.scopes.bind_outermost(name, Binding::Function(id));
        id
    }

    /// In what two declarations of a function differ, in ptxas's words; once for each parameter.
    fn differences(&self, a: &Function, b: &Function) -> Vec<&'static str> {
        let (old, new) = ([&a.returns, &a.parameters], [&b.returns, &b.parameters]);
        if old.map(Vec::len) != new.map(Vec::len) {
            return vec!["number of parameters"];
        }
        let mut found = Vec::new();
        for (a, b) in old.into_iter().flatten().zip(new.into_iter().flatten()) {
            let (a, b) = (self.module.variable(*a), self.module.variable(*b));
            let shape = |it: &Variable| (it.ty, it.vector, it.dimensions.clone());
            if a.space != b.space {
                found.push("parameter state space");
            }
            if shape(a) != shape(b) {
                found.push("parameter types");
            }
            if a.alignment() != b.alignment() {
                found.push("parameter alignment");
            }
        }
        found
    }
}
