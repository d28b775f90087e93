//! A loaded program: where its variables lie, and its functions as steps.

use crate::decode::{Decoder, Registers};
use crate::error::{LoadError, line_of};
use crate::memory::{
    CONSTANT_BASE, FUNCTION_BASE, LOCAL_WINDOW, Memory, PARAMETER_BASE, SHARED_WINDOW,
};
use crate::step::{Piece, Step};
use orias_ptx::Module;
use orias_ptx::ast::{
    Body, Constant, Function, FunctionDirectiveKind, FunctionId, InitialiserPart, Linkage,
    RegisterId, Space, Statement, Variable, VariableId,
};
use orias_ptx::name::Name;
use orias_ptx::types::Type;
use std::collections::{BTreeMap, BTreeSet};

/// Where a variable lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// At a generic address.
    Absolute(u64),
    /// At an offset of shared memory.
    Shared(u64),
    /// At an offset of its function's frame in local memory.
    Frame(u64),
    /// In a register.
    Register(RegisterId),
    /// In another module.
    Nowhere,
}

/// Where everything lies.
#[derive(Debug)]
pub(crate) struct Layout {
    places: Vec<Place>,
    /// The number of each function's definition.
    functions: Vec<Option<usize>>,
    /// Bytes of shared memory that the module declares.
    pub shared_bytes: u64,
}

impl Layout {
    pub fn place(&self, id: VariableId) -> Place {
        self.places[id.index()]
    }

    /// The definition a function's name stands for.
    pub fn function(&self, id: FunctionId) -> Option<usize> {
        self.functions[id.index()]
    }
}

/// A parameter of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Its type, as PTX writes it, without dot.
    pub ty: &'static str,
    /// Where it starts.
    pub offset: u64,
    /// How many bytes it has.
    pub bytes: u64,
    /// Whether it is the name of a texture, sampler or surface, and no argument is passed for it.
    pub reference: bool,
}

/// Where a function finds an argument or leaves a result.
#[derive(Clone, Debug)]
pub(crate) enum Formal {
    Registers(Vec<Piece>),
    Frame {
        offset: u64,
        bytes: u32,
    },
    /// An array as long as what is passed for it, behind the rest of the frame.
    Open {
        offset: u64,
    },
}

/// A function's code.
pub(crate) struct Code {
    pub name: String,
    pub entry: bool,
    pub steps: Vec<Step>,
    /// Register slots of a call.
    pub slots: u32,
    /// For each slot the name of its register.
    pub slot_names: Vec<String>,
    /// Bytes of local memory of a call.
    pub frame_bytes: u64,
    pub parameters: Vec<Formal>,
    pub returns: Vec<Formal>,
    pub kernel_parameters: Vec<Parameter>,
    /// `.reqntid`
    pub required_block: Option<[u32; 3]>,
    /// `.maxntid`
    pub largest_block: Option<[u32; 3]>,
    /// `.reqnctapercluster`
    pub required_cluster: Option<[u32; 3]>,
}

/// A module, ready to run, and the memory its kernels work on.
pub struct Program {
    pub(crate) code: Vec<Code>,
    pub(crate) memory: Memory,
    pub(crate) shared_bytes: u64,
    pub(crate) source: Vec<u8>,
    /// Address and size of what global and constant memory hold, by name.
    variables: BTreeMap<String, (u64, u64)>,
    /// The handles of textures, samplers and surfaces that kernels know by name.
    pub(crate) named: BTreeMap<String, u64>,
}

/// Whether a variable of a type is the name of a texture, sampler or surface.
pub(crate) const fn is_reference(ty: Type) -> bool {
    matches!(ty, Type::Texref | Type::Samplerref | Type::Surfref)
}

impl Program {
    /// Makes a module ready to run. It must have been parsed, and better checked, without errors.
    pub fn load(module: &Module<'_>) -> Result<Self, LoadError> {
        let mut memory = Memory::default();
        let definitions = definitions(module);
        let layout = lay_out(module, &definitions, &mut memory)?;
        initialise(module, &layout, &mut memory)?;
        let mut code = Vec::with_capacity(definitions.len());
        for &id in &definitions {
            code.push(load_function(module, &layout, module.function(id))?);
        }
        Ok(Self {
            code,
            memory,
            shared_bytes: layout.shared_bytes,
            source: module.source.to_vec(),
            variables: variables(module, &layout)?,
            named: BTreeMap::new(),
        })
    }

    /// Address and size of a variable of global or constant memory.
    pub fn variable(&self, name: &str) -> Option<(u64, u64)> {
        self.variables.get(name).copied()
    }

    /// Lets a texture, sampler or surface that kernels know by a name, as a variable or as a parameter, be that of a handle.
    pub fn name(&mut self, name: &str, handle: u64) {
        if let Some((address, 8)) = self.variable(name) {
            // The variable was allocated with this length.
            let _ = self.memory.write(address, &handle.to_le_bytes());
        }
        self.named.insert(name.to_owned(), handle);
    }

    /// Global memory.
    pub const fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Global memory, to allocate and write.
    pub const fn memory_mut(&mut self) -> &mut Memory {
        &mut self.memory
    }

    /// The names of the kernels, in the order of the source.
    pub fn kernels(&self) -> impl Iterator<Item = &str> {
        let kernels = self.code.iter().filter(|code| code.entry);
        kernels.map(|code| code.name.as_str())
    }

    /// The parameters of a kernel.
    pub fn parameters(&self, kernel: &str) -> Option<&[Parameter]> {
        let code = self
            .code
            .iter()
            .find(|code| code.entry && code.name == kernel)?;
        Some(&code.kernel_parameters)
    }
}

/// The variables of a module that have an address in global or constant memory.
fn variables(
    module: &Module<'_>,
    layout: &Layout,
) -> Result<BTreeMap<String, (u64, u64)>, LoadError> {
    let mut variables = BTreeMap::new();
    for (number, variable) in module.variables.iter().enumerate() {
        if let (Space::Global | Space::Const, Place::Absolute(address)) =
            (variable.space, layout.places[number])
        {
            let bytes = size(module, variable)? as u64;
            variables.insert(module.name(variable.name).to_owned(), (address, bytes));
        }
    }
    Ok(variables)
}

/// The functions that have a body.
fn definitions(module: &Module<'_>) -> Vec<FunctionId> {
    (0..module.functions.len() as u32)
        .map(FunctionId)
        .filter(|&id| module.function(id).body.is_some())
        .collect()
}

fn unsupported(module: &Module<'_>, variable: &Variable, what: &str) -> LoadError {
    LoadError::Unsupported {
        what: format!(
            "'{}': {what} in the interpreter",
            module.name(variable.name)
        ),
        line: line_of(module.source, variable.span),
    }
}

/// The alignment a variable has: the one it asks for, or that of its type.
fn alignment(variable: &Variable) -> u64 {
    let natural = variable.element_bytes().next_power_of_two().max(1);
    variable.align.map_or(natural, u64::from).max(1)
}

/// Assigns a place to every variable.
fn lay_out(
    module: &Module<'_>,
    definitions: &[FunctionId],
    memory: &mut Memory,
) -> Result<Layout, LoadError> {
    let numbers: BTreeMap<Name, usize> = definitions
        .iter()
        .enumerate()
        .map(|(number, &id)| (module.function(id).name, number))
        .collect();
    let mut by_name = numbers.clone();
    for alias in &module.aliases {
        if let Some(&number) = numbers.get(&alias.of) {
            by_name.insert(alias.name, number);
        }
    }
    let functions = module.functions.iter();
    let mut layout = Layout {
        places: vec![Place::Nowhere; module.variables.len()],
        functions: functions.map(|it| by_name.get(&it.name).copied()).collect(),
        shared_bytes: 0,
    };
    let mut constants = CONSTANT_BASE;
    let mut dynamic = Vec::new();
    let mut dynamic_alignment = 1;
    // What has a name outside functions, by name: a declaration is where the definition is.
    let mut defined: BTreeMap<Name, Place> = BTreeMap::new();
    let definitions_of: BTreeSet<Name> = module
        .variables
        .iter()
        .filter(|variable| variable.linkage != Linkage::Extern)
        .map(|variable| variable.name)
        .collect();
    for (number, variable) in module.variables.iter().enumerate() {
        let declared = variable.linkage == Linkage::Extern;
        let place = match variable.space {
            Space::Shared if declared && variable.bytes() == 0 => {
                dynamic.push(number);
                dynamic_alignment = dynamic_alignment.max(alignment(variable));
                continue;
            }
            Space::Shared if declared => continue,
            // What no module defines is a variable of this one, which is the whole program.
            Space::Global | Space::Const
                if declared
                    && (definitions_of.contains(&variable.name)
                        || defined.contains_key(&variable.name)) =>
            {
                continue;
            }
            Space::Global => {
                let bytes = vec![0; size(module, variable)?];
                Place::Absolute(memory.allocate_aligned(bytes, alignment(variable)))
            }
            Space::Const => {
                let base = constants.next_multiple_of(alignment(variable).max(256));
                let bytes = size(module, variable)?;
                constants = base + bytes as u64 + 4096;
                memory.place(base, vec![0; bytes], true);
                Place::Absolute(base)
            }
            Space::Shared => {
                let base = layout.shared_bytes.next_multiple_of(alignment(variable));
                layout.shared_bytes = base + variable.bytes();
                Place::Shared(base)
            }
            _ => continue,
        };
        layout.places[number] = place;
        defined.insert(variable.name, place);
    }
    // Dynamic shared memory starts after everything that has a size, for all names alike.
    let start = layout.shared_bytes.next_multiple_of(dynamic_alignment);
    for number in dynamic {
        layout.places[number] = Place::Shared(start);
        layout.shared_bytes = start;
    }
    for (number, variable) in module.variables.iter().enumerate() {
        let global = matches!(variable.space, Space::Global | Space::Const | Space::Shared);
        if global
            && layout.places[number] == Place::Nowhere
            && let Some(&place) = defined.get(&variable.name)
        {
            layout.places[number] = place;
        }
    }
    for &id in definitions {
        lay_out_frame(module, module.function(id), &mut layout);
    }
    Ok(layout)
}

/// The bytes of a variable; an open dimension is as long as the initialiser.
fn size(module: &Module<'_>, variable: &Variable) -> Result<usize, LoadError> {
    const LARGEST: u64 = 1 << 32;
    let bytes = if variable.dimensions.first() == Some(&0) {
        let rest = variable.dimensions[1..].iter().product::<u64>();
        let elements = elements(variable, |_| Some(0)).map_or(0, |list| list.len() as u64);
        let vector = u64::from(variable.vector.max(1));
        elements.next_multiple_of((rest * vector).max(1)) * variable.element_bytes() / vector
    } else {
        variable.bytes()
    };
    if bytes > LARGEST {
        return Err(unsupported(module, variable, "more than 4 GiB"));
    }
    Ok(bytes as usize)
}

/// Gives the locals and parameters of a function their places in its frame; a kernel's parameters have addresses.
fn lay_out_frame(module: &Module<'_>, function: &Function, layout: &mut Layout) {
    let mut frame = 0;
    let mut parameters = PARAMETER_BASE;
    let formals = function.returns.iter().chain(&function.parameters);
    let locals = function.body.iter().flat_map(|body| &body.statements);
    let locals = locals.filter_map(|statement| match statement {
        Statement::Variable(id) => Some(id),
        _ => None,
    });
    let formal_count = function.returns.len() + function.parameters.len();
    let is_open = |id: VariableId| module.variable(id).dimensions.first() == Some(&0);
    let mut open = None;
    for (at, &id) in formals.chain(locals).enumerate() {
        let variable = module.variable(id);
        let formal = at < formal_count;
        if formal && is_open(id) {
            open = Some(id);
            continue;
        }
        layout.places[id.index()] = match (variable.space, variable.register) {
            (_, Some(register)) => Place::Register(register),
            (Space::Param, None) if formal && function.entry => {
                let base = parameters.next_multiple_of(alignment(variable));
                parameters = base + variable.bytes();
                Place::Absolute(base)
            }
            (Space::Param | Space::Local, None) => {
                let base = u64::next_multiple_of(frame, alignment(variable));
                frame = base + variable.bytes();
                Place::Frame(base)
            }
            _ => continue,
        };
    }
    if let Some(id) = open {
        let base = u64::next_multiple_of(frame, alignment(module.variable(id)));
        layout.places[id.index()] = Place::Frame(base);
    }
}

/// The values of an initialiser, one for each element, as 64-bit patterns; `address` gives those of names.
fn elements(
    variable: &Variable,
    address: impl Fn(&InitialiserPart) -> Option<u64>,
) -> Option<Vec<u64>> {
    let initialiser = variable.initialiser.as_ref()?;
    let mut dimensions: Vec<usize> = variable.dimensions.iter().map(|&n| n as usize).collect();
    if variable.vector > 1 {
        dimensions.push(variable.vector.into());
    }
    let mut values = Vec::new();
    let mut starts: Vec<usize> = Vec::new();
    let mut mask = None;
    for part in &initialiser.parts {
        let value = match part {
            InitialiserPart::Open => {
                starts.push(values.len());
                continue;
            }
            InitialiserPart::Close => {
                let start = starts.pop()?;
                let inner: usize = dimensions.iter().skip(starts.len()).product();
                // What the braces leave out is zero.
                if start + inner > values.len() {
                    values.resize(start + inner, 0);
                }
                continue;
            }
            InitialiserPart::Mask(bits) => {
                mask = Some(*bits);
                continue;
            }
            InitialiserPart::Bytes { first, count } => {
                let numbers = initialiser.bytes(*first, *count).iter();
                values.extend(numbers.map(|&number| u64::from(number)));
                continue;
            }
            InitialiserPart::Constant(value) if mask.is_some() => constant(*value, Type::B64),
            InitialiserPart::Constant(value) => constant(*value, variable.ty),
            name => address(name)?,
        };
        values.push(match mask.take() {
            Some(0) => 0,
            Some(bits) => (value & bits) >> bits.trailing_zeros(),
            None => value,
        });
    }
    Some(values)
}

/// The bits of a constant, of which an element of type `ty` keeps the lowest. `0f…` is 32 bits, not a number to be widened.
fn constant(value: Constant, ty: Type) -> u64 {
    match value {
        Constant::Signed(value) => value.cast_unsigned(),
        Constant::Unsigned(value) => value,
        Constant::Single(bits) => bits.into(),
        Constant::Double(bits) if ty.bits() == 32 => (f64::from_bits(bits) as f32).to_bits().into(),
        Constant::Double(bits) => bits,
    }
}

/// Writes the initial values of globals and constants.
fn initialise(module: &Module<'_>, layout: &Layout, memory: &mut Memory) -> Result<(), LoadError> {
    let address = |part: &InitialiserPart| match *part {
        InitialiserPart::Variable {
            variable,
            offset,
            generic,
        } => {
            let base = match layout.place(variable) {
                Place::Absolute(base) => base,
                Place::Shared(base) if generic => SHARED_WINDOW + base,
                Place::Shared(base) => base,
                Place::Frame(base) => LOCAL_WINDOW + base,
                Place::Register(_) | Place::Nowhere => return None,
            };
            Some(base.wrapping_add_signed(offset))
        }
        InitialiserPart::Function(id) => {
            let number = layout.function(id)?;
            Some(FUNCTION_BASE + 16 * number as u64)
        }
        _ => None,
    };
    for (number, variable) in module.variables.iter().enumerate() {
        let (Place::Absolute(base), Some(_)) = (layout.places[number], &variable.initialiser)
        else {
            continue;
        };
        // What a texture or sampler is like is said by who binds it.
        if is_reference(variable.ty) {
            continue;
        }
        let values = elements(variable, address).ok_or_else(|| {
            unsupported(
                module,
                variable,
                "an initialiser that names something defined elsewhere",
            )
        })?;
        let width = (variable.ty.bits().div_ceil(8) as usize).min(8);
        let mut bytes = Vec::with_capacity(values.len() * width);
        for value in values {
            bytes.extend_from_slice(&value.to_le_bytes()[..width]);
            // The upper half of a 128-bit element.
            bytes.resize(
                bytes.len() + (variable.ty.bits() as usize / 8).saturating_sub(8),
                0,
            );
        }
        bytes.resize(size(module, variable)?, 0);
        memory.place(base, bytes, variable.space == Space::Const);
    }
    Ok(())
}

fn load_function(
    module: &Module<'_>,
    layout: &Layout,
    function: &Function,
) -> Result<Code, LoadError> {
    static EMPTY: Body = Body {
        statements: Vec::new(),
        instructions: Vec::new(),
        operands: Vec::new(),
        registers: Vec::new(),
        declarations: Vec::new(),
        labels: Vec::new(),
        lists: Vec::new(),
        locations: Vec::new(),
        pragmas: Vec::new(),
    };
    let body = function.body.as_ref().unwrap_or(&EMPTY);
    let registers = Registers::of(body);
    let formals = |ids: &[VariableId]| -> Vec<Formal> {
        let formals = ids.iter().filter_map(|&id| {
            let bytes = module.variable(id).bytes() as u32;
            Some(match layout.place(id) {
                Place::Register(register) => Formal::Registers(registers.pieces(register)),
                Place::Frame(offset) if bytes == 0 => Formal::Open { offset },
                Place::Frame(offset) => Formal::Frame { offset, bytes },
                _ => return None,
            })
        });
        formals.collect()
    };
    let mut frame_bytes = 0;
    for statement in &body.statements {
        if let Statement::Variable(id) = statement
            && let Place::Frame(offset) = layout.place(*id)
        {
            frame_bytes = frame_bytes.max(offset + module.variable(*id).bytes());
        }
    }
    let (parameters, returns) = (formals(&function.parameters), formals(&function.returns));
    for formal in parameters.iter().chain(&returns) {
        frame_bytes = match *formal {
            Formal::Frame { offset, bytes } => frame_bytes.max(offset + u64::from(bytes)),
            Formal::Open { offset } => frame_bytes.max(offset),
            Formal::Registers(_) => frame_bytes,
        };
    }
    let kernel_parameters = function.parameters.iter().filter_map(|&id| {
        let variable = module.variable(id);
        let Place::Absolute(base) = layout.place(id) else {
            return None;
        };
        Some(Parameter {
            name: module.name(variable.name).to_owned(),
            ty: variable.ty.name(),
            offset: base - PARAMETER_BASE,
            bytes: variable.bytes(),
            reference: is_reference(variable.ty),
        })
    });
    let directive = |kind| {
        let found = function.directives.iter().find(|it| it.kind == kind);
        found.map(|it| it.values)
    };
    let owners = registers.owners();
    let names = owners.iter().map(|&owner| {
        let register = &body.registers[owner as usize];
        module.name(register.name).to_owned()
    });
    Ok(Code {
        name: module.name(function.name).to_owned(),
        entry: function.entry,
        steps: Decoder::new(module, layout, function, body, &registers).steps()?,
        slots: registers.count(),
        slot_names: names.collect(),
        frame_bytes,
        parameters,
        returns,
        kernel_parameters: if function.entry {
            kernel_parameters.collect()
        } else {
            Vec::new()
        },
        required_block: directive(FunctionDirectiveKind::ReqNTid),
        largest_block: directive(FunctionDirectiveKind::MaxNTid),
        required_cluster: directive(FunctionDirectiveKind::ReqNCtaPerCluster)
            .map(|sizes| sizes.map(|size| size.max(1))),
    })
}
