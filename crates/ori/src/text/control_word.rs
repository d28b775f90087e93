//! From text to a control word: `[B0-2---:R1:W-:Y:S04]`.

use super::parse::{ParseError, Parser};
use crate::control::ControlWord;
use orias_sass::Barrier;

impl Parser<'_> {
    pub(super) fn control(&mut self) -> Result<ControlWord, ParseError> {
        let mut control = ControlWord::PLAIN;
        let fixed = |parser: &mut Self, byte: u8| {
            if parser.cursor.peek() == Some(byte) {
                parser.cursor.at += 1;
                Ok(())
            } else {
                let message = format!("expected `{}` in a control word", byte as char);
                Err(parser.cursor.error(message))
            }
        };
        let next = |parser: &mut Self| {
            let byte = parser.cursor.peek().filter(u8::is_ascii);
            match byte {
                Some(byte) => {
                    parser.cursor.at += 1;
                    Ok(byte)
                }
                None => Err(parser.cursor.error("a control word ends early")),
            }
        };
        fixed(self, b'[')?;
        fixed(self, b'B')?;
        let mut mask = 0;
        for number in 0..Barrier::COUNT {
            match next(self)? {
                b'-' => {}
                digit if digit == b'0' + number => mask |= 1 << number,
                _ => {
                    let message = format!("expected `-` or `{number}` in a wait mask");
                    return Err(self.cursor.error_at(self.cursor.at - 1, message));
                }
            }
        }
        control = control.with_wait_mask(mask);
        for letter in [b'R', b'W'] {
            fixed(self, b':')?;
            fixed(self, letter)?;
            let barrier = match next(self)? {
                b'-' => None,
                digit => {
                    let barrier = Barrier::new(digit.wrapping_sub(b'0'));
                    Some(barrier.ok_or_else(|| {
                        let message = "expected `-` or the number of a barrier";
                        self.cursor.error_at(self.cursor.at - 1, message)
                    })?)
                }
            };
            control = if letter == b'R' {
                control.with_read_barrier(barrier)
            } else {
                control.with_write_barrier(barrier)
            };
        }
        fixed(self, b':')?;
        control = match next(self)? {
            b'Y' => control.with_yield(true),
            b'-' => control.with_yield(false),
            _ => {
                return Err(self
                    .cursor
                    .error_at(self.cursor.at - 1, "expected `Y` or `-`"));
            }
        };
        fixed(self, b':')?;
        fixed(self, b'S')?;
        let digits = [next(self)?, next(self)?];
        let stall = match digits {
            [b'0', ones @ b'0'..=b'9'] => ones - b'0',
            [b'1', ones @ b'0'..=b'5'] => 10 + ones - b'0',
            _ => {
                return Err(self
                    .cursor
                    .error_at(self.cursor.at - 2, "a stall is 00 to 15"));
            }
        };
        fixed(self, b']')?;
        self.cursor.skip_blanks();
        Ok(control.with_stall(stall))
    }
}
