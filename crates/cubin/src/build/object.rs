//! What a file for a linker says besides what one for the driver says.
//!
//! The linker decides where everything lies. So variables in shared memory and in a constant bank have symbols, which code names in
//! relocations; functions have prototypes, by which calls through pointers are joined with what they may reach; and the call graph
//! goes on behind the calls, in three more lists: functions whose address somebody takes with their prototypes, callers through pointers with
//! the prototypes they call, and who takes whose address.
//!
//! A prototype is known by where `.strtab` spells it. The value of a symbol that has no place yet, in shared memory or common, is its alignment.

use super::plan::{Key, Plan, SymbolKey};
use super::sections::align_of;
use super::symbols::{DEBUG_SECTIONS, RESERVED_OFFSET};
use super::{Linkage, Variable};
use crate::bytes::align_up;
use crate::elf::{r_cuda, shf, sht, stb, sto, stt};
use crate::frame::{Covered, FrameEntry};
use crate::model::{Body, Prototype, Relocation, Section, Symbol, SymbolPlace};
use crate::strings::StringTable;
use std::collections::{BTreeMap, BTreeSet};

/// What a linker is told of a module. Functions are given by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Object {
    /// Whether it is a whole program that a linker adds system functions to (`-ewp`).
    pub extensible: bool,
    /// Variables in shared memory.
    pub shared: Vec<SharedVariable>,
    /// Prototypes of functions, as ptxas spells them.
    pub prototypes: Vec<(String, String)>,
    /// Calls through pointers: the caller, and the prototype of what it calls.
    pub indirect: Vec<(String, String)>,
    /// Who takes the address of which function.
    pub takes: Vec<(String, String)>,
    /// Functions whose address stands in initial values.
    pub in_data: Vec<String>,
    /// Those of the functions from elsewhere that are kernels.
    pub kernels_elsewhere: Vec<String>,
    /// Further names of functions, who sees them, and whose they are.
    pub aliases: Vec<(String, Linkage, String)>,
}

/// A variable in shared memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedVariable {
    /// The variable; its offset is not looked at.
    pub variable: Variable,
    /// The kernel that it is part of, by its number; others are of every kernel that comes to use them.
    pub owner: Option<usize>,
}

/// The undefined symbols that every file for a linker has: the tables of functions and data that several programs share.
const TABLES: [&str; 8] = [
    "__UDT_OFFSET",
    "__UFT_OFFSET",
    "__UFT_CANONICAL",
    "__UDT_CANONICAL",
    "__UFT",
    "__UDT",
    "__UFT_END",
    "__UDT_END",
];

/// The memory of a variable, as the upper three bits of `st_other` say it.
const GLOBAL: u8 = 1;
const SHARED: u8 = 2;
const CONSTANT: u8 = 4;
/// How far up they are.
const SPACE_SHIFT: u32 = sto::SPACE.trailing_zeros();

/// The section number of a common symbol.
const COMMON: u16 = 0xfff2;

/// A number that tells texts apart: FNV-1a.
pub(super) fn number_of(text: &[u8]) -> u32 {
    let step = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    text.iter().fold(0x811c_9dc5, step)
}

impl Object {
    /// The names that it gives something.
    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        let shared = self.shared.iter().map(|it| &it.variable.name);
        shared.chain(self.aliases.iter().map(|(name, ..)| name))
    }

    /// The names that it uses.
    pub(super) fn uses(&self) -> impl Iterator<Item = &String> {
        let prototypes = self.prototypes.iter().map(|(name, _)| name);
        let callers = self.indirect.iter().map(|(name, _)| name);
        let takes = self.takes.iter().flat_map(|(one, other)| [one, other]);
        let aliases = self.aliases.iter().map(|(_, _, of)| of);
        let used = prototypes.chain(callers).chain(takes).chain(aliases);
        used.chain(&self.in_data)
    }

    pub(super) fn has_prototypes(&self) -> bool {
        !self.prototypes.is_empty()
    }

    /// A table of names that starts with the prototypes, each once.
    pub(super) fn spelled_prototypes(&self) -> StringTable {
        let mut bytes = vec![0];
        let mut known = BTreeSet::new();
        for (_, prototype) in self.prototypes.iter().chain(&self.indirect) {
            if known.insert(prototype.as_str()) {
                bytes.extend_from_slice(prototype.as_bytes());
                bytes.push(0);
            }
        }
        StringTable::from_bytes(bytes)
    }

    /// Where that table has each prototype.
    fn places(&self) -> BTreeMap<String, u32> {
        let table = self.spelled_prototypes();
        let names = table.names();
        let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        names.map(|(place, name)| (text(name), place)).collect()
    }

    /// The functions whose address somebody takes, each once.
    fn addressed(&self) -> Vec<&str> {
        let taken = self.takes.iter().map(|(_, function)| function);
        let all = self.in_data.iter().chain(taken).map(String::as_str);
        let mut known = BTreeSet::new();
        all.filter(|name| known.insert(*name)).collect()
    }
}

impl Plan<'_> {
    /// The entries of `.nv.prototype`.
    pub(super) fn prototypes(&self) -> Vec<Prototype> {
        let Some(object) = &self.module.object else {
            return Vec::new();
        };
        let places = object.places();
        let entries = object.prototypes.iter();
        entries
            .map(|(function, prototype)| Prototype {
                function: self.named(function),
                prototype: places.get(prototype).copied().unwrap_or(0),
            })
            .collect()
    }

    /// Functions whose address is taken, and where their prototypes are; kernels have none.
    pub(super) fn functions_with_addresses(&self) -> Vec<(u32, u32)> {
        let Some(object) = &self.module.object else {
            return Vec::new();
        };
        let places = object.places();
        let known = object.prototypes.iter();
        let known: BTreeMap<&str, u32> = known
            .filter_map(|(name, prototype)| Some((name.as_str(), *places.get(prototype)?)))
            .collect();
        let functions = object.addressed().into_iter();
        functions
            .map(|name| (self.named(name), known.get(name).copied().unwrap_or(0)))
            .collect()
    }

    /// Callers through pointers, and where the prototypes of what they call are.
    pub(super) fn indirect_calls(&self) -> Vec<(u32, u32)> {
        let Some(object) = &self.module.object else {
            return Vec::new();
        };
        let places = object.places();
        let calls = object.indirect.iter();
        calls
            .map(|(caller, prototype)| {
                let place = places.get(prototype).copied().unwrap_or(0);
                (self.named(caller), place)
            })
            .collect()
    }

    /// Who takes whose address.
    pub(super) fn addresses_taken(&self) -> Vec<(u32, u32)> {
        let Some(object) = &self.module.object else {
            return Vec::new();
        };
        let takes = object.takes.iter();
        takes
            .map(|(taker, function)| (self.named(taker), self.named(function)))
            .collect()
    }

    /// A section of shared memory, with the variables of `owner`.
    pub(super) fn shared_variables(&self, key: Key, owner: Option<usize>) -> Section {
        let object = self.module.object.iter();
        let shared = object.flat_map(|it| &it.shared);
        let own = shared.filter(|it| it.owner == owner && it.variable.is_here());
        let variables: Vec<Variable> = own.map(|it| it.variable.clone()).collect();
        let size = variables.iter().fold(0, |end, variable| {
            align_up(end, variable.align).saturating_add(variable.size)
        });
        let flags = shf::ALLOC | shf::WRITE;
        let of_one = if owner.is_some() { shf::INFO_LINK } else { 0 };
        Section::new(
            self.section_name(key),
            sht::CUDA_SHARED,
            flags | of_one,
            align_of(&variables),
            Body::Memory(size),
        )
    }

    /// The relocations of frame entries: where the common entry is, where the function is, and that its size is zero if it is left out.
    pub(super) fn linked_frames(
        &self,
        entries: &[FrameEntry],
        covered: &[Covered],
    ) -> Vec<Relocation> {
        let section = self.symbol(&SymbolKey::Section(Key::DebugFrame));
        let mut relocations = Vec::with_capacity(3 * entries.len());
        for (at, function) in entries.iter().zip(covered) {
            let entry = |offset, symbol, kind, addend| Relocation {
                offset,
                symbol,
                kind,
                addend,
            };
            let (common, start) = (at.common as i64, function.offset as i64);
            relocations.push(entry(at.address - 8, section, r_cuda::ADDRESS_64, common));
            relocations.push(entry(
                at.address,
                function.symbol,
                r_cuda::ADDRESS_64,
                start,
            ));
            relocations.push(entry(
                at.address + 8,
                function.symbol,
                r_cuda::CLEARED_64,
                0,
            ));
        }
        relocations.reverse();
        relocations
    }

    /// All symbols of a file for a linker.
    pub(super) fn add_linked_symbols(&mut self) {
        let module = self.module;
        let Some(object) = &module.object else {
            return;
        };
        self.add_symbol(SymbolKey::Null, Symbol::null());
        self.add_section_symbol(Key::ToolNote);
        self.add_section_symbol(Key::CudaNote);
        let weak = |name: &str, size| Symbol {
            name: name.into(),
            kind: stt::OBJECT,
            binding: stb::WEAK,
            size,
            ..Symbol::null()
        };
        for name in TABLES {
            self.add_symbol(SymbolKey::Named(name.to_owned()), weak(name, 8));
        }
        self.add_symbol(SymbolKey::ReservedOffset, weak(RESERVED_OFFSET, 4));
        for name in &module.driver_words {
            self.add_symbol(SymbolKey::Named(name.clone()), weak(name, 4));
        }
        for number in 0..module.functions.len() {
            self.add_section_symbol(Key::Text(number));
            self.add_section_symbol(Key::Bank2(number));
            self.add_section_symbol(Key::Shared(number));
        }
        let sections = [Key::GlobalInit, Key::Bank3, Key::Global, Key::SharedOfMany];
        for key in sections.into_iter().chain(DEBUG_SECTIONS) {
            self.add_section_symbol(key);
        }
        for number in 0..self.debug_data().len() {
            self.add_section_symbol(Key::DebugData(number));
        }
        self.add_section_symbol(Key::CallGraph);
        self.add_section_symbol(Key::Prototypes);
        self.add_reference_parameters();
        for variable in &module.constants {
            self.add_linked_variable(variable, Key::Bank3, CONSTANT, variable.offset);
        }
        for variable in &module.globals {
            let key = match variable.is_initialised() {
                true => Key::GlobalInit,
                false => Key::Global,
            };
            self.add_linked_variable(variable, key, GLOBAL, variable.offset);
        }
        for SharedVariable { variable, owner } in &object.shared {
            let key = owner.map_or(Key::SharedOfMany, Key::Shared);
            self.add_linked_variable(variable, key, SHARED, variable.align);
        }
        for (number, function) in module.functions.iter().enumerate() {
            let symbol = Symbol {
                name: function.name.as_str().into(),
                kind: stt::FUNC,
                binding: binding(function.linkage),
                other: match function.entry {
                    Some(_) => sto::ENTRY,
                    None => 0,
                },
                place: SymbolPlace::Section(self.index(Key::Text(number))),
                value: 0,
                size: function.code.len() as u64,
            };
            self.add_symbol(SymbolKey::Named(function.name.clone()), symbol);
        }
        for (name, linkage, of) in &object.aliases {
            let number = module.functions.iter().position(|it| it.name == *of);
            let symbol = Symbol {
                name: name.as_str().into(),
                kind: stt::FUNC,
                binding: binding(*linkage),
                place: match number {
                    Some(number) => SymbolPlace::Section(self.index(Key::Text(number))),
                    None => SymbolPlace::Undefined,
                },
                ..Symbol::null()
            };
            self.add_symbol(SymbolKey::Named(name.clone()), symbol);
        }
        self.add_references();
        self.add_externs_and_banks();
    }

    fn add_linked_variable(&mut self, variable: &Variable, key: Key, space: u8, value: u64) {
        let (place, value) = match variable.linkage {
            Linkage::Elsewhere => (SymbolPlace::Undefined, 0),
            Linkage::Common => (SymbolPlace::Reserved(COMMON), variable.align),
            _ => (SymbolPlace::Section(self.index(key)), value),
        };
        let symbol = Symbol {
            name: variable.name.as_str().into(),
            kind: stt::CUDA_OBJECT,
            binding: binding(variable.linkage),
            other: space << SPACE_SHIFT | variable.other(),
            place,
            value,
            size: variable.size,
        };
        self.add_symbol(SymbolKey::Named(variable.name.clone()), symbol);
    }
}

pub(super) fn binding(linkage: Linkage) -> u8 {
    match linkage {
        Linkage::Local => stb::LOCAL,
        Linkage::Weak => stb::WEAK,
        Linkage::Global | Linkage::Common | Linkage::Elsewhere => stb::GLOBAL,
    }
}
