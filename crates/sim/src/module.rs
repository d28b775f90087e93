//! A cubin made ready: kernels with their programs, variables placed in device memory, addresses filled in.

use crate::fault::text_of;
use crate::memory::Memory;
use crate::profile::Profile;
use crate::program::Program;
use orias_cubin::attribute::{ParamInfo, Value, id};
use orias_cubin::{Body, Cubin, FunctionView, SymbolPlace};
use orias_eval::texture::Record;
use orias_machine::Machine;
use orias_sass::Target;
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

/// Where the code of text section `n` lies: `CODE + (n << 24)`.
pub(crate) const CODE: u64 = 0x7f3b_0000_0000;
/// Where functions of the system lie, 16 bytes apart.
pub(crate) const SYSTEM: u64 = 0x7f3a_0000_0000;
/// Where functions of the driver lie that look up textures by gradients, 16 bytes apart.
pub(crate) const GRADIENTS: u64 = SYSTEM + (1 << 24);
/// Upper half of generic addresses of shared memory.
pub(crate) const SHARED_HIGH: u32 = 0x7f3e;
/// What the driver would draw for each launch, so that code finds on its stack what nobody should have changed.
pub(crate) const CANARY: u64 = 0x5bd1_e995_c2b2_ae35;
/// Generic address of local memory.
pub(crate) const LOCAL: u64 = 0x7f3d_0000_0000;

/// Most bytes of global variables.
const MOST_GLOBAL: usize = 4 << 30;

/// Functions of the system that kernels call, in the order of their addresses.
pub(crate) const SYSTEM_CALLS: &[&str] = &["vprintf", "malloc", "free", "__assertfail"];

/// Why a cubin cannot be loaded.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LoadError {
    /// It is no cubin.
    #[error("{0}")]
    Container(String),
    /// It is for a chip that the emulator does not know.
    #[error("code for {0} cannot be emulated: it has no tables")]
    Target(String),
    /// A relocation that is not understood.
    #[error("{section}+{offset:#x}: relocation {kind} of '{symbol}' is not supported")]
    Relocation {
        /// The section.
        section: String,
        /// The place in it.
        offset: u64,
        /// The relocation's type.
        kind: String,
        /// The symbol.
        symbol: String,
    },
    /// Its variables need more memory than the device has.
    #[error("{0} needs more global memory than a device has")]
    Memory(String),
    /// It needs a function or variable that is not there.
    #[error("'{0}' is not defined")]
    Undefined(String),
}

/// A kernel of a loaded module.
pub(crate) struct Kernel {
    pub name: String,
    pub program: Program,
    pub parameters: Vec<ParamInfo>,
    /// Where the parameters start in bank 0, and how many bytes they are.
    pub parameter_bank: (u16, u16),
    pub registers: usize,
    /// Static shared memory, what the system keeps included.
    pub shared: usize,
    pub stack: u32,
    /// Most threads of a block, if limited.
    pub max_threads: Option<u32>,
    /// Blocks of a cluster in each dimension.
    pub cluster: Option<[u32; 3]>,
    /// Names of textures, samplers and surfaces, and where in bank 0 their numbers are wanted.
    pub references: Vec<(usize, String)>,
    /// Bytes of bank 0.
    pub first_bank: usize,
    /// Whether textures and samplers are named apart.
    pub independent: bool,
    /// Constant banks except bank 0.
    pub banks: BTreeMap<u32, Vec<u8>>,
    /// Generic address of the constants in bank 3.
    pub constants: u64,
    /// What it runs on.
    pub machine: &'static Machine,
    /// Where its code lies: its own text, and those of the functions that it may reach.
    pub texts: Vec<CodeText>,
}

/// A text section among the code of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CodeText {
    /// Address of its first instruction.
    address: u64,
    /// Number of its first instruction in the kernel's program.
    first: u32,
    /// How many there are.
    count: u32,
}

impl Kernel {
    /// The instruction at an address.
    pub fn index_at(&self, address: u64) -> Option<u32> {
        let inside = |text: &&CodeText| {
            let end = text.address + 16 * u64::from(text.count);
            (text.address..end).contains(&address)
        };
        let text = self.texts.iter().find(inside)?;
        let offset = address - text.address;
        let number = u32::try_from(offset / 16).ok()?;
        offset.is_multiple_of(16).then_some(text.first + number)
    }

    /// The address of an instruction.
    pub fn address_of(&self, index: u64) -> u64 {
        let mut texts = self.texts.iter().rev();
        let text = texts.find(|text| u64::from(text.first) <= index);
        text.map_or(0, |text| {
            text.address + 16 * (index - u64::from(text.first))
        })
    }
}

/// A loaded cubin.
pub struct LoadedModule {
    pub(crate) kernels: BTreeMap<String, Kernel>,
    variables: BTreeMap<String, (u64, u64)>,
    pub(crate) uses_heap: bool,
}

impl std::fmt::Debug for LoadedModule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoadedModule")
            .field("kernels", &self.kernels.keys())
            .finish_non_exhaustive()
    }
}

impl LoadedModule {
    /// The names of its kernels, sorted.
    pub fn kernels(&self) -> impl Iterator<Item = &str> {
        self.kernels.keys().map(String::as_str)
    }

    /// The sizes of a kernel's parameters, in order.
    #[must_use]
    pub fn parameters(&self, kernel: &str) -> Option<Vec<usize>> {
        let kernel = self.kernels.get(kernel)?;
        Some(
            kernel
                .parameters
                .iter()
                .map(|parameter| usize::from(parameter.size))
                .collect(),
        )
    }

    /// Address and size of a global variable.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<(u64, u64)> {
        self.variables.get(name).copied()
    }

    /// An instruction of a kernel as text.
    #[must_use]
    pub fn instruction(&self, kernel: &str, index: u32) -> Option<String> {
        let step = self
            .kernels
            .get(kernel)?
            .program
            .steps
            .get(index as usize)?;
        let instruction = step.instruction.as_ref()?;
        Some(text_of(instruction, u64::from(index) * 16))
    }

    /// A kernel's code beside the counts of a launch, a line for each instruction that was issued.
    #[must_use]
    pub fn annotate(&self, kernel: &str, profile: &Profile) -> Option<String> {
        let steps = &self.kernels.get(kernel)?.program.steps;
        let mut out = profile.summary();
        out += &format!(
            "{} cycles in the longest warp, {} in all\n{:>10} {:>12} {:>10} {:>10}  instruction\n",
            profile.longest_warp, profile.warp_cycles, "issued", "threads", "stalled", "waited"
        );
        for (index, (step, counts)) in steps.iter().zip(&profile.instructions).enumerate() {
            if counts.issued == 0 {
                continue;
            }
            let offset = index as u64 * 16;
            let text = step
                .instruction
                .as_ref()
                .map_or_else(String::new, |instruction| text_of(instruction, offset));
            out.push_str(&format!(
                "{:>10} {:>12} {:>10} {:>10}  /*{offset:04x}*/ {text}\n",
                counts.issued, counts.threads, counts.stalled, counts.waited
            ));
        }
        Some(out)
    }

    pub(crate) fn load(file: &[u8], memory: &mut Memory) -> Result<Self, LoadError> {
        let cubin = Cubin::read(file).map_err(|error| LoadError::Container(error.to_string()))?;
        let name = cubin.target();
        let Some(target) = Target::from_name(&name) else {
            return Err(LoadError::Target(name));
        };
        let machine = Machine::judging(target);
        let user_bank = u32::from(machine.constants.user_bank);
        let mut places = Places::new(&cubin, user_bank, memory)?;
        let data = places.relocate(&cubin)?;
        for (section, bytes) in &data {
            if let Some(base) = places.sections.get(section) {
                // The section was allocated with this length.
                let _ = memory.write(*base, bytes);
            }
        }
        let shared_banks: BTreeMap<u32, Vec<u8>> = cubin
            .sections
            .iter()
            .enumerate()
            .filter_map(|(index, section)| {
                let bank = section.constant_bank()?;
                let own = section.function_name().is_some();
                let bytes = data.get(&index)?;
                (!own).then(|| (bank, bytes.clone()))
            })
            .collect();
        let constants = places.constants;
        if let Some(bytes) = shared_banks.get(&user_bank) {
            // The bank was allocated with this length.
            let _ = memory.write(constants, bytes);
        }
        let mut kernels = BTreeMap::new();
        for view in cubin.functions() {
            if view.is_entry {
                let kernel = kernel(&cubin, &view, machine, &shared_banks, &data, constants);
                kernels.insert(view.name.to_owned(), kernel);
            }
        }
        let variables = cubin
            .symbols()
            .iter()
            .filter(|symbol| symbol.kind == orias_cubin::elf::stt::OBJECT)
            .filter_map(|symbol| {
                let SymbolPlace::Section(section) = symbol.place else {
                    return None;
                };
                let base = places.sections.get(&usize::from(section))?;
                Some((symbol.name.text.clone(), (base + symbol.value, symbol.size)))
            })
            .collect();
        let uses_heap = cubin.symbols().iter().any(|symbol| {
            symbol.place == SymbolPlace::Undefined
                && matches!(symbol.name.text.as_str(), "malloc" | "free")
        });
        Ok(Self {
            kernels,
            variables,
            uses_heap,
        })
    }
}

fn kernel(
    cubin: &Cubin,
    view: &FunctionView<'_>,
    machine: &'static Machine,
    shared_banks: &BTreeMap<u32, Vec<u8>>,
    data: &BTreeMap<usize, Vec<u8>>,
    constants: u64,
) -> Kernel {
    let mut banks = shared_banks.clone();
    for (index, section) in cubin.sections.iter().enumerate() {
        if section.function_name() == Some(view.name)
            && let (Some(bank), Some(bytes)) = (section.constant_bank(), data.get(&index))
            && bank != 0
        {
            banks.insert(bank, bytes.clone());
        }
    }
    let parameter_bank = view
        .param_bank
        .unwrap_or((machine.constants.params as u16, 0));
    let mut sizes = [0; 32];
    let own_bank = cubin.sections.iter().position(|section| {
        section.function_name() == Some(view.name) && section.constant_bank() == Some(0)
    });
    let own_bytes = own_bank
        .and_then(|index| data.get(&index))
        .map_or(0, Vec::len);
    let parameters_end = usize::from(parameter_bank.0) + usize::from(parameter_bank.1);
    sizes[0] = parameters_end.max(own_bytes);
    for (bank, bytes) in &banks {
        if let Some(size) = sizes.get_mut(*bank as usize) {
            *size = bytes.len();
        }
    }
    let triple = |wanted: u8| {
        view.attributes
            .iter()
            .find_map(|attribute| match &attribute.value {
                Value::Dimensions(dimensions) if attribute.id == wanted => Some(*dimensions),
                _ => None,
            })
    };
    let reserved = machine.constants.reserved_shared as usize;
    let mut code = Vec::new();
    let mut texts = Vec::new();
    for section in reached_texts(cubin, view.section) {
        let Some(bytes) = data.get(&section) else {
            continue;
        };
        texts.push(CodeText {
            address: text_address(section),
            first: (code.len() / 16) as u32,
            count: bytes.len().div_ceil(16) as u32,
        });
        code.extend_from_slice(bytes);
        code.resize(code.len().next_multiple_of(16), 0);
    }
    let program = Program::new(&code, machine, &sizes);
    Kernel {
        name: view.name.to_owned(),
        references: own_bank.map_or_else(Vec::new, |bank| references(cubin, bank)),
        first_bank: sizes[0],
        independent: (cubin.section(".nv.info").and_then(|it| it.attributes()))
            .is_some_and(|all| all.iter().any(|it| it.id == id::TEXMODE_INDEPENDENT)),
        registers: program.registers.max(view.registers.unwrap_or(0) as usize),
        program,
        parameters: view.params.clone(),
        parameter_bank,
        shared: view
            .shared_size
            .map_or(reserved, |size| (size as usize).max(reserved)),
        stack: view
            .min_stack_size
            .filter(|&size| size != UNKNOWN_STACK)
            .unwrap_or(0),
        max_threads: triple(id::MAX_THREADS).map(|[x, y, z]| x * y * z),
        cluster: triple(id::CTA_PER_CLUSTER),
        banks,
        constants,
        machine,
        texts,
    }
}

/// Where numbers of textures, samplers and surfaces are wanted in a section, and of which.
fn references(cubin: &Cubin, section: usize) -> Vec<(usize, String)> {
    let all = cubin.sections.iter().filter_map(|it| match &it.body {
        Body::Relocations(relocations) if it.info as usize == section => Some(relocations),
        _ => None,
    });
    all.flatten()
        .filter(|relocation| is_header(relocation.kind))
        .filter_map(|relocation| {
            let name = cubin.symbol_name(relocation.symbol)?;
            Some((relocation.offset as usize, name.to_owned()))
        })
        .collect()
}

/// Whether a relocation is the number of a texture, sampler or surface, which is known when a kernel is launched.
fn is_header(kind: u32) -> bool {
    use orias_cubin::elf::relocation::*;
    matches!(
        kind,
        R_CUDA_TEX_HEADER_INDEX | R_CUDA_SURF_HEADER_INDEX | R_CUDA_SAMP_HEADER_INDEX_0
    )
}

/// What the linker says of a stack whose size it does not know.
const UNKNOWN_STACK: u32 = u32::MAX;

/// Where the code of a text section lies.
fn text_address(section: usize) -> u64 {
    CODE + ((section as u64) << 24)
}

/// The text sections that code of `first` may get to: those whose functions it and what it reaches name, and those that data names.
fn reached_texts(cubin: &Cubin, first: usize) -> Vec<usize> {
    let text_of = |symbol: u32| match cubin.symbols().get(symbol as usize)?.place {
        SymbolPlace::Section(section) => {
            let section = usize::from(section);
            let text = cubin.sections.get(section).is_some_and(|it| it.is_text());
            text.then_some(section)
        }
        _ => None,
    };
    let mut named: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    let mut pending = Vec::new();
    for section in &cubin.sections {
        let Body::Relocations(relocations) = &section.body else {
            continue;
        };
        let into = section.info as usize;
        let Some(target) = cubin.sections.get(into) else {
            continue;
        };
        if target.flags & orias_cubin::elf::shf::ALLOC == 0 {
            continue;
        }
        let texts = relocations.iter().filter_map(|it| text_of(it.symbol));
        match target.is_text() {
            true => named.entry(into).or_default().extend(texts),
            false => pending.extend(texts),
        }
    }
    pending.push(first);
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    while let Some(section) = pending.pop() {
        if seen.insert(section) {
            found.push(section);
            pending.extend(named.get(&section).into_iter().flatten().rev());
        }
    }
    found
}

/// What a relocation puts where.
struct Field {
    /// Bytes between the relocation's offset and the field.
    skip: usize,
    /// Bytes of the field.
    bytes: usize,
    /// How far the address is shifted down first.
    shift: u32,
    /// Whether it is the generic address.
    generic: bool,
    /// Whether it is the target of a call, which is in two parts.
    target: bool,
}

/// Writes where a call goes: the address in words of four bytes, eight bits from bit 16 on, the rest from bit 34 on.
fn set_target(word: &mut [u8], address: u64) {
    let mut whole = [0; 16];
    whole.copy_from_slice(word);
    let mut bits = u128::from_le_bytes(whole);
    let target = u128::from(address >> 2);
    bits &= !(0xff << 16 | ((1 << 47) - 1) << 34);
    bits |= (target & 0xff) << 16 | (target >> 8 & ((1 << 47) - 1)) << 34;
    word.copy_from_slice(&bits.to_le_bytes());
}

impl Field {
    /// The field of a type of relocation.
    fn of(kind: u32) -> Option<Self> {
        use orias_cubin::elf::relocation::*;
        let field = |skip, bytes, shift| Self {
            skip,
            bytes,
            shift,
            generic: false,
            target: false,
        };
        let generic = |field: Self| Self {
            generic: true,
            ..field
        };
        // One byte of an address: each type is that of the next byte.
        let byte = |first: u32| field(0, 1, 8 * (kind - first));
        Some(match kind {
            R_CUDA_8_0..=R_CUDA_8_56 => byte(R_CUDA_8_0),
            R_CUDA_G8_0..=R_CUDA_G8_56 => generic(byte(R_CUDA_G8_0)),
            R_CUDA_FUNC_DESC_8_0..=R_CUDA_FUNC_DESC_8_56 => byte(R_CUDA_FUNC_DESC_8_0),
            R_CUDA_64 | R_CUDA_FUNC_DESC_64 => field(0, 8, 0),
            R_CUDA_G64 => generic(field(0, 8, 0)),
            R_CUDA_32 | R_CUDA_32_LO | R_CUDA_FUNC_DESC_32 => field(0, 4, 0),
            R_CUDA_G32 => generic(field(0, 4, 0)),
            R_CUDA_32_HI => field(0, 4, 32),
            R_CUDA_ABS32_LO_32 | R_CUDA_ABS32_32 | R_CUDA_FUNC_DESC32_LO_32 => field(4, 4, 0),
            R_CUDA_ABS32_HI_32 | R_CUDA_FUNC_DESC32_HI_32 => field(4, 4, 32),
            R_CUDA_ABS55_16_34 => Self {
                target: true,
                ..field(0, 16, 0)
            },
            _ => return None,
        })
    }
}

/// Where the sections of a cubin lie.
struct Places {
    /// Addresses of the sections in device memory.
    sections: BTreeMap<usize, u64>,
    /// The generic address of the bank with the module's constants; 0 without one.
    constants: u64,
    /// That bank.
    user_bank: u32,
}

impl Places {
    fn new(cubin: &Cubin, user_bank: u32, memory: &mut Memory) -> Result<Self, LoadError> {
        let mut sections = BTreeMap::new();
        let mut constants = 0;
        let mut total = 0usize;
        for (index, section) in cubin.sections.iter().enumerate() {
            let global = section.name.text.starts_with(".nv.global");
            if section.constant_bank() == Some(user_bank)
                && section.function_name().is_none()
                && let Some(bytes) = section.bytes()
            {
                constants = memory.allocate_constant(&vec![0; bytes.len()]);
            }
            let length = match &section.body {
                Body::Bytes(bytes) if global => bytes.len(),
                Body::Memory(size) if global => *size as usize,
                _ => continue,
            };
            total = total.saturating_add(length);
            if total > MOST_GLOBAL {
                return Err(LoadError::Memory(section.name.text.clone()));
            }
            if section.align.is_power_of_two() && section.align < MOST_GLOBAL as u64 {
                memory.align(section.align);
            }
            sections.insert(index, memory.allocate(&vec![0; length]));
        }
        Ok(Self {
            sections,
            constants,
            user_bank,
        })
    }

    /// The contents of all sections in memory, relocations applied.
    fn relocate(&mut self, cubin: &Cubin) -> Result<BTreeMap<usize, Vec<u8>>, LoadError> {
        let mut data: BTreeMap<usize, Vec<u8>> = cubin
            .sections
            .iter()
            .enumerate()
            .filter(|(_, section)| section.flags & orias_cubin::elf::shf::ALLOC != 0)
            .filter_map(|(index, section)| Some((index, section.bytes()?.to_vec())))
            .collect();
        for section in &cubin.sections {
            let Body::Relocations(relocations) = &section.body else {
                continue;
            };
            let into = section.info as usize;
            let Some(bytes) = data.get_mut(&into) else {
                continue;
            };
            let relocations = relocations.iter().filter(|it| !is_header(it.kind));
            for relocation in relocations {
                let symbol = cubin.symbol_name(relocation.symbol).unwrap_or_default();
                let kind = relocation.kind_name().unwrap_or("of unknown type");
                let refuse = || LoadError::Relocation {
                    section: section.name.text.clone(),
                    offset: relocation.offset,
                    kind: kind.to_owned(),
                    symbol: symbol.to_owned(),
                };
                let Some(field) = Field::of(relocation.kind) else {
                    return Err(refuse());
                };
                let value = self
                    .address(cubin, relocation.symbol, field.generic)?
                    .wrapping_add(relocation.addend.cast_unsigned())
                    >> field.shift;
                let at = usize::try_from(relocation.offset).map_err(|_| refuse())?;
                if field.target {
                    let word = at.checked_add(16).and_then(|end| bytes.get_mut(at..end));
                    set_target(word.ok_or_else(refuse)?, value);
                    continue;
                }
                let place = at
                    .checked_add(field.skip)
                    .and_then(|at| bytes.get_mut(at..)?.get_mut(..field.bytes))
                    .ok_or_else(refuse)?;
                place.copy_from_slice(&value.to_le_bytes()[..field.bytes]);
            }
        }
        Ok(data)
    }

    /// The address of a symbol: the generic one, or the one in its memory.
    fn address(&self, cubin: &Cubin, index: u32, generic: bool) -> Result<u64, LoadError> {
        let Some(symbol) = cubin.symbols().get(index as usize) else {
            return Err(LoadError::Undefined(format!("symbol {index}")));
        };
        let name = cubin.symbol_name(index).unwrap_or_default();
        match symbol.place {
            SymbolPlace::Section(section) => {
                let section = usize::from(section);
                let base = match self.sections.get(&section) {
                    Some(base) => *base,
                    None if cubin.sections.get(section).is_some_and(|s| s.is_text()) => {
                        text_address(section)
                    }
                    None if generic
                        && cubin
                            .sections
                            .get(section)
                            .is_some_and(|it| it.constant_bank() == Some(self.user_bank)) =>
                    {
                        self.constants
                    }
                    // Shared memory and constant banks are addressed from their start.
                    None => 0,
                };
                Ok(base + symbol.value)
            }
            SymbolPlace::Undefined => SYSTEM_CALLS
                .iter()
                .position(|known| *known == name)
                .map(|at| SYSTEM + 16 * at as u64)
                .or_else(|| Some(GRADIENTS + 16 * crate::gradient::number(name)?))
                .or_else(|| name.starts_with(".nv.reservedSmem").then_some(0))
                .or_else(|| Record::is_size_name(name).then_some(Record::BYTES as u64))
                .ok_or_else(|| LoadError::Undefined(name.to_owned())),
            SymbolPlace::Reserved(_) => Ok(symbol.value),
        }
    }
}
