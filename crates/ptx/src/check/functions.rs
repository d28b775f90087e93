//! Functions: their directives, their parameters, and the instructions of their bodies.

use super::gates::Verdicts;
use super::intrinsics;
use super::variables::size;
use super::{Checker, Mode};
use crate::ast::{
    Alias, Function, FunctionDirectiveKind, FunctionId, InitialiserPart, Item, Linkage,
    OperandKind, Space, Statement, VariableId,
};
use crate::grammar::Op;
use crate::name::Name;
use rustc_hash::FxHashSet;

/// The parameter bytes of an entry, and from PTX 8.1 on sm_70 and later.
const PARAMETER_BYTES: u64 = 4352;
const LARGE_PARAMETER_BYTES: u64 = 32764;

/// Registers, and control registers, that a function can be asked to keep: of more, ptxas 13.0.88 finds no place for the return address.
const MOST_PRESERVED: u32 = 239;
const MOST_CONTROL_PRESERVED: u32 = 11;

/// The shared memory a block can have, by the first SM number it counts for.
const SHARED_BYTES: &[(u16, u64)] = &[
    (0, 49152),
    (70, 98304),
    (75, 65536),
    (80, 166_912),
    (86, 101_376),
    (87, 166_912),
    (89, 101_376),
    (90, 232_448),
    (120, 101_376),
];

/// Functions that the driver provides: a whole program may call them. ptxas 13.0.88 takes these of the names that were tried.
const OF_THE_DRIVER: &[&str] = &[
    "__assertfail",
    "cnpDeviceGetAttribute",
    "cnpEventCreate",
    "cnpGetLastError",
    "cnpGetParameterBuffer",
    "cnpGetParameterBufferV2",
    "cnpLaunchDevice",
    "cnpLaunchDeviceV2",
    "cudaDeviceSynchronize",
    "cudaGraphKernelNodeSetEnabled",
    "cudaGraphKernelNodeSetGridDim",
    "cudaGraphKernelNodeSetParam",
    "cudaGraphKernelNodeUpdatesApply",
    "cudaGraphLaunch",
    "cudaGraphSetConditional",
    "free",
    "malloc",
    "vfprintf",
    "vprintf",
];

/// What the names of all others of the driver start with.
const SYSTEM_CALL: &str = "__cuda_syscall_";

fn driver_provides(name: &str) -> bool {
    name.starts_with(SYSTEM_CALL) || OF_THE_DRIVER.binary_search(&name).is_ok()
}

impl Checker<'_, '_> {
    pub(super) fn functions(&mut self) {
        let module = self.module;
        let mut verdicts = Verdicts::new(&module.opcodes);
        let used = self.used_functions();
        let pointers = self.pointers();
        for function in &module.functions {
            self.signature(function);
            self.directives(function);
            if let Some(body) = &function.body {
                self.gates(body, &mut verdicts);
                self.calls(function, body);
                if matches!(self.options.mode, Mode::Real | Mode::Extensible) && function.entry {
                    self.shared_memory(function);
                }
            } else if self.options.mode.is_real() {
                self.undefined(function, &used, &pointers);
            }
        }
        for item in &module.items {
            if let Item::Alias(at) = item {
                self.alias(&module.aliases[*at as usize]);
            }
        }
    }

    /// An alias is another name of a function that is defined under its own.
    fn alias(&mut self, alias: &Alias) {
        let module = self.module;
        self.needs_version(alias.span, ".alias", 63);
        let function = |name: Name| module.functions.iter().find(|it| it.name == name);
        for name in [alias.name, alias.of] {
            if function(name).is_some_and(|it| it.entry) {
                let name = module.name(name);
                let message = format!("Cannot define alias to entry function '{name}'");
                self.error(alias.span, message);
            }
        }
        if alias.name == alias.of {
            self.error(alias.span, "Cannot alias a function to itself");
        }
    }

    fn signature(&mut self, function: &Function) {
        self.unified(&function.attributes, function.span);
        let module = self.module;
        let name = module.name(function.name);
        if function.entry && !function.parameters.is_empty() {
            self.needs_version(function.span, "kernel parameter list", 14);
        }
        if function.entry && function.body.is_none() {
            self.needs_version(function.span, "kernel function prototype", 30);
        }
        self.parameters(function);
        let total = self.parameter_bytes(&function.parameters);
        if function.entry {
            let large = module.version >= 81 && module.target.is_none_or(|it| it.sm >= 70);
            let limit = if large {
                LARGE_PARAMETER_BYTES
            } else {
                PARAMETER_BYTES
            };
            if total > limit {
                self.error(
                    function.span,
                    format!(
                        "Entry function '{name}' uses too much parameter space ({total:#x} bytes, {limit:#x} max)."
                    ),
                );
            }
        }
    }

    fn directives(&mut self, function: &Function) {
        use FunctionDirectiveKind as Kind;
        let has = |kind: Kind| function.directives.iter().find(|it| it.kind == kind);
        for directive in &function.directives {
            let name = directive.kind.name();
            let legal = match directive.kind {
                Kind::NoReturn | Kind::AbiPreserve | Kind::AbiPreserveControl => !function.entry,
                Kind::Pragma | Kind::LocalMaxNReg => true,
                _ => function.entry,
            };
            if !legal {
                let kind = if function.entry {
                    "an entry"
                } else {
                    "a function"
                };
                self.error(
                    directive.span,
                    format!("Parsing error near '{name}': {kind} cannot have this directive"),
                );
                continue;
            }
            let zero = directive.values[..directive.count as usize].contains(&0);
            if zero && !matches!(directive.kind, Kind::AbiPreserve | Kind::AbiPreserveControl) {
                self.error(
                    directive.span,
                    format!("Positive non-zero value expected for {}", &name[1..]),
                );
            }
            let most = match directive.kind {
                Kind::AbiPreserve => MOST_PRESERVED,
                Kind::AbiPreserveControl => MOST_CONTROL_PRESERVED,
                _ => u32::MAX,
            };
            let number = directive.values[0];
            if number > most && self.options.mode != Mode::Virtual {
                let target = self.options.architecture.or(self.module.target);
                let target = target.map_or_else(String::new, |it| format!(" for {it}"));
                let message = format!("{name} {number} is invalid{target}");
                self.error(directive.span, message);
            }
            let (version, sm) = match directive.kind {
                Kind::MaxNReg | Kind::MaxNTid => (13, 0),
                Kind::LocalMaxNReg => (88, 0),
                Kind::ReqNTid => (21, 0),
                Kind::MinNCtaPerSm => (20, 0),
                Kind::NoReturn => (64, 30),
                Kind::ReqNCtaPerCluster | Kind::ExplicitCluster | Kind::MaxClusterRank => (78, 90),
                Kind::BlocksAreClusters => (90, 90),
                Kind::AbiPreserve | Kind::AbiPreserveControl => (90, 80),
                _ => (0, 0),
            };
            self.needs_version(directive.span, name, version);
            if self.module.target.is_some_and(|target| target.sm < sm) {
                self.error(
                    directive.span,
                    format!("Feature '{name}' requires .target sm_{sm} or higher"),
                );
            }
        }
        if let Some(directive) = has(Kind::MaxNCtaPerSm)
            && self.module.version >= 21
        {
            self.error(
                directive.span,
                "Deprecated feature: '.maxnctapersm directive' not supported as of PTX version 2.1",
            );
        }
        if let (Some(_), Some(second)) = (has(Kind::MaxNTid), has(Kind::ReqNTid)) {
            self.error(
                second.span,
                "Conflicting directives: .maxntid and .reqntid cannot both be specified",
            );
        }
        if let (Some(first), Some(second)) =
            (has(Kind::ReqNCtaPerCluster), has(Kind::MaxClusterRank))
        {
            let last = if first.span.start > second.span.start {
                first
            } else {
                second
            };
            self.error(
                last.span,
                "Conflicting directives: .reqnctapercluster and .maxclusterrank cannot both be specified",
            );
        }
        if let Some(directive) = has(Kind::NoReturn)
            && !function.returns.is_empty()
        {
            let name = self.module.name(function.name);
            let message = format!("Invalid directive '.noreturn' for function '{name}'");
            self.error(directive.span, message);
        }
        if let Some(directive) = has(Kind::BlocksAreClusters)
            && (has(Kind::ReqNTid).is_none() || has(Kind::ReqNCtaPerCluster).is_none())
        {
            self.error(
                directive.span,
                ".reqntid and .reqnctapercluster directive(s) required for directive '.blocksareclusters'",
            );
        }
        if let Some(directive) = has(Kind::MinNCtaPerSm)
            && has(Kind::MaxNTid).is_none()
            && has(Kind::ReqNTid).is_none()
        {
            self.warning(
                directive.span,
                ".minnctapersm is ignored when neither .maxntid nor .reqntid is specified.",
            );
        }
    }

    /// The functions that instructions and initial values name.
    fn used_functions(&self) -> FxHashSet<Name> {
        let module = self.module;
        let bodies = module.functions.iter().filter_map(|it| it.body.as_ref());
        let operands = bodies.flat_map(|body| {
            let instructions = body.instructions.iter();
            instructions.flat_map(|instruction| body.operands(instruction))
        });
        let in_code = operands.filter_map(|operand| match operand.kind {
            OperandKind::Function(id) => Some(id),
            _ => None,
        });
        let used = in_code.chain(self.functions_in_data());
        used.map(|id| module.function(id).name).collect()
    }

    fn functions_in_data(&self) -> impl Iterator<Item = FunctionId> {
        let variables = self.module.variables.iter();
        let initial = variables.filter_map(|it| it.initialiser.as_ref());
        initial
            .flat_map(|it| &it.parts)
            .filter_map(|part| match part {
                InitialiserPart::Function(id) => Some(*id),
                _ => None,
            })
    }

    /// The functions whose address is taken, in code or by initial values.
    fn pointers(&self) -> FxHashSet<Name> {
        let module = self.module;
        let bodies = module.functions.iter().filter_map(|it| it.body.as_ref());
        let operands = bodies.flat_map(|body| {
            let instructions = body.instructions.iter();
            let others = instructions.filter(|it| module.opcode(it).op != Some(Op::Call));
            others.flat_map(|instruction| body.operands(instruction))
        });
        let in_code = operands.filter_map(|operand| match operand.kind {
            OperandKind::Function(id) => Some(id),
            _ => None,
        });
        let pointers = in_code.chain(self.functions_in_data());
        pointers.map(|id| module.function(id).name).collect()
    }

    /// A function that is called or named must be there in the end, or be one that a linker may find elsewhere. `.extern` entries are
    /// never called.
    fn undefined(
        &mut self,
        function: &Function,
        used: &FxHashSet<Name>,
        pointers: &FxHashSet<Name>,
    ) {
        let module = self.module;
        let defined = module
            .functions
            .iter()
            .any(|other| other.name == function.name && other.body.is_some());
        let alias = module.aliases.iter().any(|it| it.name == function.name);
        let name = module.name(function.name);
        let external = function.linkage == Linkage::Extern;
        let linked = self.options.mode != Mode::Real && external;
        let launched_elsewhere = function.entry && external;
        let called = used.contains(&function.name);
        // What is declared without `.extern` is to come in this module, whether anybody calls it or not.
        let needed = (called || !external) && !linked && !launched_elsewhere;
        let refusal = called.then(|| intrinsics::refusal(name)).flatten();
        let missing = needed && !driver_provides(name);
        if !(defined || alias) && pointers.contains(&function.name) {
            let pointer = match (function.entry, self.options.mode) {
                (_, Mode::Object) | (true, Mode::Extensible) => None,
                (true, _) => Some(format!("Undefined reference to '{name}'")),
                (false, Mode::Extensible) => Some(format!(
                    "Cannot take address of function '{name}' in extensible whole program compilation."
                )),
                (false, _) => Some(format!("Cannot take address of function '{name}'")),
            };
            if let Some(message) = pointer {
                self.error(function.span, message);
                return;
            }
        }
        if !(defined || alias) && (missing || refusal.is_some()) {
            let unresolved = || format!("Unresolved extern function '{name}'");
            self.error(function.span, refusal.unwrap_or_else(unresolved));
        }
    }

    /// The static shared memory that an entry names, with what it declares itself.
    fn shared_memory(&mut self, function: &Function) {
        let module = self.module;
        let Some(body) = &function.body else { return };
        let mut seen = vec![false; module.variables.len()];
        let mut total = 0_u64;
        let mut add = |id: VariableId| {
            let variable = module.variable(id);
            if variable.space == Space::Shared && !std::mem::replace(&mut seen[id.index()], true) {
                let align = u64::from(variable.alignment());
                total = total
                    .div_ceil(align)
                    .saturating_mul(align)
                    .saturating_add(size(variable));
            }
        };
        for statement in &body.statements {
            if let Statement::Variable(id) = statement {
                add(*id);
            }
        }
        for operand in &body.operands {
            use crate::ast::OperandKind as Kind;
            if let Kind::AtVariable(id, _)
            | Kind::Variable(id)
            | Kind::Offset(id, _)
            | Kind::Element(id, _) = operand.kind
            {
                add(id);
            }
        }
        let sm = self
            .options
            .architecture
            .or(module.target)
            .map_or(90, |target| target.sm);
        let limit = SHARED_BYTES
            .iter()
            .rev()
            .find(|(first, _)| *first <= sm)
            .map_or(49152, |(_, bytes)| *bytes);
        if total > limit {
            let name = module.name(function.name);
            self.error(
                function.span,
                format!(
                    "Entry function '{name}' uses too much shared data ({total:#x} bytes, {limit:#x} max)"
                ),
            );
        }
    }
}
