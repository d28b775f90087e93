//! Taking sections and symbols out of a model.
//!
//! Sections and symbols refer to one another by index. When one goes, every index behind it moves, in every place that holds one:
//! `sh_link`, `sh_info`, symbols, relocations, attributes, the call graph, prototypes and program headers. What cannot do without
//! the thing that went (a relocation against a symbol, an attribute about a function) goes with it; a field that merely points at
//! it becomes 0.

use crate::attribute::{Attribute, Value};
use crate::elf::stt;
use crate::model::{Body, Cubin, Extent, InfoMeaning, Placement, SymbolPlace};

/// The lower bits of a text section's `sh_info`, which hold a symbol's index.
const FUNCTION_SYMBOL: u32 = 0x00ff_ffff;

/// The smallest of the numbers that stand for no symbol in a call graph: -4.
const NO_SYMBOL: u32 = u32::MAX - 3;

/// Where index `index` is after `removed` went; `None` if it is the one that went.
fn moved<T: PartialOrd + Copy + std::ops::Sub<Output = T> + From<u8>>(
    index: T,
    removed: T,
) -> Option<T> {
    if index == removed {
        None
    } else if index > removed {
        Some(index - T::from(1))
    } else {
        Some(index)
    }
}

impl Cubin {
    /// Takes a section out, with the symbol of the section and the relocations that apply to it. Other symbols that lie in it
    /// become undefined. Does nothing if there is no such section.
    pub fn remove_section(&mut self, mut index: usize) {
        if index >= self.sections.len() {
            return;
        }
        while let Some(relocations) = self.sections.iter().position(|section| {
            matches!(section.body, Body::Relocations(_))
                && section.info_meaning() == InfoMeaning::Section
                && section.info as usize == index
        }) {
            self.drop_section(relocations);
            if relocations == index {
                return;
            }
            if relocations < index {
                index -= 1;
            }
        }
        while let Some(symbol) = self.symbols().iter().position(|symbol| {
            let place = symbol.place;
            symbol.kind == stt::SECTION
                && matches!(place, SymbolPlace::Section(at) if usize::from(at) == index)
        }) {
            self.remove_symbol(symbol);
        }
        self.drop_section(index);
    }

    /// Takes out one section and moves the indices behind it.
    fn drop_section(&mut self, index: usize) {
        let removed = index as u16; // There are fewer than 0xff00 sections.
        self.sections.remove(index);
        for section in &mut self.sections {
            section.link = moved(section.link, removed.into()).unwrap_or(0);
            if section.info_meaning() == InfoMeaning::Section {
                section.info = moved(section.info, removed.into()).unwrap_or(0);
            }
            if let Placement::With(with) = section.placement {
                section.placement = moved(with, index).map_or(Placement::NEXT, Placement::With);
            }
            if let Body::Symbols(symbols) = &mut section.body {
                for symbol in symbols {
                    if let SymbolPlace::Section(at) = symbol.place {
                        symbol.place =
                            moved(at, removed).map_or(SymbolPlace::Undefined, SymbolPlace::Section);
                    }
                }
            }
        }
        self.header.section_names = moved(self.header.section_names, removed).unwrap_or(0);
        self.segments.retain_mut(|segment| {
            let Extent::Sections { first, last } = &mut segment.extent else {
                return true;
            };
            if *first == index && *last == index {
                return false;
            }
            if index < *first {
                *first -= 1;
            }
            if index <= *last {
                *last -= 1;
            }
            true
        });
    }

    /// Takes a symbol out. Does nothing if there is no such symbol.
    pub fn remove_symbol(&mut self, index: usize) {
        let Ok(removed) = u32::try_from(index) else {
            return;
        };
        let Some(symbols) = self.symbols_mut() else {
            return;
        };
        if index >= symbols.len() {
            return;
        }
        symbols.remove(index);
        for section in &mut self.sections {
            match section.info_meaning() {
                InfoMeaning::SymbolCount if section.info > removed => section.info -= 1,
                InfoMeaning::Function => {
                    let symbol = moved(section.info & FUNCTION_SYMBOL, removed).unwrap_or(0);
                    section.info = section.info & !FUNCTION_SYMBOL | symbol;
                }
                _ => {}
            }
            match &mut section.body {
                Body::Relocations(relocations) => {
                    relocations.retain_mut(|relocation| keep(&mut relocation.symbol, removed));
                }
                Body::CallGraph(calls) => calls.retain_mut(|call| {
                    keep(&mut call.caller, removed)
                        && (call.callee >= NO_SYMBOL || keep(&mut call.callee, removed))
                }),
                Body::Prototypes(prototypes) => {
                    prototypes.retain_mut(|prototype| keep(&mut prototype.function, removed));
                }
                Body::Info(attributes) => {
                    attributes.retain_mut(|attribute| keep_attribute(attribute, removed));
                }
                _ => {}
            }
        }
    }
}

/// Moves a symbol's index; false if the symbol went.
fn keep(symbol: &mut u32, removed: u32) -> bool {
    match moved(*symbol, removed) {
        Some(index) => {
            *symbol = index;
            true
        }
        None => false,
    }
}

fn keep_attribute(attribute: &mut Attribute, removed: u32) -> bool {
    match &mut attribute.value {
        Value::FunctionValue { symbol, .. } => keep(symbol, removed),
        Value::ParamBank { symbol, .. } => {
            *symbol = moved(*symbol, removed).unwrap_or(0);
            true
        }
        Value::Symbols(symbols) => {
            symbols.retain_mut(|symbol| keep(symbol, removed));
            !symbols.is_empty()
        }
        Value::SymbolPairs(pairs) => {
            pairs.retain_mut(|[a, b]| keep(a, removed) && keep(b, removed));
            !pairs.is_empty()
        }
        _ => true,
    }
}
