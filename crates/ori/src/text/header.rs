//! From text to a function's attributes and source locations.

use super::parse::{ParseError, Parser, is_block_name};
use crate::entity::Span;
use crate::function::{Attributes, KernelParam, Location, SharedSpills};

impl Parser<'_> {
    pub(super) fn header(&mut self) -> Result<(), ParseError> {
        let mut attributes = Attributes::default();
        let mut given: Vec<&str> = Vec::new();
        loop {
            self.cursor.skip_lines();
            let start = self.cursor.at;
            if matches!(self.cursor.peek(), Some(b'}') | None) {
                break;
            }
            let word = self.cursor.word();
            if given.contains(&word) {
                let message = format!("`{word}` is there twice");
                return Err(self.cursor.error_at(start, message));
            }
            if !matches!(
                word,
                "fixed" | "param" | "loc" | "rolled" | "rare" | "frequency" | "aligned"
            ) {
                given.push(word);
            }
            match word {
                "shared" => attributes.shared = self.cursor.number32()?,
                "local" => attributes.local = self.cursor.number32()?,
                "local_align" => attributes.local_align = self.cursor.number32()?,
                "min_blocks" => attributes.min_blocks = self.cursor.number32()?,
                "max_registers" => attributes.max_registers = self.cursor.number32()?,
                "barriers" => attributes.barriers = self.cursor.number32()?,
                "max_threads" => attributes.max_threads = self.three_numbers()?,
                "cluster" => attributes.cluster = self.three_numbers()?,
                "required_threads" => attributes.required_threads = true,
                "override_registers" => attributes.override_registers = true,
                "relocatable" => attributes.relocatable = true,
                "shared_spills" => attributes.shared_spills = SharedSpills::Wanted,
                "spilled_from" => {
                    let start = self.cursor.at;
                    let Some(reg) = self.reg()?.phys() else {
                        return Err(self.cursor.error_at(start, "expected a physical register"));
                    };
                    attributes.shared_spills = SharedSpills::From(reg, self.cursor.number32()?);
                }
                "fixed" => {
                    let start = self.cursor.at;
                    let Some(reg) = self.reg()?.phys() else {
                        return Err(self.cursor.error_at(start, "expected a physical register"));
                    };
                    attributes.fixed.push(reg);
                }
                "rolled" => attributes.rolled.push(self.block_named()?),
                "rare" => {
                    attributes.rare.insert(self.block_named()?);
                }
                "frequency" => {
                    let block = self.block_named()?;
                    let start = self.cursor.at;
                    let times = self.cursor.number()?;
                    if times == 0 {
                        return Err(self.cursor.error_at(start, "a frequency is not 0"));
                    }
                    attributes.frequencies.insert(block, times);
                }
                "aligned" => {
                    self.cursor.expect(b'&')?;
                    let name = self.name()?;
                    let start = self.cursor.at;
                    let bytes = self.cursor.number32()?;
                    if !bytes.is_power_of_two() {
                        return Err(self.cursor.error_at(start, "expected a power of two"));
                    }
                    attributes.aligned.insert(name, bytes);
                }
                "param" => {
                    let offset = self.cursor.number32()?;
                    let size = self.cursor.number32()?;
                    self.func.kernel_params.push(KernelParam { offset, size });
                }
                "loc" => self.location()?,
                word if is_block_name(word) => {
                    self.cursor.at = start;
                    break;
                }
                word => {
                    let message = format!("`{word}` is neither an attribute nor a block");
                    return Err(self.cursor.error_at(start, message));
                }
            }
            self.end_of_line()?;
        }
        self.func.attributes = attributes;
        Ok(())
    }

    fn three_numbers(&mut self) -> Result<[u32; 3], ParseError> {
        Ok([
            self.cursor.number32()?,
            self.cursor.number32()?,
            self.cursor.number32()?,
        ])
    }

    fn location(&mut self) -> Result<(), ParseError> {
        self.cursor.expect(b'#')?;
        let start = self.cursor.at;
        let number = self.cursor.number32()?;
        let next = self.func.locations.len();
        if number as usize != next {
            let message = format!("locations are numbered in order: this one is #{next}");
            return Err(self.cursor.error_at(start, message));
        }
        self.cursor.expect(b'=')?;
        let file = self.cursor.number32()?;
        self.cursor.expect(b':')?;
        let line = self.cursor.number32()?;
        self.cursor.expect(b':')?;
        let column = self.cursor.number32()?;
        let mut inlined_at = None;
        if self.cursor.eat_text("inlined") {
            self.cursor.expect(b'#')?;
            let start = self.cursor.at;
            let outer = self.cursor.number32()?;
            if outer as usize >= next {
                return Err(self
                    .cursor
                    .error_at(start, "code is inlined at an earlier location"));
            }
            inlined_at = Some(Span::from_u32(outer));
        }
        let mut function = None;
        if self.cursor.eat_text("function") {
            function = Some(self.cursor.number32()?);
        }
        let mut ptx = 0;
        if self.cursor.eat_text("ptx") {
            ptx = self.cursor.number32()?;
        }
        let mut register = None;
        if self.cursor.eat_text("register") {
            register = Some(self.cursor.number32()?);
        }
        self.func.locations.push(Location {
            file,
            line,
            column,
            inlined_at: inlined_at.into(),
            function,
            ptx,
            register,
        });
        Ok(())
    }
}
