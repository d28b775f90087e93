//! `.section`: numbers, labels and names of what debuggers are told about.
//!
//! A line is a label, a list of numbers, or one name with a number added to it or another name subtracted. Names are not looked up here:
//! most are labels of code, and ptxas takes those that nobody defines for zero.

use super::{Parsed, Parser};
use crate::ast::{Item, Section, SectionReference, SectionTerm};
use crate::diagnostic::{Diagnostic, Span};
use crate::lex::TokenKind;
use rustc_hash::FxHashSet;

impl Parser<'_> {
    pub(super) fn section(&mut self, start: u32) -> Parsed<()> {
        self.advance();
        if self.token.kind != TokenKind::Dotted {
            return Err(self.unexpected("the name of a section"));
        }
        let name = self.advance().span();
        self.expect(b'{')?;
        let mut section = Section {
            span: Span::default(),
            name,
            bytes: Vec::new(),
            labels: Vec::new(),
            references: Vec::new(),
        };
        let mut seen = FxHashSet::default();
        while !self.token.is(b'}') {
            match self.token.kind {
                TokenKind::Word => {
                    let label = self.advance();
                    self.expect(b':')?;
                    let label = self.intern(label);
                    if !seen.insert(label) {
                        let text = self.module.names.text(label);
                        let message = format!("Duplicate definition of label '{text}'");
                        self.report(Diagnostic::error(self.token.span(), message));
                    }
                    let at = section.bytes.len() as u32;
                    section.labels.push((label, at));
                }
                TokenKind::Dotted => self.section_data(&mut section)?,
                _ => return Err(self.unexpected("the data of a section")),
            }
        }
        self.advance();
        section.span = Span::new(start, self.last_end);
        let at = self.module.sections.len() as u32;
        self.module.sections.push(section);
        self.module.items.push(Item::Section(at));
        Ok(())
    }

    /// `.b8 NUMBER, …`, `.b32 NAME`, `.b64 NAME + NUMBER` or `.b64 NAME - NAME`
    fn section_data(&mut self, section: &mut Section) -> Parsed<()> {
        let ty = self.advance();
        let text = String::from_utf8_lossy(self.bytes(ty)).into_owned();
        let size: u8 = match text.as_str() {
            ".b8" => 1,
            ".b16" => 2,
            ".b32" => 4,
            ".b64" => 8,
            _ => 0,
        };
        if size == 0 {
            self.report(Diagnostic::error(ty.span(), "Illegal type for dwarf data"));
        }
        if !matches!(self.token.kind, TokenKind::Word | TokenKind::Dotted) {
            return self.section_numbers(section, size, &text);
        }
        let token = self.advance();
        let name = self.intern(token);
        let mut and = SectionTerm::Plus(0);
        if self.eat(b'+') {
            and = SectionTerm::Plus(self.integer_token("a number")?);
        } else if self.eat(b'-') {
            let other = self.name("a label")?;
            and = SectionTerm::Minus(self.intern(other));
        }
        if !matches!(size, 4 | 8) {
            let message = "Illegal type for dwarf data";
            self.report(Diagnostic::error(self.token.span(), message));
            return Ok(());
        }
        section.references.push(SectionReference {
            offset: section.bytes.len() as u32,
            size,
            name,
            and,
            span: token.span(),
        });
        let end = section.bytes.len() + usize::from(size);
        section.bytes.resize(end, 0);
        Ok(())
    }

    fn section_numbers(&mut self, section: &mut Section, size: u8, ty: &str) -> Parsed<()> {
        loop {
            let negative = self.eat(b'-');
            let magnitude = self.integer_token("a number")?;
            // What is too large for 32 bits loses its upper half there.
            let bits = u32::from(size) * 8;
            let fits = match (bits, negative) {
                (64, false) | (32, false) => true,
                (bits, false) => magnitude >> bits == 0,
                (0, true) => magnitude == 0,
                (bits, true) => magnitude <= 1 << (bits - 1),
            };
            if !fits {
                let sign = if negative { "-" } else { "" };
                let message = format!("Value out of range for type {ty} {sign}{magnitude}");
                self.report(Diagnostic::error(self.token.span(), message));
            }
            let value = if negative {
                magnitude.wrapping_neg()
            } else {
                magnitude
            };
            let bytes = value.to_le_bytes();
            section.bytes.extend_from_slice(&bytes[..usize::from(size)]);
            if !self.eat(b',') {
                return Ok(());
            }
        }
    }
}
