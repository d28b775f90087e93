//! The functions of a cubin, with what its other sections say about each of them.

use std::collections::BTreeMap;

use crate::attribute::{Attribute, ParamInfo, Value, id};
use crate::elf::stt;
use crate::model::{Body, Cubin, InfoMeaning, Section, Symbol, SymbolPlace};

/// A function with a text section, and everything that is said about it. What is not said is `None`.
#[derive(Clone, Debug)]
pub struct FunctionView<'a> {
    /// Its name.
    pub name: &'a str,
    /// Index of its symbol.
    pub symbol: u32,
    /// Whether it is a kernel.
    pub is_entry: bool,
    /// Index of its text section.
    pub section: usize,
    /// Its code.
    pub code: &'a [u8],
    /// `.nv.info.<function>`.
    pub attributes: &'a [Attribute],
    /// Registers of a thread: `REGCOUNT`, or the text section's header up to sm_89.
    pub registers: Option<u32>,
    /// Named barriers.
    pub barriers: Option<u8>,
    /// Its stack frame.
    pub frame_size: Option<u32>,
    /// The stack that a launch needs at least.
    pub min_stack_size: Option<u32>,
    /// Static shared memory, with the part the system keeps for itself.
    pub shared_size: Option<u64>,
    /// The parameters, by ordinal.
    pub params: Vec<ParamInfo>,
    /// Where the parameters start in bank 0, and their size.
    pub param_bank: Option<(u16, u16)>,
    /// Constant banks of its own: number and bytes.
    pub banks: Vec<(u32, &'a [u8])>,
    /// Functions inside its text section.
    pub subroutines: Vec<(u32, &'a Symbol)>,
    /// Functions elsewhere that it calls: `EXTERNS`.
    pub externs: Vec<&'a str>,
}

/// What is said about functions all over the file, by function: one walk over it instead of one for each function.
#[derive(Default)]
struct Said {
    /// Values of `.nv.info` by attribute and symbol.
    values: BTreeMap<(u8, u32), u32>,
    /// Sections by the section that their header names.
    about: BTreeMap<usize, Vec<usize>>,
    /// Symbols of functions by section.
    functions: BTreeMap<usize, Vec<u32>>,
}

impl Said {
    fn new(cubin: &Cubin) -> Self {
        let mut said = Self::default();
        for (index, section) in cubin.sections.iter().enumerate() {
            if section.info_meaning() == InfoMeaning::Section {
                let about = said.about.entry(section.info as usize).or_default();
                about.push(index);
            }
            if section.name.text != ".nv.info" {
                continue;
            }
            for attribute in section.attributes().unwrap_or_default() {
                if let Value::FunctionValue { symbol, value } = attribute.value {
                    said.values.insert((attribute.id, symbol), value);
                }
            }
        }
        for (index, symbol) in cubin.symbols().iter().enumerate() {
            if let SymbolPlace::Section(section) = symbol.place
                && symbol.kind == stt::FUNC
            {
                let functions = said.functions.entry(section.into()).or_default();
                functions.push(index as u32);
            }
        }
        said
    }
}

impl Cubin {
    /// The functions that have a text section, in the order of their sections. A text section whose header names no function is left
    /// out.
    pub fn functions(&self) -> Vec<FunctionView<'_>> {
        let said = Said::new(self);
        let sections = self.sections.iter().enumerate();
        sections
            .filter(|(_, section)| section.is_text())
            .filter_map(|(index, section)| self.function_view(index, section, &said))
            .collect()
    }

    fn function_view<'a>(
        &'a self,
        index: usize,
        section: &'a Section,
        said: &Said,
    ) -> Option<FunctionView<'a>> {
        let number = section.info & 0x00ff_ffff;
        let inside = said.functions.get(&index)?;
        if !inside.contains(&number) {
            return None;
        }
        let symbol = self.symbols().get(number as usize)?;
        let value = |id| said.values.get(&(id, number)).copied();
        let mut view = FunctionView {
            name: &symbol.name.text,
            symbol: number,
            is_entry: symbol.is_entry(),
            section: index,
            code: section.bytes()?,
            attributes: &[],
            registers: value(id::REGCOUNT).or(Some(section.info >> 24).filter(|count| *count != 0)),
            barriers: None,
            frame_size: value(id::FRAME_SIZE),
            min_stack_size: value(id::MIN_STACK_SIZE),
            shared_size: None,
            params: Vec::new(),
            param_bank: None,
            banks: Vec::new(),
            subroutines: Vec::new(),
            externs: Vec::new(),
        };
        for other in said.about.get(&index).into_iter().flatten() {
            let other = &self.sections[*other];
            match &other.body {
                Body::Info(attributes) => view.attributes = attributes,
                Body::Memory(size) if other.name.text.starts_with(".nv.shared.") => {
                    view.shared_size = Some(*size);
                }
                Body::Bytes(bytes) => {
                    let bank = other.constant_bank();
                    view.banks.extend(bank.map(|bank| (bank, bytes.as_slice())));
                }
                _ => {}
            }
        }
        view.take_own_info();
        for attribute in view.attributes {
            if let (id::EXTERNS, Value::Symbols(symbols)) = (attribute.id, &attribute.value) {
                let named = |symbol: &u32| self.symbols().get(*symbol as usize);
                let names = symbols.iter().filter_map(named);
                view.externs
                    .extend(names.map(|symbol| symbol.name.text.as_str()));
            }
        }
        for other in inside.iter().filter(|other| **other != number) {
            let symbol = &self.symbols()[*other as usize];
            view.subroutines.push((*other, symbol));
        }
        Some(view)
    }
}

impl FunctionView<'_> {
    fn take_own_info(&mut self) {
        for attribute in self.attributes {
            match (attribute.id, &attribute.value) {
                (id::NUM_BARRIERS, Value::Byte(count, _)) => self.barriers = Some(*count),
                (id::PARAM_CBANK, Value::ParamBank { offset, size, .. }) => {
                    self.param_bank = Some((*offset, *size));
                }
                (_, Value::Param(param) | Value::WideParam(param)) => self.params.push(*param),
                _ => {}
            }
        }
        self.params.sort_by_key(|param| param.ordinal);
    }

    /// The offsets that a list attribute such as `EXIT_INSTR_OFFSETS` holds; empty if it is not there.
    pub fn offsets(&self, id: u8) -> &[u32] {
        self.attributes
            .iter()
            .find_map(|attribute| match &attribute.value {
                Value::Offsets(offsets) if attribute.id == id => Some(offsets.as_slice()),
                _ => None,
            })
            .unwrap_or(&[])
    }
}
