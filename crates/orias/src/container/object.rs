//! Objects for a linker: every function has a text of its own, and every name is left to relocations.
//!
//! The kinds of relocations are those that ptxas 13.0.88 writes. A name of a variable in shared memory stands for its distance from where the
//! program's part begins, so what the system keeps for itself is added here, as ptxas adds it in code.

use super::data::KnownNames;
use super::text::{Called, Part, Text, behind_call};
use super::{Finished, function_of, internal, kernel_function};
use crate::debug::{self, Sections};
use crate::diagnostics::Diagnostic;
use crate::lines::{self, LineTables};
use orias_codegen::{BEHIND_CALL, Linkage, Links, LoweredModule, Reference, Symbol, SymbolSpace};
use orias_cubin::attribute::{Attribute, Value, id};
use orias_cubin::build::{self, Address, CodeRelocation, Object, SharedVariable, Variable};
use orias_cubin::elf::relocation as kind;
use orias_eval::texture::Record;
use orias_machine::Machine;
use orias_mercury::{Patch, Relocation};
use orias_ori::SymbolPart;
use orias_sass::{Op, Target};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeSet;

/// What calls through pointers add to the pointer: where the table of functions that programs share begins, if there is one.
const SHARED_TABLE: &str = "__UFT_OFFSET";

/// Who is meant by a name.
#[derive(Clone, Copy)]
enum Named<'a> {
    Kernel,
    Function,
    Variable(&'a Symbol),
    /// A texture, sampler or surface: its number stands in the bank of parameters, where the linker puts it.
    Reference,
    /// A number that the driver knows.
    DriverWord(&'static str),
}

struct Names<'a> {
    named: FxHashMap<&'a str, Named<'a>>,
    /// Functions that have a text here, and their other names.
    defined: FxHashSet<&'a str>,
}

impl<'a> Names<'a> {
    fn new(
        module: &'a LoweredModule,
        links: &'a Links,
        kernels: &'a [Finished],
        functions: &'a [Called],
    ) -> Names<'a> {
        let mut named = FxHashMap::default();
        let symbols = module.symbols.iter();
        named.extend(symbols.map(|it| (it.name.as_str(), Named::Variable(it))));
        let known = links.prototypes.iter();
        named.extend(known.map(|(name, _)| (name.as_str(), Named::Function)));
        let references = module.references.iter();
        named.extend(references.map(|it| (it.name.as_str(), Named::Reference)));
        let words = Record::ALL.map(Record::size_name);
        named.extend(words.map(|name| (name, Named::DriverWord(name))));
        let entries = kernels.iter().map(|it| it.kernel.code.name.as_str());
        let kernels = module.entries.iter();
        named.extend(kernels.map(|name| (name.as_str(), Named::Kernel)));
        let own = functions.iter().map(|it| it.function.name.as_str());
        let aliases = links.aliases.iter().map(|(name, _)| name.as_str());
        Names {
            named,
            defined: entries.chain(own).chain(aliases).collect(),
        }
    }
}

/// The bytes of the object.
pub(super) fn build(
    module: &LoweredModule,
    links: &Links,
    kernels: &[Finished],
    functions: &[Called],
    (lines, sections): (LineTables, Option<Sections>),
    target: Target,
) -> Result<Vec<u8>, Diagnostic> {
    let names = Names::new(module, links, kernels, functions);
    let mut cubin = build::CubinContents::new(super::chip_of(target));
    let mut object = Object {
        extensible: links.extensible,
        ..Object::default()
    };
    let known = KnownNames {
        module,
        constants: &FxHashMap::default(),
        kernels: module.entries.iter().map(String::as_str).collect(),
    };
    // Functions first: a kernel's number is what its shared variables name.
    let numbers: FxHashMap<&str, usize> = (kernels.iter().enumerate())
        .map(|(number, it)| (it.kernel.code.name.as_str(), functions.len() + number))
        .collect();
    for symbol in &module.symbols {
        let variable = known.variable(symbol)?;
        match symbol.space {
            SymbolSpace::Global => cubin.globals.push(variable),
            SymbolSpace::Const => cubin.constants.push(variable),
            SymbolSpace::Shared => {
                let owner = symbol.owner.as_deref();
                object.shared.push(SharedVariable {
                    variable,
                    owner: owner.and_then(|name| numbers.get(name).copied()),
                });
            }
            SymbolSpace::Local => {}
        }
    }
    Variable::place_in_order(&mut cubin.globals);
    place_constants(&mut cubin.constants);
    cubin.independent_textures = module.independent_textures;
    let own = |reference: &Reference| match reference.parameter_of.as_deref() {
        Some(kernel) => numbers.get(kernel).copied().map(Some),
        None => Some(None),
    };
    let references = module.references.iter();
    cubin.references = references
        .filter_map(|it| Some(super::reference(it, own(it)?)))
        .collect();
    let files = lines.files(module);
    let mut used = Used::new(module, &names);
    for called in functions {
        let text = called.text();
        let linked = used.link(&text.parts[0], target)?;
        let mut function = function_of(&called.function, &text, linked, target);
        function.linkage = linkage(called.linkage);
        function.frame_rules =
            (called.debug.as_ref()).map(|_| debug::rules(&called.function, &called.code));
        add(
            &mut cubin, &mut used, function, &text, &lines, &files, target,
        );
    }
    for finished in kernels {
        let text = finished.text();
        let linked = used.link(&text.parts[0], target)?;
        let mut function = kernel_function(module, finished, &text, linked, target)?;
        function.shared = None;
        function.linkage = match finished.kernel.linkage {
            Linkage::Weak => build::Linkage::Weak,
            _ => build::Linkage::Global,
        };
        add(
            &mut cubin, &mut used, function, &text, &lines, &files, target,
        );
    }
    object.in_data = used.in_data();
    cubin.driver_words = used.words.iter().map(|&name| name.to_owned()).collect();
    object.kernels_elsewhere = (used.externs.iter())
        .filter(|name| module.entries.contains(name))
        .cloned()
        .collect();
    cubin.externs = used.externs;
    cubin.calls = used.calls;
    object.takes = used.takes;
    let linkages: FxHashMap<&str, Linkage> = (functions.iter())
        .map(|it| (it.function.name.as_str(), it.linkage))
        .collect();
    object.aliases = (links.aliases.iter())
        .map(|(name, of)| {
            let own = linkages.get(of.as_str()).copied();
            let own = own.unwrap_or(Linkage::Visible);
            (name.clone(), linkage(own), of.clone())
        })
        .collect();
    let externs: FxHashSet<&str> = cubin.externs.iter().map(String::as_str).collect();
    let there = |name: &str| names.defined.contains(name) || externs.contains(name);
    let seen = |name: &str| linkages.get(name) != Some(&Linkage::Internal);
    let prototypes = links.prototypes.iter();
    object.prototypes = prototypes
        .filter(|(name, _)| there(name) && seen(name) || object.in_data.contains(name))
        .cloned()
        .collect();
    let indirect = links.indirect.iter();
    object.indirect = indirect.filter(|(name, _)| there(name)).cloned().collect();
    cubin.lines = lines.info(module, &files);
    cubin.debug =
        sections.map(|sections| super::debug_info(&sections, module, kernels, functions, target));
    match links.tools_patch {
        false => cubin.object = Some(object),
        // What a linker is told has no place in a file for a tool, and it would define what is declared only.
        true => {
            let globals = cubin.globals.iter_mut();
            for global in globals.filter(|it| it.linkage == build::Linkage::Elsewhere) {
                global.linkage = build::Linkage::Global;
            }
            Variable::place_in_order(&mut cubin.globals);
            for function in &mut cubin.functions {
                function.attributes.push(Attribute {
                    id: id::TOOLS_PATCH_FUNC,
                    value: Value::Flag(0),
                });
            }
        }
    }
    let cubin = cubin.build().map_err(internal)?;
    cubin.write().map_err(internal)
}

fn add(
    cubin: &mut build::CubinContents,
    used: &mut Used<'_>,
    mut function: build::Function,
    text: &Text<'_>,
    lines: &LineTables,
    files: &std::collections::BTreeMap<u32, u32>,
    target: Target,
) {
    let class = super::isa_class::of(text, &function.code, target);
    cubin.isa_class = cubin.isa_class.max(class);
    function.externs = std::mem::take(&mut used.own_externs);
    if lines.wanted() {
        let part = &text.parts[0];
        function.lines = lines::source_rows(part.function, part.code, files);
        function.ptx_lines = lines::ptx_rows(part.function, part.code);
    }
    cubin.functions.push(function);
}

/// Gives the constants that are defined here their places in the bank.
fn place_constants(constants: &mut [Variable]) {
    let mut end = 0_u64;
    for constant in constants {
        if constant.linkage != build::Linkage::Elsewhere {
            constant.offset = end.next_multiple_of(constant.align);
            end = constant.offset + constant.size;
        }
    }
}

pub(super) fn linkage(linkage: Linkage) -> build::Linkage {
    match linkage {
        Linkage::Internal => build::Linkage::Local,
        Linkage::Visible => build::Linkage::Global,
        Linkage::Weak => build::Linkage::Weak,
        Linkage::Common => build::Linkage::Common,
        Linkage::Extern => build::Linkage::Elsewhere,
    }
}

/// What the functions of an object use of others.
struct Used<'a> {
    module: &'a LoweredModule,
    names: &'a Names<'a>,
    /// By variable: the functions whose address it and the variables it points to hold.
    tables: FxHashMap<&'a str, Vec<&'a str>>,
    externs: Vec<String>,
    known: FxHashSet<String>,
    /// Those of the function just linked.
    own_externs: Vec<String>,
    calls: Vec<(String, String)>,
    takes: Vec<(String, String)>,
    words: BTreeSet<&'static str>,
}

impl<'a> Used<'a> {
    fn new(module: &'a LoweredModule, names: &'a Names<'a>) -> Used<'a> {
        let mut used = Used {
            module,
            names,
            tables: tables(module, names),
            externs: Vec::new(),
            known: FxHashSet::default(),
            own_externs: Vec::new(),
            calls: Vec::new(),
            takes: Vec::new(),
            words: BTreeSet::new(),
        };
        for name in used.in_data() {
            used.note(&name);
        }
        used
    }

    /// The functions whose address stands in initial values.
    fn in_data(&self) -> Vec<String> {
        let mut known = FxHashSet::default();
        let symbols = self.module.symbols.iter();
        let relocations = symbols.flat_map(|symbol| &symbol.relocations);
        let functions = relocations.map(|it| it.symbol.as_str()).filter(|name| {
            let function = matches!(
                self.names.named.get(name),
                Some(Named::Function | Named::Kernel)
            );
            function && known.insert(*name)
        });
        functions.map(str::to_owned).collect()
    }

    /// A function that is used: one more from elsewhere, if it is not defined here.
    fn note(&mut self, name: &str) {
        if self.names.defined.contains(name) {
            return;
        }
        if self.known.insert(name.to_owned()) {
            self.externs.push(name.to_owned());
        }
        if !self.own_externs.iter().any(|it| it == name) {
            self.own_externs.push(name.to_owned());
        }
    }

    /// The bytes of a function, and its relocations by offset.
    fn link(
        &mut self,
        part: &Part<'_>,
        target: Target,
    ) -> Result<(Vec<u8>, Vec<CodeRelocation>), Diagnostic> {
        self.own_externs.clear();
        let own = part.function.name.as_str();
        let mut relocations = Vec::new();
        let mut calls = FxHashSet::default();
        let mut takes = FxHashSet::default();
        for relocation in &part.code.relocations {
            let name = relocation.symbol.as_str();
            if name == BEHIND_CALL {
                let behind = behind_call(part.code, relocation.offset)
                    .ok_or_else(|| internal("nothing behind the end of the code"))?;
                let kind = address_kind(
                    relocation,
                    [kind::R_CUDA_ABS32_LO_32, kind::R_CUDA_ABS32_HI_32],
                )?;
                relocations.push(relocate(relocation, kind, own, behind.into()));
                continue;
            }
            let Some(&meant) = self.names.named.get(name) else {
                return Err(Diagnostic::unsupported(format!("'{name}' in an object")));
            };
            let mut addend = relocation.addend;
            let kind = match meant {
                Named::Function if relocation.patch == Patch::Branch => {
                    self.note(name);
                    if calls.insert(name) {
                        self.calls.push((own.to_owned(), name.to_owned()));
                    }
                    Some(kind::R_CUDA_ABS55_16_34)
                }
                Named::Function | Named::Kernel => {
                    self.note(name);
                    if takes.insert(name.to_owned()) {
                        self.takes.push((own.to_owned(), name.to_owned()));
                    }
                    let halves = match meant {
                        Named::Kernel => [
                            kind::R_CUDA_FUNC_DESC32_LO_32,
                            kind::R_CUDA_FUNC_DESC32_HI_32,
                        ],
                        _ => [kind::R_CUDA_UNIFIED32_LO_32, kind::R_CUDA_UNIFIED32_HI_32],
                    };
                    Some(address_kind(relocation, halves)?)
                }
                Named::Reference => Some(reference_kind(relocation)?),
                Named::DriverWord(word) => {
                    self.words.insert(word);
                    driver_word_kind(relocation)?
                }
                Named::Variable(symbol) => {
                    for function in self.tables.get(name).into_iter().flatten() {
                        if takes.insert((*function).to_owned()) {
                            self.takes.push((own.to_owned(), (*function).to_owned()));
                        }
                    }
                    let (kind, added) = variable_kind(relocation, symbol, target)?;
                    addend += added;
                    kind
                }
            };
            if let Some(kind) = kind {
                relocations.push(relocate(relocation, kind, name, addend));
            }
        }
        for (number, placed) in part.code.placed.iter().enumerate() {
            if placed.op == Op::CALL_ABS {
                relocations.push(CodeRelocation {
                    offset: 16 * number as u64,
                    kind: kind::R_CUDA_ABS56_16_34,
                    address: Address {
                        symbol: SHARED_TABLE.to_owned(),
                        addend: 0,
                    },
                });
            }
        }
        relocations.sort_by_key(|it| it.offset);
        Ok((part.code.bytes.clone(), relocations))
    }
}

/// By variable: the functions whose address it and the variables it points to hold.
fn tables<'a>(module: &'a LoweredModule, names: &Names<'a>) -> FxHashMap<&'a str, Vec<&'a str>> {
    let mut tables = FxHashMap::default();
    for symbol in &module.symbols {
        if symbol.relocations.is_empty() {
            continue;
        }
        let mut functions = Vec::new();
        let mut seen = FxHashSet::default();
        let mut pending = vec![symbol];
        while let Some(symbol) = pending.pop() {
            for relocation in &symbol.relocations {
                let name = relocation.symbol.as_str();
                if !seen.insert(name) {
                    continue;
                }
                match names.named.get(name) {
                    Some(Named::Variable(symbol)) => pending.push(symbol),
                    Some(Named::Function | Named::Kernel) => functions.push(name),
                    _ => {}
                }
            }
        }
        tables.insert(symbol.name.as_str(), functions);
    }
    tables
}

fn relocate(relocation: &Relocation, kind: u32, symbol: &str, addend: i64) -> CodeRelocation {
    CodeRelocation {
        offset: relocation.offset.into(),
        kind,
        address: Address {
            symbol: symbol.to_owned(),
            addend,
        },
    }
}

fn unknown(relocation: &Relocation) -> Diagnostic {
    let what = format!(
        "the address of '{}' in {:?}",
        relocation.symbol, relocation.patch
    );
    Diagnostic::unsupported(what)
}

/// The relocation of one half of a 64-bit address.
fn address_kind(relocation: &Relocation, halves: [u32; 2]) -> Result<u32, Diagnostic> {
    match relocation.patch {
        Patch::Address {
            part: SymbolPart::High,
            first_bit: 32,
            ..
        } => Ok(halves[1]),
        Patch::Address { first_bit: 32, .. } => Ok(halves[0]),
        _ => Err(unknown(relocation)),
    }
}

/// The relocation of an operand in the bank of parameters: its offset and the number of the bank.
fn reference_kind(relocation: &Relocation) -> Result<u32, Diagnostic> {
    match relocation.patch {
        Patch::Bank { first_bit: 38 } => Ok(kind::R_CUDA_CONST_FIELD21_38),
        _ => Err(unknown(relocation)),
    }
}

/// The relocation of a number of 32 bits, none for what is above them.
fn driver_word_kind(relocation: &Relocation) -> Result<Option<u32>, Diagnostic> {
    match relocation.patch {
        Patch::Address {
            part: SymbolPart::High,
            ..
        } => Ok(None),
        Patch::Address { first_bit: 32, .. } => Ok(Some(kind::R_CUDA_ABS32_32)),
        _ => Err(unknown(relocation)),
    }
}

/// The relocation of a variable's address, none where it is zero, and what is added to it.
fn variable_kind(
    relocation: &Relocation,
    symbol: &Symbol,
    target: Target,
) -> Result<(Option<u32>, i64), Diagnostic> {
    let Patch::Address {
        part,
        first_bit,
        bits,
    } = relocation.patch
    else {
        return Err(unknown(relocation));
    };
    let reserved = i64::from(Machine::of(target).constants.reserved_shared);
    let high = part == SymbolPart::High;
    match (symbol.space, first_bit, bits) {
        // Addresses of these have 32 bits at most.
        (SymbolSpace::Shared | SymbolSpace::Const, ..) if high => Ok((None, 0)),
        (SymbolSpace::Shared, 32, 32) => Ok((Some(kind::R_CUDA_ABS32_32), reserved)),
        (SymbolSpace::Shared, 40, 24) => Ok((Some(kind::R_CUDA_ABS24_40), reserved)),
        (SymbolSpace::Const, 32, 32) => Ok((Some(kind::R_CUDA_ABS16_32), 0)),
        (SymbolSpace::Global, 32, 32) if high => Ok((Some(kind::R_CUDA_ABS32_HI_32), 0)),
        (SymbolSpace::Global, 32, 32) => Ok((Some(kind::R_CUDA_ABS32_LO_32), 0)),
        _ => Err(unknown(relocation)),
    }
}
