//! Variables of the module: symbols, their places, and the bytes they start with.

use super::LowerOptions;
use crate::module::{
    AddressKind, Linkage, Reference, ReferenceKind, Relocation, Symbol, SymbolSpace, adopt_externs,
    constant_places_behind, near_name,
};
use orias_ptx::Diagnostic;
use orias_ptx::ast::{
    self, Attribute, Constant, InitialiserPart, Item, Statement, Variable, VariableId,
};
use orias_ptx::opaque::{self, Field};
use orias_ptx::types::Type;
use rustc_hash::{FxHashMap, FxHashSet};

/// The largest initialised variable, in bytes: past this the container could not hold it anyway.
const MAX_INITIALISED: u64 = 1 << 28;

/// The alignment of a variable in bytes: what it asks for, or its element's size.
pub(super) fn alignment(variable: &Variable) -> u32 {
    variable.alignment().max(1)
}

/// The symbols of a module.
pub(super) struct Symbols {
    /// In the order of the source.
    pub list: Vec<Symbol>,
    of: FxHashMap<VariableId, usize>,
    /// Where each constant lies in its bank, by its place in the list.
    constants: FxHashMap<usize, u64>,
    /// Whether a linker decides where they lie.
    pub relocatable: bool,
    /// Whether the program has other modules.
    pub others: bool,
    /// Textures, samplers and surfaces, in the order of the source.
    pub references: Vec<Reference>,
    reference_of: FxHashMap<VariableId, usize>,
}

impl Symbols {
    /// Symbols of all variables of the module in shared, global and constant memory, those of functions included.
    /// Those of a module for a linker lie where it puts them, and may lie in another module.
    pub fn of(
        module: &orias_ptx::Module<'_>,
        options: &LowerOptions,
        problems: &mut Vec<Diagnostic>,
    ) -> Symbols {
        let mut symbols = Symbols {
            list: Vec::new(),
            of: FxHashMap::default(),
            constants: FxHashMap::default(),
            relocatable: options.relocatable,
            others: options.constants_before.is_some(),
            references: Vec::new(),
            reference_of: FxHashMap::default(),
        };
        let mut taken = FxHashSet::default();
        let mut variables = Vec::new();
        for item in &module.items {
            match *item {
                Item::Variable(id) => variables.push((id, None)),
                Item::Function(id) => {
                    let function = module.function(id);
                    let Some(body) = &function.body else { continue };
                    for statement in &body.statements {
                        if let Statement::Variable(id) = *statement {
                            variables.push((id, Some(function.name)));
                        }
                    }
                }
                _ => {}
            }
        }
        for &(id, function) in &variables {
            let variable = module.variable(id);
            let space = match variable.space {
                ast::Space::Global => SymbolSpace::Global,
                ast::Space::Const => SymbolSpace::Const,
                ast::Space::Shared => SymbolSpace::Shared,
                // PTX before 1.5 has a space of its own for textures.
                ast::Space::Tex => SymbolSpace::Global,
                ast::Space::Local | ast::Space::Param | ast::Space::Reg => continue,
            };
            if let Some(kind) = reference_kind(variable) {
                let name = module.name(variable.name);
                taken.insert(name.to_owned());
                let reference = Reference {
                    name: name.to_owned(),
                    kind,
                    parameter_of: None,
                    modes: sampler_modes(variable),
                };
                // A declaration and the definition after it are one.
                let known = (symbols.references.iter()).position(|it| it.name == name);
                let number = known.unwrap_or(symbols.references.len());
                match symbols.references.get_mut(number) {
                    Some(known) if variable.initialiser.is_some() => *known = reference,
                    Some(_) => {}
                    None => symbols.references.push(reference),
                }
                symbols.reference_of.insert(id, number);
                continue;
            }
            let plain = module.name(variable.name);
            let mut name = plain.to_owned();
            if let Some(function) = function
                && taken.contains(plain)
            {
                name = format!("{}${plain}", module.name(function));
            }
            while function.is_some() && taken.contains(&name) {
                name.push('$');
            }
            let owner = function.map(|name| module.name(name).to_owned());
            // A declaration and the definition after it are one symbol.
            if let Some(known) = symbols.list.iter().position(|it| it.name == name) {
                symbols.of.insert(id, known);
                if symbols.list[known].linkage == Linkage::Extern {
                    symbols.list[known] = symbol(variable, name, space);
                    symbols.list[known].owner = owner;
                }
                continue;
            }
            taken.insert(name.clone());
            symbols.of.insert(id, symbols.list.len());
            symbols.list.push(Symbol {
                owner,
                ..symbol(variable, name, space)
            });
        }
        for function in module.functions.iter().filter(|it| it.entry) {
            symbols.add_parameters(module, function, &taken);
        }
        for &(id, _) in &variables {
            let Some(&index) = symbols.of.get(&id) else {
                continue;
            };
            // The records of an array of textures are nobody's: ptxas leaves them zero.
            if opaque::record_bytes(module.variable(id).ty).is_some() {
                continue;
            }
            if let Err(problem) = symbols.initialise(module, id, index) {
                problems.push(problem);
            }
        }
        if options.relocatable {
            return symbols;
        }
        if !symbols.others {
            adopt_externs(&mut symbols.list);
        }
        let constants = symbols.list.iter().enumerate();
        let constants = constants.filter(|(_, symbol)| symbol.space == SymbolSpace::Const);
        let before = options.constants_before.unwrap_or(0);
        let (places, _) = constant_places_behind(before, &symbols.list);
        symbols.constants = (constants.zip(places))
            .map(|((index, _), (_, place))| (index, place))
            .collect();
        symbols
    }

    /// The textures, samplers and surfaces that are parameters of a kernel. Parameters of several kernels may share a name.
    fn add_parameters(
        &mut self,
        module: &orias_ptx::Module<'_>,
        function: &ast::Function,
        taken: &FxHashSet<String>,
    ) {
        let kernel = module.name(function.name);
        let functions = || module.functions.iter().map(|it| module.name(it.name));
        for &id in &function.parameters {
            let variable = module.variable(id);
            let Some(kind) = reference_kind(variable) else {
                continue;
            };
            let plain = module.name(variable.name);
            let same = |it: &Reference| it.name == plain && it.kind == kind;
            let known = self.references.iter().position(same);
            let known = known.filter(|&known| self.references[known].parameter_of.is_some());
            let number = known.unwrap_or_else(|| {
                let mut name = plain.to_owned();
                let used = |name: &str, list: &[Reference]| list.iter().any(|it| it.name == name);
                while taken.contains(&name)
                    || used(&name, &self.references)
                    || functions().any(|it| it == name)
                {
                    name = format!("{kernel}${name}");
                }
                self.references.push(Reference {
                    name,
                    kind,
                    parameter_of: Some(kernel.to_owned()),
                    modes: u32::MAX,
                });
                self.references.len() - 1
            });
            self.reference_of.insert(id, number);
        }
    }

    /// The texture, sampler or surface that a variable names.
    pub fn reference(&self, id: VariableId) -> Option<&Reference> {
        self.references.get(*self.reference_of.get(&id)?)
    }

    /// Where a variable lies in the bank of constants, if it is one.
    pub fn constant(&self, id: VariableId) -> Option<u64> {
        self.constants.get(&self.index(id)?).copied()
    }

    /// The symbol of a variable, by its place in the list.
    pub fn index(&self, id: VariableId) -> Option<usize> {
        self.of.get(&id).copied()
    }

    /// Writes the initial bytes of a variable.
    fn initialise(
        &mut self,
        module: &orias_ptx::Module<'_>,
        id: VariableId,
        index: usize,
    ) -> Result<(), Diagnostic> {
        let variable = module.variable(id);
        let Some(initialiser) = &variable.initialiser else {
            return Ok(());
        };
        let width = u64::from(variable.ty.bits().div_ceil(8));
        // The size of what braces enclose, by depth: the whole, rows, vectors.
        let mut sizes = vec![width];
        if variable.vector > 1 {
            sizes.push(width * u64::from(variable.vector));
        }
        for &count in variable.dimensions.iter().skip(1).rev() {
            let inner = sizes[sizes.len() - 1];
            sizes.push(inner.saturating_mul(count));
        }
        if !variable.dimensions.is_empty() {
            sizes.push(u64::MAX);
        }
        sizes.reverse();
        let mut bytes: Vec<u8> = Vec::new();
        let mut relocations = Vec::new();
        let mut starts: Vec<u64> = Vec::new();
        let mut at = 0_u64;
        let mut mask = None;
        for part in &initialiser.parts {
            match *part {
                InitialiserPart::Open => starts.push(at),
                InitialiserPart::Close => {
                    // The next row starts after this one's full size, whether it was filled or not.
                    let depth = starts.len();
                    let start = starts.pop().unwrap_or(0);
                    if depth > 1
                        && let Some(&size) = sizes.get(depth - 1)
                        && size != u64::MAX
                    {
                        at = start.saturating_add(size);
                    }
                }
                InitialiserPart::Mask(bits) => mask = Some(bits),
                InitialiserPart::Bytes { first, count } => {
                    let size = width.saturating_mul(count.into());
                    if at.saturating_add(size) > MAX_INITIALISED {
                        return Err(too_large(variable));
                    }
                    let numbers = initialiser.bytes(first, count);
                    if width == 1 {
                        put(&mut bytes, at, numbers);
                    } else {
                        for (place, &number) in (at..).step_by(width as usize).zip(numbers) {
                            put_bits(&mut bytes, place, number.into(), width);
                        }
                    }
                    at += size;
                }
                value => {
                    if at.saturating_add(width) > MAX_INITIALISED {
                        return Err(too_large(variable));
                    }
                    // A masked byte of an address or number is moved down to the lowest.
                    let shift = mask.map_or(0, u64::trailing_zeros);
                    if let InitialiserPart::Constant(constant) = value {
                        let bits = match mask {
                            Some(mask) => (constant_bits(constant, Type::U64) & mask) >> shift,
                            None => constant_bits(constant, variable.ty),
                        };
                        put_bits(&mut bytes, at, bits, width);
                    } else {
                        let (symbol, addend, kind) = self.address(module, variable, value)?;
                        put_bits(&mut bytes, at, 0, width);
                        relocations.push(Relocation {
                            offset: at,
                            bytes: if mask.is_some() { 1 } else { width as u8 },
                            shift: shift as u8,
                            symbol,
                            addend,
                            kind,
                        });
                    }
                    mask = None;
                    at += width;
                }
            }
        }
        let symbol = &mut self.list[index];
        if symbol.size == 0 {
            symbol.size = at;
        }
        symbol.initial = Some(bytes);
        symbol.relocations = relocations;
        Ok(())
    }
}

impl Symbols {
    /// Whose address a part of the initial value of `variable` is, what is added, and which address it is.
    fn address(
        &self,
        module: &orias_ptx::Module<'_>,
        variable: &Variable,
        part: InitialiserPart,
    ) -> Result<(String, i64, AddressKind), Diagnostic> {
        match part {
            InitialiserPart::Variable {
                variable: target,
                offset,
                generic,
            } => {
                let kind = if generic {
                    AddressKind::Generic
                } else {
                    AddressKind::Space
                };
                if let Some(reference) = self.reference(target) {
                    return Ok((reference.name.clone(), offset, kind));
                }
                let Some(target) = self.index(target) else {
                    let what = "the address of a variable without a symbol as initial value";
                    return Err(unsupported(variable, what));
                };
                Ok((self.list[target].name.clone(), offset, kind))
            }
            InitialiserPart::Function(id) if module.function(id).entry => {
                let name = module.name(module.function(id).name);
                Ok((name.to_owned(), 0, AddressKind::Kernel))
            }
            InitialiserPart::Function(id) => {
                let name = module.name(module.function(id).name);
                if self.relocatable {
                    return Ok((name.to_owned(), 0, AddressKind::Function));
                }
                let defined =
                    |it: &ast::Function| it.name == module.function(id).name && it.body.is_some();
                if !module.functions.iter().any(defined) {
                    let what = format!(
                        "the address of the function '{name}', which is not defined here, as initial value"
                    );
                    return Err(unsupported(variable, &what));
                }
                Ok((near_name(name), 0, AddressKind::Function))
            }
            _ => Err(unsupported(variable, "this initial value")),
        }
    }
}

/// What a variable of an opaque type names; arrays of them are bytes.
pub(super) fn reference_kind(variable: &Variable) -> Option<ReferenceKind> {
    if !variable.dimensions.is_empty() {
        return None;
    }
    match variable.ty {
        _ if variable.space == ast::Space::Tex => Some(ReferenceKind::Texture),
        Type::Texref => Some(ReferenceKind::Texture),
        Type::Samplerref => Some(ReferenceKind::Sampler),
        Type::Surfref => Some(ReferenceKind::Surface),
        _ => None,
    }
}

/// What a sampler is declared with, a byte a mode: one less than the number of the mode, or 0xff.
fn sampler_modes(variable: &Variable) -> u32 {
    const FIELDS: [(Field, i64); 4] = [
        (Field::AddrMode0, 5),
        (Field::AddrMode1, 5),
        (Field::AddrMode2, 5),
        (Field::FilterMode, 2),
    ];
    let mut modes = [u8::MAX; 4];
    let parts = variable.initialiser.iter().flat_map(|it| &it.parts);
    let mut field = None;
    for part in parts {
        match *part {
            InitialiserPart::Field(named) => {
                field = FIELDS.iter().position(|(known, _)| *known == named);
            }
            InitialiserPart::Constant(constant) => {
                if let Some(place) = field.take() {
                    let value = constant_bits(constant, Type::U64).cast_signed();
                    modes[place] = match (1..=FIELDS[place].1).contains(&value) {
                        true => value as u8 - 1,
                        false => u8::MAX,
                    };
                }
            }
            _ => {}
        }
    }
    u32::from_le_bytes(modes)
}

fn unsupported(variable: &Variable, what: &str) -> Diagnostic {
    Diagnostic::error(variable.span, format!("not supported yet: {what}"))
}

fn symbol(variable: &Variable, name: String, space: SymbolSpace) -> Symbol {
    Symbol {
        name,
        space,
        bank: variable.bank,
        linkage: linkage(variable.linkage),
        size: variable.bytes(),
        align: alignment(variable),
        initial: None,
        relocations: Vec::new(),
        managed: variable.attributes.contains(&Attribute::Managed),
        owner: None,
    }
}

/// Who sees a name.
pub(super) fn linkage(linkage: ast::Linkage) -> Linkage {
    match linkage {
        ast::Linkage::Internal => Linkage::Internal,
        ast::Linkage::Extern => Linkage::Extern,
        ast::Linkage::Visible => Linkage::Visible,
        ast::Linkage::Weak => Linkage::Weak,
        ast::Linkage::Common => Linkage::Common,
    }
}

fn too_large(variable: &Variable) -> Diagnostic {
    unsupported(variable, "an initialised variable this large")
}

/// Writes the lowest `width` bytes of a number; those above its 64 bits are zero.
fn put_bits(bytes: &mut Vec<u8>, at: u64, bits: u64, width: u64) {
    let mut number = [0; 16];
    number[..8].copy_from_slice(&bits.to_le_bytes());
    put(bytes, at, &number[..number.len().min(width as usize)]);
}

fn put(bytes: &mut Vec<u8>, at: u64, values: &[u8]) {
    let (at, end) = (at as usize, at as usize + values.len());
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[at..end].copy_from_slice(values);
}

/// The bits of a constant in a variable of a type, of which its lowest bytes are stored. Numbers are rounded to single precision
/// for 32 bits; exact singles keep their 32 bits whatever the type is.
fn constant_bits(constant: Constant, ty: Type) -> u64 {
    match (constant, ty) {
        (Constant::Signed(value), _) => value.cast_unsigned(),
        (Constant::Unsigned(value), _) => value,
        (Constant::Single(bits), _) => bits.into(),
        (Constant::Double(bits), Type::F32 | Type::B32) => {
            (f64::from_bits(bits) as f32).to_bits().into()
        }
        (Constant::Double(bits), _) => bits,
    }
}
