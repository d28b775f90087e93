//! From text to operands.

use super::cursor::Cursor;
use super::parse::{ParseError, Parser};
use crate::operand::{Address, BaseForm, Operand, SourceMods, SymbolPart};
use crate::register::{Class, OptReg, PhysReg, Reg, RegKind};
use orias_sass as sass;

impl Parser<'_> {
    /// Whether a register, or `_`, starts here.
    pub(super) fn at_register(&mut self) -> bool {
        self.cursor.skip_blanks();
        match self.cursor.peek() {
            Some(b'_') => true,
            Some(b'v') => self
                .cursor
                .peek_second()
                .is_some_and(|byte| byte.is_ascii_digit()),
            Some(b'R' | b'P' | b'U' | b'B') => phys(&mut self.cursor.clone()).is_some(),
            _ => false,
        }
    }

    /// A value or physical register, without a type.
    pub(super) fn reg(&mut self) -> Result<Reg, ParseError> {
        self.cursor.skip_blanks();
        let start = self.cursor.at;
        if self.cursor.peek() == Some(b'v') {
            self.cursor.at += 1;
            let digits = self.cursor.word();
            return Ok(self.value_numbered(start, digits)?.into());
        }
        match phys(&mut self.cursor) {
            Some(reg) => Ok(reg.into()),
            None => Err(self.cursor.error_at(start, "expected a register")),
        }
    }

    /// What is defined: `v1:r`, `R4`, `_`.
    pub(super) fn definition(&mut self) -> Result<Operand, ParseError> {
        self.cursor.skip_blanks();
        let start = self.cursor.at;
        if self.cursor.peek() == Some(b'_') {
            self.cursor.at += 1;
            return Ok(Operand::None);
        }
        let reg = self.reg()?;
        if let RegKind::Value(value) = reg.kind() {
            self.cursor.expect(b':')?;
            let ty = self.ty()?;
            self.set_defined_type(start, value, ty)?;
        }
        Ok(reg.into())
    }

    /// A source, with its modifiers. `selects` names the parts of a register the place may read.
    pub(super) fn operand(
        &mut self,
        selects: &[Option<&'static str>],
    ) -> Result<Operand, ParseError> {
        self.cursor.skip_blanks();
        let start = self.cursor.at;
        let mut mods = SourceMods::NONE;
        if self.cursor.peek() == Some(b'-') {
            if self
                .cursor
                .peek_second()
                .is_some_and(|byte| byte.is_ascii_digit())
            {
                self.cursor.at += 1;
                let magnitude = self.cursor.number()?;
                if magnitude > 1 << 63 {
                    let message = format!("`-{magnitude}` is not a number of 64 bits");
                    return Err(self.cursor.error_at(start, message));
                }
                return Ok(Operand::imm(magnitude.wrapping_neg()));
            }
            self.cursor.at += 1;
            mods = mods.with(SourceMods::NEGATE);
        }
        if self.cursor.eat(b'!') {
            mods = mods.with(SourceMods::NOT);
        }
        let absolute = self.cursor.eat(b'|');
        if absolute {
            mods = mods.with(SourceMods::ABSOLUTE);
        }
        let operand = self.plain_operand()?;
        // A part of the register, then the end of the absolute value, then the reuse flag.
        if self.cursor.peek() == Some(b'.') && !self.at_reuse() {
            mods = self.select(mods, selects)?;
        }
        if absolute {
            self.cursor.expect(b'|')?;
        }
        if self.at_reuse() {
            self.cursor.at += ".reuse".len();
            mods = mods.with(SourceMods::REUSE);
        }
        operand.with_mods(mods).ok_or_else(|| {
            self.cursor
                .error_at(start, "this operand takes no modifiers")
        })
    }

    fn at_reuse(&self) -> bool {
        self.cursor.clone().eat_text(".reuse")
    }

    fn select(
        &mut self,
        mods: SourceMods,
        selects: &[Option<&'static str>],
    ) -> Result<SourceMods, ParseError> {
        let start = self.cursor.at;
        self.cursor.expect(b'.')?;
        let number = if self.cursor.eat(b'#') {
            self.cursor.number()?
        } else {
            let name = self.cursor.word();
            let place = selects.iter().position(|have| *have == Some(name));
            place.ok_or_else(|| {
                self.cursor
                    .error_at(start, format!("`.{name}` is no part that is read here"))
            })? as u64
        };
        u8::try_from(number)
            .ok()
            .filter(|&number| number != 0)
            .and_then(|number| mods.with_select(number))
            .ok_or_else(|| self.cursor.error_at(start, "there is no such part"))
    }

    /// A source without its modifiers.
    fn plain_operand(&mut self) -> Result<Operand, ParseError> {
        let start = self.cursor.at;
        match self.cursor.peek() {
            Some(b'v')
                if self
                    .cursor
                    .peek_second()
                    .is_some_and(|byte| byte.is_ascii_digit()) =>
            {
                return Ok(self.reg()?.into());
            }
            Some(b'0'..=b'9') => return Ok(Operand::imm(self.cursor.number()?)),
            Some(b'_') => {
                self.cursor.at += 1;
                return Ok(Operand::None);
            }
            Some(b'[') => return self.address(OptReg::NONE),
            Some(b'&') => return self.symbol(SymbolPart::Whole),
            Some(b'R' | b'P' | b'U' | b'B') => {
                if let Some(reg) = phys(&mut self.cursor) {
                    return Ok(reg.into());
                }
            }
            _ => {}
        }
        for (word, part) in [("lo(", SymbolPart::Low), ("hi(", SymbolPart::High)] {
            if self.cursor.eat_text(word) {
                let operand = self.symbol(part)?;
                self.cursor.expect(b')')?;
                return Ok(operand);
            }
        }
        if self.cursor.eat_text("desc[") {
            let descriptor = self.reg()?;
            self.cursor.expect(b']')?;
            return self.address(descriptor.into());
        }
        if self.cursor.eat_text("gdesc[") {
            let reg = self.reg()?;
            self.cursor.expect(b']')?;
            return Ok(Operand::Descriptor(reg));
        }
        if self.cursor.eat_text("cx[") {
            return self.bindless();
        }
        if self.cursor.eat_text("c[") {
            return self.constant();
        }
        if self.cursor.eat_text("block") {
            self.cursor.at = start;
            return Ok(Operand::Block(self.block_named()?));
        }
        if self.cursor.peek() == Some(b'S') {
            let name = self.cursor.dotted();
            let number = match name.strip_prefix("SR").map(str::parse) {
                Some(Ok(number)) => Some(number),
                _ => sass::special::number(name),
            };
            return number.map(Operand::Special).ok_or_else(|| {
                let message = format!("`{name}` is not a special register");
                self.cursor.error_at(start, message)
            });
        }
        Err(self.cursor.error_at(start, "expected an operand"))
    }

    /// `+8`, `-0x10`: a signed number of 32 bits, or nothing.
    fn offset(&mut self) -> Result<i32, ParseError> {
        self.cursor.skip_blanks();
        match self.cursor.peek() {
            Some(b'+') => {
                self.cursor.at += 1;
                self.signed32(false)
            }
            Some(b'-') => {
                self.cursor.at += 1;
                self.signed32(true)
            }
            _ => Ok(0),
        }
    }

    fn signed32(&mut self, negative: bool) -> Result<i32, ParseError> {
        self.cursor.skip_blanks();
        let start = self.cursor.at;
        let magnitude = self.cursor.number()?;
        let signed = if negative {
            0i64.checked_sub_unsigned(magnitude)
        } else {
            i64::try_from(magnitude).ok()
        };
        signed
            .and_then(|signed| i32::try_from(signed).ok())
            .ok_or_else(|| {
                self.cursor
                    .error_at(start, "an offset is a signed number of 32 bits")
            })
    }

    /// An offset with or without a sign.
    fn bare_offset(&mut self) -> Result<i32, ParseError> {
        let negative = self.cursor.eat(b'-');
        self.signed32(negative)
    }

    fn bindless(&mut self) -> Result<Operand, ParseError> {
        let descriptor = self.reg()?;
        self.cursor.expect(b']')?;
        self.cursor.expect(b'[')?;
        let offset = self.bare_offset()?;
        self.cursor.expect(b']')?;
        Ok(Operand::Bindless {
            mods: SourceMods::NONE,
            descriptor,
            offset,
        })
    }

    fn constant(&mut self) -> Result<Operand, ParseError> {
        self.cursor.skip_blanks();
        let start = self.cursor.at;
        let bank = self.cursor.number()?;
        let bank = u8::try_from(bank).map_err(|_| {
            self.cursor
                .error_at(start, "there is no such constant bank")
        })?;
        self.cursor.expect(b']')?;
        self.cursor.expect(b'[')?;
        let (index, offset) = if self.at_register() {
            (OptReg::from(self.reg()?), self.offset()?)
        } else {
            (OptReg::NONE, self.bare_offset()?)
        };
        self.cursor.expect(b']')?;
        Ok(Operand::Const {
            mods: SourceMods::NONE,
            bank,
            offset,
            index,
        })
    }

    fn symbol(&mut self, part: SymbolPart) -> Result<Operand, ParseError> {
        self.cursor.expect(b'&')?;
        let name = self.name()?;
        let symbol = self.func.symbol(&name);
        let addend = self.offset()?;
        Ok(Operand::Symbol {
            symbol,
            part,
            addend,
        })
    }

    /// `[base.64+uniform+&name+offset]`, every part optional. A value's class is known only when the whole function has
    /// been read; until then the first register is taken for the base ([`Parser::settle_addresses`]).
    fn address(&mut self, descriptor: OptReg) -> Result<Operand, ParseError> {
        self.cursor.expect(b'[')?;
        let mut address = Address {
            descriptor,
            ..Address::default()
        };
        let mut first = true;
        while first || self.cursor.eat(b'+') {
            self.cursor.skip_blanks();
            let start = self.cursor.at;
            if self.at_register() {
                let reg = self.reg()?;
                let uniform = reg.phys().is_some_and(|reg| reg.class() == Class::UR);
                if first && !uniform {
                    address.base = reg.into();
                    address.form = self.base_form();
                } else if address.uniform.get().is_none() {
                    address.uniform = reg.into();
                } else {
                    return Err(self
                        .cursor
                        .error_at(start, "an address has at most two registers"));
                }
            } else if self.cursor.peek() == Some(b'&') {
                if address.symbol.is_some() {
                    return Err(self
                        .cursor
                        .error_at(start, "an address has at most one name"));
                }
                self.cursor.at += 1;
                let name = self.name()?;
                address.symbol = Some(self.func.symbol(&name)).into();
            } else {
                address.offset = self.bare_offset()?;
                break;
            }
            first = false;
        }
        if address.offset == 0 && self.cursor.eat(b'-') {
            address.offset = self.signed32(true)?;
        }
        self.cursor.expect(b']')?;
        Ok(self.func.create_address(address))
    }

    fn base_form(&mut self) -> BaseForm {
        // The longest suffix wins; the plain form has none.
        BaseForm::ALL
            .into_iter()
            .filter(|form| !form.suffix().is_empty())
            .find(|form| self.cursor.eat_text(form.suffix()))
            .unwrap_or(BaseForm::Plain)
    }

    /// Moves a lone register that turned out to be uniform from the base to the uniform base.
    pub(super) fn settle_addresses(&mut self) {
        self.func.settle_addresses();
    }
}

/// A physical register or tuple; nothing is taken if there is none.
fn phys(cursor: &mut Cursor<'_>) -> Option<PhysReg> {
    let start = cursor.at;
    let reg = single(cursor).and_then(|reg| {
        let mut ahead = cursor.clone();
        if !(ahead.peek() == Some(b'.') && ahead.peek_second() == Some(b'.')) {
            return Some(reg);
        }
        ahead.at += 2;
        let last = single(&mut ahead)?;
        if last.class() != reg.class() || last.index() <= reg.index() {
            return None;
        }
        let tuple = PhysReg::tuple(reg.class(), reg.index(), last.index() - reg.index() + 1)?;
        cursor.at = ahead.at;
        Some(tuple)
    });
    if reg.is_none() {
        cursor.at = start;
    }
    reg
}

/// One physical register: a whole word such as `R4`, `UR63` or `PT`.
fn single(cursor: &mut Cursor<'_>) -> Option<PhysReg> {
    let start = cursor.at;
    cursor.word();
    let word = cursor.slice(start).as_bytes();
    let (class, rest) = match *word {
        [b'R', ref rest @ ..] => (Class::R, rest),
        [b'P', ref rest @ ..] => (Class::P, rest),
        [b'U', b'R', ref rest @ ..] => (Class::UR, rest),
        [b'U', b'P', ref rest @ ..] => (Class::UP, rest),
        [b'B', ref rest @ ..] => (Class::B, rest),
        _ => return None,
    };
    let index = match *rest {
        [b'Z'] if matches!(class, Class::R | Class::UR) => return class.constant(),
        [b'T'] if class.is_predicate() => return class.constant(),
        [a @ b'0'..=b'9'] => u16::from(a - b'0'),
        [a @ b'1'..=b'9', b @ b'0'..=b'9'] => u16::from(a - b'0') * 10 + u16::from(b - b'0'),
        [a @ b'1'..=b'2', b @ b'0'..=b'9', c @ b'0'..=b'9'] => {
            u16::from(a - b'0') * 100 + u16::from(b - b'0') * 10 + u16::from(c - b'0')
        }
        _ => return None,
    };
    let index = u8::try_from(index).ok()?;
    PhysReg::new(class, index).filter(|reg| !reg.is_constant())
}
