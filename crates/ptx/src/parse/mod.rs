//! The parser: one pass over the tokens, names resolved and operands matched on the way.
//!
//! PTX declares everything before use except labels, so a single pass can resolve every name as it goes; branch targets
//! are filled in at the end of each function. A statement that cannot be read is reported and skipped to its end, and the
//! parser goes on, so that one run reports several errors. Nothing recurses along the input: scopes are a counter and a
//! list of things to undo, initialisers are a flat list, and constant expressions use explicit stacks.

mod constant;
mod evaluate;
mod function;
mod instruction;
mod operand;
mod scope;
mod section;
mod statement;
mod variable;

use crate::ast::{Alias, File, Item, Linkage, Module, TargetOption};
use crate::diagnostic::{Diagnostic, Diagnostics, Span};
use crate::lex::{Lexer, Token, TokenKind};
use crate::name::{Name, Names};
use crate::target::{Target, Variant};
use scope::Scopes;
use variable::WARP_SIZE;

/// The newest PTX version that is read, as `10 * major + minor`.
pub const NEWEST_VERSION: u16 = 90;

/// Reads a module. Messages about its text, names, types and operands come with it; [`fn@crate::check`] adds what depends on
/// versions, targets and limits.
pub fn parse(source: &[u8]) -> (Module<'_>, Diagnostics) {
    let mut parser = Parser::new(source);
    if source.len() > Lexer::MAX_SOURCE {
        parser.report(Diagnostic::error(
            Span::default(),
            "The source is larger than 4 GiB",
        ));
    } else {
        parser.module();
    }
    parser.finish()
}

/// A statement was given up; the message is already there.
#[derive(Debug)]
struct GivenUp;

type Parsed<T> = Result<T, GivenUp>;

struct Parser<'a> {
    source: &'a [u8],
    lexer: Lexer<'a>,
    token: Token,
    /// The end of the token before.
    last_end: u32,
    module: Module<'a>,
    diagnostics: Diagnostics,
    scopes: Scopes,
    /// For each name, the opcode with that spelling plus one, 0 where there is none.
    opcode_of: Vec<u32>,
    function: function::FunctionState,
}

impl<'a> Parser<'a> {
    fn new(source: &'a [u8]) -> Parser<'a> {
        let text = if source.len() > Lexer::MAX_SOURCE {
            &[]
        } else {
            source
        };
        let mut lexer = Lexer::new(text);
        let token = lexer.next_token();
        Parser {
            source: text,
            lexer,
            token,
            last_end: 0,
            module: Module {
                source: text,
                names: Names::default(),
                version: 0,
                version_span: Span::default(),
                target: None,
                target_span: Span::default(),
                target_options: Vec::new(),
                address_size: 64,
                address_size_span: None,
                items: Vec::new(),
                variables: Vec::new(),
                functions: Vec::new(),
                opcodes: Vec::new(),
                files: Vec::new(),
                sections: Vec::new(),
                aliases: Vec::new(),
                pragmas: Vec::new(),
            },
            diagnostics: Diagnostics::default(),
            scopes: Scopes::default(),
            opcode_of: Vec::new(),
            function: function::FunctionState::default(),
        }
    }

    fn finish(self) -> (Module<'a>, Diagnostics) {
        (self.module, self.diagnostics)
    }

    // ---- tokens ----

    #[inline]
    fn advance(&mut self) -> Token {
        let token = self.token;
        self.last_end = token.end;
        self.token = self.lexer.next_token();
        token
    }

    #[inline]
    fn bytes(&self, token: Token) -> &'a [u8] {
        &self.source[token.start as usize..token.end as usize]
    }

    #[inline]
    fn current(&self) -> &'a [u8] {
        self.bytes(self.token)
    }

    /// Whether the current token is that directive or modifier (with its dot).
    fn at_dotted(&self, text: &[u8]) -> bool {
        self.token.kind == TokenKind::Dotted && self.current() == text
    }

    #[inline]
    fn eat(&mut self, byte: u8) -> bool {
        if self.token.is(byte) {
            self.advance();
            return true;
        }
        false
    }

    fn expect(&mut self, byte: u8) -> Parsed<()> {
        if self.eat(byte) {
            return Ok(());
        }
        Err(self.unexpected(format!("'{}'", char::from(byte))))
    }

    #[inline]
    fn intern(&mut self, token: Token) -> Name {
        let text = &self.source[token.start as usize..token.end as usize];
        self.module.names.intern(text)
    }

    // ---- messages ----

    fn report(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }

    /// Reports that the current token should be something else.
    fn unexpected(&mut self, expected: impl Into<String>) -> GivenUp {
        self.unexpected_at(self.token, expected)
    }

    fn unexpected_at(&mut self, token: Token, expected: impl Into<String>) -> GivenUp {
        let diagnostic = match token.kind {
            TokenKind::End => Diagnostic::error(
                Span::new(token.start.saturating_sub(1), token.end),
                "Parsing error: unexpected end of file",
            ),
            TokenKind::Unterminated => {
                let what = if self.source.get(token.start as usize) == Some(&b'"') {
                    "string"
                } else {
                    "comment"
                };
                Diagnostic::error(
                    Span::new(token.start, token.start + 1),
                    format!("Parsing error: unterminated {what}"),
                )
            }
            _ => Diagnostic::error(
                token.span(),
                format!("Parsing error near '{}': syntax error", self.shown(token)),
            ),
        };
        self.report(diagnostic.expected(expected));
        GivenUp
    }

    fn fail(&mut self, diagnostic: Diagnostic) -> GivenUp {
        self.report(diagnostic);
        GivenUp
    }

    /// A token's text, short enough for a message.
    fn shown(&self, token: Token) -> String {
        let bytes = self.bytes(token);
        // A string may go on in the next line; a message does not.
        let line = bytes
            .split(|&it| it == b'\n' || it == b'\r')
            .next()
            .unwrap_or(bytes);
        let short = &line[..line.len().min(60)];
        let text = String::from_utf8_lossy(short).into_owned();
        if short.len() < bytes.len() {
            format!("{text}…")
        } else {
            text
        }
    }

    /// Skips to the end of a statement: past the next `;`, or in front of the `}` of a block. The braces of vectors are
    /// skipped with it. Returns how many braces were open at the `;`: those were blocks, after a statement without end.
    fn recover(&mut self) -> usize {
        let mut open = 0;
        loop {
            match self.token.kind {
                TokenKind::End => return 0,
                TokenKind::Punctuation(b';') => {
                    self.advance();
                    return open;
                }
                TokenKind::Punctuation(b'{') => open += 1,
                TokenKind::Punctuation(b'}') if open > 0 => open -= 1,
                // Where the error was inside a vector, its end is still to come.
                TokenKind::Punctuation(b'}') => {
                    let next = self.lexer.clone().next_token();
                    if !matches!(
                        next.kind,
                        TokenKind::Punctuation(b',' | b';' | b'|' | b']' | b')')
                    ) {
                        return 0;
                    }
                }
                _ => {}
            }
            self.advance();
        }
    }

    /// Skips a body or initialiser that starts at the current `{`.
    fn skip_braces(&mut self) {
        let mut depth = 0_u32;
        loop {
            match self.token.kind {
                TokenKind::End => return,
                TokenKind::Punctuation(b'{') => depth += 1,
                TokenKind::Punctuation(b'}') => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        self.advance();
                        return;
                    }
                }
                _ => {}
            }
            self.advance();
        }
    }

    /// After a top-level statement that cannot be read: past its `;` or its body.
    fn recover_item(&mut self) {
        loop {
            match self.token.kind {
                TokenKind::End => return,
                TokenKind::Punctuation(b';') => {
                    self.advance();
                    return;
                }
                TokenKind::Punctuation(b'{') => {
                    self.skip_braces();
                    return;
                }
                _ => {
                    self.advance();
                }
            }
        }
    }

    // ---- the module ----

    fn module(&mut self) {
        if self.header().is_err() {
            // Without a version nothing says what language this is; read on all the same, for the other errors.
            self.recover_header();
        }
        while self.token.kind != TokenKind::End {
            let before = self.token.start;
            if self.item().is_err() {
                self.recover_item();
            }
            if self.token.start == before && self.token.kind != TokenKind::End {
                self.advance();
            }
        }
    }

    fn recover_header(&mut self) {
        const ITEMS: &[&[u8]] = &[
            b".visible",
            b".extern",
            b".weak",
            b".common",
            b".entry",
            b".func",
            b".global",
            b".const",
            b".shared",
            b".file",
            b".section",
            b".target",
            b".address_size",
        ];
        while self.token.kind != TokenKind::End && !ITEMS.iter().any(|item| self.at_dotted(item)) {
            self.advance();
        }
    }

    fn header(&mut self) -> Parsed<()> {
        if !self.at_dotted(b".version") {
            let span = self.token.span();
            return Err(self.fail(Diagnostic::error(
                span,
                "Missing .version directive at start of file",
            )));
        }
        self.advance();
        self.version()?;
        if !self.at_dotted(b".target") {
            let span = self.token.span();
            return Err(self.fail(Diagnostic::error(
                span,
                "Missing .target directive after .version",
            )));
        }
        while self.at_dotted(b".target") {
            self.target()?;
        }
        if self.at_dotted(b".address_size") {
            self.address_size()?;
        }
        Ok(())
    }

    fn version(&mut self) -> Parsed<()> {
        let token = self.token;
        let text = std::str::from_utf8(self.current()).unwrap_or_default();
        let version = match (token.kind, text.split_once('.')) {
            (TokenKind::Float, Some((major, minor))) => {
                match (major.parse::<u16>(), minor.parse::<u16>()) {
                    (Ok(major), Ok(minor)) if major < 100 && minor < 10 => Some(major * 10 + minor),
                    _ => None,
                }
            }
            _ => None,
        };
        let Some(version) = version else {
            return Err(self.unexpected("a version such as 9.0"));
        };
        self.advance();
        self.module.version = version;
        self.module.version_span = token.span();
        if version > NEWEST_VERSION || !is_version(version) {
            let message = format!(
                "Unsupported .version {text}; current version is '{}'",
                crate::target::Version(NEWEST_VERSION)
            );
            self.report(Diagnostic::fatal(token.span(), message));
        }
        Ok(())
    }

    fn target(&mut self) -> Parsed<()> {
        self.advance();
        let mut seen = 0;
        loop {
            let token = self.token;
            if token.kind != TokenKind::Word {
                return Err(self.unexpected("a target such as sm_90a"));
            }
            let text = std::str::from_utf8(self.current()).unwrap_or_default();
            self.advance();
            let option = match text {
                "texmode_unified" => Some(TargetOption::TexmodeUnified),
                "texmode_independent" => Some(TargetOption::TexmodeIndependent),
                "debug" => Some(TargetOption::Debug),
                "map_f64_to_f32" => Some(TargetOption::MapF64ToF32),
                _ => None,
            };
            if let Some(option) = option {
                let other = match option {
                    TargetOption::TexmodeUnified => Some(TargetOption::TexmodeIndependent),
                    TargetOption::TexmodeIndependent => Some(TargetOption::TexmodeUnified),
                    TargetOption::Debug | TargetOption::MapF64ToF32 => None,
                };
                if other.is_some_and(|other| self.module.target_options.contains(&other)) {
                    let message = format!("Conflicting .target option '{text}'");
                    self.report(Diagnostic::error(token.span(), message));
                }
                self.module.target_options.push(option);
            } else if let Some(target) = Target::from_name(text) {
                self.module.target = Some(target);
                self.module.target_span = token.span();
            } else {
                let names = ["sm_75", "sm_80", "sm_90", "sm_90a", "sm_100a"];
                let mut diagnostic =
                    Diagnostic::error(token.span(), format!("Unsupported .target '{text}'"));
                if let Some(near) = crate::diagnostic::nearest(text, names) {
                    diagnostic = diagnostic.suggest(format!("did you mean '{near}'?"));
                }
                self.report(diagnostic);
            }
            seen += 1;
            if !self.eat(b',') {
                break;
            }
        }
        if self.module.target.is_none() && seen > 0 {
            let span = Span::new(self.last_end.saturating_sub(1), self.last_end);
            if !self.diagnostics.has_errors() {
                self.report(Diagnostic::error(span, "No architecture in .target"));
            }
            self.module.target = Some(Target {
                sm: 90,
                variant: Variant::Architecture,
            });
        }
        Ok(())
    }

    fn address_size(&mut self) -> Parsed<()> {
        self.advance();
        let token = self.token;
        let size = match token.kind {
            TokenKind::Integer => crate::lex::integer(self.current()).map(|it| it.value),
            _ => None,
        };
        let Some(size) = size else {
            return Err(self.unexpected("32 or 64"));
        };
        self.advance();
        self.module.address_size_span = Some(token.span());
        match size {
            32 => self.module.address_size = 32,
            64 => self.module.address_size = 64,
            _ => self.report(Diagnostic::error(
                token.span(),
                format!("Invalid .address_size {size}, must be 32 or 64"),
            )),
        }
        Ok(())
    }

    fn item(&mut self) -> Parsed<()> {
        if self.token.kind != TokenKind::Dotted {
            return Err(self.unexpected("a directive"));
        }
        let start = self.token.start;
        let mut linkage = Linkage::Internal;
        loop {
            let found = match self.current() {
                b".extern" => Linkage::Extern,
                b".visible" => Linkage::Visible,
                b".weak" => Linkage::Weak,
                b".common" => Linkage::Common,
                _ => break,
            };
            if linkage != Linkage::Internal {
                return Err(self.unexpected("one linkage directive"));
            }
            linkage = found;
            self.advance();
        }
        match self.current() {
            b".entry" => self.function_item(linkage, true),
            b".func" => self.function_item(linkage, false),
            b".global" | b".const" | b".shared" | b".local" | b".param" | b".tex" => {
                self.module_variables(linkage)
            }
            _ if linkage != Linkage::Internal => {
                Err(self.unexpected("a variable, function or entry"))
            }
            b".file" => self.file(),
            b".section" => self.section(start),
            b".alias" => self.alias(start),
            b".pragma" => {
                self.advance();
                let spans = self.pragma_strings()?;
                for span in spans {
                    let at = self.module.pragmas.len() as u32;
                    self.module.pragmas.push(span);
                    self.module.items.push(Item::Pragma(at));
                }
                Ok(())
            }
            b".version" | b".target" | b".address_size" => {
                let text = self.shown(self.token);
                let span = self.token.span();
                Err(self.fail(
                    Diagnostic::error(span, format!("Parsing error near '{text}': syntax error"))
                        .expected("it once, at the start of the file"),
                ))
            }
            _ => Err(self.unexpected("a directive of the module")),
        }
    }

    fn file(&mut self) -> Parsed<()> {
        self.advance();
        let index = self.small_integer("the number of the file")?;
        let name = self.string()?;
        let mut stamp = None;
        if self.eat(b',') {
            let time = self.integer_token("a time")?;
            self.expect(b',')?;
            let size = self.integer_token("a size")?;
            stamp = Some((time, size));
        }
        let at = self.module.files.len() as u32;
        self.module.files.push(File { index, name, stamp });
        self.module.items.push(Item::File(at));
        Ok(())
    }

    fn alias(&mut self, start: u32) -> Parsed<()> {
        self.advance();
        let name = self.name("the name of the alias")?;
        self.expect(b',')?;
        let of = self.name("a function")?;
        self.expect(b';')?;
        let at = self.module.aliases.len() as u32;
        let alias = self.intern(name);
        let target = self.intern(of);
        let span = Span::new(start, self.last_end);
        self.module.aliases.push(Alias {
            name: alias,
            of: target,
            span,
        });
        for (symbol, token) in [(alias, name), (target, of)] {
            if !matches!(self.scopes.get(symbol), scope::Binding::Function(_)) {
                let text = self.shown(token);
                self.report(Diagnostic::error(
                    token.span(),
                    format!("Unknown symbol '{text}'"),
                ));
            }
        }
        self.module.items.push(Item::Alias(at));
        Ok(())
    }

    /// `"…", "…";` behind `.pragma`.
    fn pragma_strings(&mut self) -> Parsed<Vec<Span>> {
        let mut spans = vec![self.string()?];
        while self.eat(b',') {
            spans.push(self.string()?);
        }
        self.expect(b';')?;
        Ok(spans)
    }

    fn string(&mut self) -> Parsed<Span> {
        if self.token.kind != TokenKind::String {
            return Err(self.unexpected("a string"));
        }
        Ok(self.advance().span())
    }

    /// A name: `_` and `$` alone are none.
    fn name(&mut self, what: &str) -> Parsed<Token> {
        let alone = matches!(self.current(), b"_" | b"$");
        if self.token.kind != TokenKind::Word || alone {
            return Err(self.unexpected(what));
        }
        Ok(self.advance())
    }

    /// One integer as directives take it: a literal or `WARP_SZ`, no expression.
    fn integer_token(&mut self, what: &str) -> Parsed<u64> {
        let value = match self.token.kind {
            TokenKind::Word if self.current() == b"WARP_SZ" => Some(WARP_SIZE),
            TokenKind::Integer => crate::lex::integer(self.current()).map(|it| it.value),
            _ => None,
        };
        let Some(value) = value else {
            return Err(self.unexpected(what));
        };
        self.advance();
        Ok(value)
    }

    fn small_integer(&mut self, what: &str) -> Parsed<u32> {
        let token = self.token;
        let value = self.integer_token(what)?;
        u32::try_from(value).map_err(|_| {
            self.fail(Diagnostic::error(
                token.span(),
                format!("{value} is out of range for {what}"),
            ))
        })
    }
}

/// Whether there was a PTX version of that number.
fn is_version(version: u16) -> bool {
    matches!(version, 10..=15 | 20..=23 | 30..=32 | 40..=43 | 50 | 60..=65 | 70..=78 | 80..=88 | 90)
}
