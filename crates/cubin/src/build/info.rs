//! The attributes of a module that is built.

use super::plan::{Key, Plan, SymbolKey};
use super::{CUDA_VERSION, Entry, Reference, ReferenceKind};
use crate::attribute::{Attribute, ParamInfo, Value, compat, id};
use crate::model::Call;

/// `INST_TCGEN05_MMA` as ptxas 13.0 writes it for every module.
const COMPAT_TCGEN05: u8 = 5;
/// `MAXREG_COUNT` of a kernel without a limit of its own.
const NO_REGISTER_LIMIT: u16 = 0xff;
/// Parameters of more bytes than this together are described by the wider record.
const MAX_NARROW_PARAMS: u16 = 4352;

/// The order of attributes in `.nv.info.<function>`, as seen in everything ptxas 13.0.88 made of the corpus and the exercises.
const INFO_ORDER: &[u8] = &[
    id::CUDA_API_VERSION,
    id::KPARAM_INFO,
    id::MAX_CLUSTER_RANK,
    id::BLOCKS_ARE_CLUSTERS,
    id::EXPLICIT_CLUSTER,
    id::CTA_PER_CLUSTER,
    id::KPARAM_INFO_V2,
    id::RESERVED_SMEM_USED,
    id::SPARSE_MMA_MASK,
    id::WMMA_USED,
    id::MAXREG_COUNT,
    id::NUM_BARRIERS,
    id::TOOLS_PATCH_FUNC,
    id::EXTERNS,
    id::ANNOTATIONS,
    id::MERCURY_ISA_VERSION,
    id::INT_WARP_WIDE_INSTR_OFFSETS,
    id::ATOM16_EMUL_INSTR_REG_MAP,
    id::INSTR_REG_MAP,
    id::UNUSED_LOAD_BYTE_OFFSET,
    id::COOP_GROUP_MASK_REGIDS,
    id::COOP_GROUP_INSTR_OFFSETS,
    id::MBARRIER_INSTR_OFFSETS,
    id::NUM_MBARRIERS,
    id::SYSCALL_OFFSETS,
    id::REG_RECONFIG,
    id::EXIT_INSTR_OFFSETS,
    id::MAX_THREADS,
    id::REQNTID,
    id::INDIRECT_BRANCH_TARGETS,
    id::CRS_STACK_SIZE,
    id::CBANK_PARAM_SIZE,
    id::PARAM_CBANK,
    id::SW_WAR,
    id::BINDLESS_TEXTURE_BANK,
    id::BINDLESS_SURFACE_BANK,
];

/// Where an attribute stands among the others; those without a known place come after `MERCURY_ISA_VERSION`.
fn info_rank(id: u8) -> usize {
    let unknown = INFO_ORDER
        .iter()
        .position(|known| *known == id::MERCURY_ISA_VERSION);
    INFO_ORDER
        .iter()
        .position(|known| *known == id)
        .or(unknown)
        .unwrap_or(0)
}

/// Whether a function has one such attribute for each of several things.
fn takes_several(id: u8) -> bool {
    matches!(id, id::KPARAM_INFO | id::KPARAM_INFO_V2)
}

impl Plan<'_> {
    /// `.nv.info`: registers and frames, last function first; then the stacks of the kernels. A module without functions has no other place for the
    /// Mercury version, and NVIDIA's tools take an empty section for a broken file.
    pub(super) fn module_info(&self) -> Vec<Attribute> {
        let about = |id, name: &str, value| Attribute {
            id,
            value: Value::FunctionValue {
                symbol: self.named(name),
                value,
            },
        };
        let mut attributes = Vec::new();
        if self.module.functions.is_empty() {
            attributes.extend(self.sampler_modes());
            attributes.push(self.mercury_version());
        }
        for (number, function) in self.module.functions.iter().rev().enumerate() {
            let first = number == 0;
            attributes.push(about(id::REGCOUNT, &function.name, function.registers));
            if self.module.object.is_some() {
                attributes.push(about(id::MAX_STACK_SIZE, &function.name, 0));
            }
            if first {
                attributes.extend(self.sampler_modes());
            }
            for inner in function.subroutines.iter().rev() {
                attributes.push(about(id::FRAME_SIZE, &inner.name, inner.frame_size));
            }
            attributes.push(about(id::FRAME_SIZE, &function.name, function.frame_size));
            if function.reports_at_exit {
                attributes.push(Attribute {
                    id: id::GEN_ERRBAR_AT_EXIT,
                    value: Value::Flag(0),
                });
            }
        }
        if self.module.independent_textures {
            attributes.push(Attribute {
                id: id::TEXMODE_INDEPENDENT,
                value: Value::Flag(0),
            });
        }
        for function in &self.module.functions {
            if function.entry.is_some() && self.module.object.is_none() {
                let stack = function.min_stack_size;
                attributes.push(about(id::MIN_STACK_SIZE, &function.name, stack));
            }
        }
        attributes
    }

    fn mercury_version(&self) -> Attribute {
        Attribute {
            id: id::MERCURY_ISA_VERSION,
            value: Value::Half(self.module.chip.mercury_version),
        }
    }

    /// What samplers are declared with, the last one first.
    fn sampler_modes(&self) -> Vec<Attribute> {
        let declared =
            |it: &&Reference| it.kind == ReferenceKind::Sampler && it.parameter_of.is_none();
        let samplers = self.module.references.iter().filter(declared);
        let mut list: Vec<Attribute> = samplers
            .map(|it| Attribute {
                id: id::SAMPLER_INIT,
                value: Value::Words(vec![self.named(&it.name), it.modes]),
            })
            .collect();
        list.reverse();
        list
    }

    pub(super) fn compat(&self) -> Vec<Attribute> {
        let byte = |id, value| Attribute {
            id,
            value: Value::Byte(value, 0),
        };
        vec![
            byte(
                compat::CUDA_ACCELERATOR_TARGET,
                u8::from(self.module.chip.accelerated),
            ),
            byte(compat::ISA_CLASS, self.module.isa_class),
            byte(compat::INST_TCGEN05_MMA, COMPAT_TCGEN05),
            Attribute {
                id: compat::MERCURY_ISA_MAJOR_MINOR_VERSION,
                value: Value::Half(self.module.chip.mercury_version),
            },
            byte(compat::INST_TENSORMAP_V1, 0),
            byte(compat::ENABLE_OPPORTUNISTIC_FINALIZATION, 1),
            Attribute {
                id: compat::CAN_FASTPATH_FINALIZE,
                value: Value::Words(vec![0, 0]),
            },
        ]
    }

    pub(super) fn function_info(&self, number: usize) -> Vec<Attribute> {
        let function = &self.module.functions[number];
        let mut attributes = Vec::new();
        let mut add = |id, value| attributes.push(Attribute { id, value });
        add(
            id::CUDA_API_VERSION,
            Value::Words(vec![CUDA_VERSION.into()]),
        );
        add(id::SPARSE_MMA_MASK, Value::Half(0));
        let version = self.mercury_version();
        add(version.id, version.value);
        add(
            id::SW_WAR,
            Value::Words(vec![self.module.chip.work_arounds]),
        );
        if function.barriers > 0 {
            add(id::NUM_BARRIERS, Value::Byte(function.barriers, 0));
        }
        if !function.exits.is_empty() {
            add(
                id::EXIT_INSTR_OFFSETS,
                Value::Offsets(function.exits.clone()),
            );
        }
        if !function.externs.is_empty() {
            let symbols = function.externs.iter().map(|name| self.named(name));
            add(id::EXTERNS, Value::Symbols(symbols.collect()));
        }
        if !function.headers.is_empty() {
            add(id::BINDLESS_TEXTURE_BANK, Value::Byte(0, 0));
            add(id::BINDLESS_SURFACE_BANK, Value::Byte(0, 0));
        }
        if let Some(entry) = &function.entry {
            self.entry_info(number, entry, function.max_registers, &mut add);
        }
        for attribute in &function.attributes {
            // What the caller says about an attribute that has a default replaces the default.
            attributes.retain(|known| known.id != attribute.id || takes_several(known.id));
        }
        attributes.extend(function.attributes.iter().cloned());
        attributes.sort_by_key(|attribute| info_rank(attribute.id));
        attributes
    }

    pub(super) fn entry_info(
        &self,
        number: usize,
        entry: &Entry,
        max_registers: Option<u16>,
        add: &mut impl FnMut(u8, Value),
    ) {
        let size = entry.size() as u16;
        for (ordinal, param) in entry.params.iter().enumerate().rev() {
            let mut info = ParamInfo {
                index: 0,
                ordinal: ordinal as u16,
                offset: param.offset,
                size: param.size,
                pointee_log_align: param.pointee_log_align,
                space: param.space,
                rest: ParamInfo::NO_BANK,
            };
            if size <= MAX_NARROW_PARAMS {
                add(id::KPARAM_INFO, Value::Param(info));
            } else {
                info.rest = 0;
                add(id::KPARAM_INFO_V2, Value::WideParam(info));
            }
        }
        if let Some(cluster) = entry.cluster {
            add(id::CTA_PER_CLUSTER, Value::Dimensions(cluster));
        }
        if entry.explicit_cluster {
            add(id::EXPLICIT_CLUSTER, Value::Flag(0));
        }
        if entry.blocks_are_clusters {
            add(id::BLOCKS_ARE_CLUSTERS, Value::Flag(0));
        }
        if let Some(rank) = entry.max_cluster_rank {
            add(id::MAX_CLUSTER_RANK, Value::Words(vec![rank]));
        }
        let registers = max_registers.unwrap_or(NO_REGISTER_LIMIT);
        add(id::MAXREG_COUNT, Value::Half(registers));
        if let Some(threads) = entry.max_threads {
            add(id::MAX_THREADS, Value::Dimensions(threads));
        }
        if let Some(threads) = entry.required_threads {
            add(id::REQNTID, Value::Dimensions(threads));
        }
        if size == 0 {
            return;
        }
        add(id::CBANK_PARAM_SIZE, Value::Half(size));
        add(
            id::PARAM_CBANK,
            Value::ParamBank {
                symbol: self.symbol(&SymbolKey::Section(Key::Bank0(number))),
                offset: self.chip.param_base,
                size,
            },
        );
    }

    /// The calls, among the four entries that every call graph has.
    pub(super) fn call_graph(&self) -> Vec<Call> {
        let marker = |number: u32| Call {
            caller: 0,
            callee: number.wrapping_neg(),
        };
        let mut graph = vec![marker(1)];
        for (caller, callee) in &self.module.calls {
            graph.push(Call {
                caller: self.named(caller),
                callee: self.named(callee),
            });
        }
        let pairs = |list: Vec<(u32, u32)>| {
            let calls = list.into_iter();
            calls.map(|(caller, callee)| Call { caller, callee })
        };
        graph.push(marker(2));
        graph.extend(pairs(self.functions_with_addresses()));
        graph.push(marker(3));
        graph.extend(pairs(self.indirect_calls()));
        graph.push(marker(4));
        graph.extend(pairs(self.addresses_taken()));
        graph
    }
}
