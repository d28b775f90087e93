//! What is done when all statements are lowered: SSA form is completed, and a kernel made of it.

use super::{Body, Lowered, NO_UNROLLING, asks_for_shared_spills, quoted};
use crate::emit::Emit;
use crate::lower::data::linkage;
use crate::lower::debug::Debugging;
use crate::lower::{LowerOptions, contract, unlikely};
use crate::module::{DeviceFunction, Extern, Kernel, Parameter, SharedPlace};
use crate::reachability::remove_unreachable;
use orias_machine::Machine;
use orias_ori::analysis::{DepthFirst, FlowGraph, LoopNest};
use orias_ori::operation::{AbstractOp, Scalar, Space};
use orias_ori::{Block, FunctionKind, Guard, Operand, Reg, SharedSpills};
use orias_ptx::ast::{self, FunctionDirectiveKind};

impl Body<'_, '_> {
    /// Completes the function.
    pub(super) fn finish(&mut self, options: &LowerOptions) -> Lowered {
        remove_unreachable(&mut self.func, |_, _| false);
        self.define_frame_base()?;
        std::mem::take(&mut self.ssa).finish(&mut self.func)?;
        if options.contract {
            contract::contract(&mut self.func)?;
        }
        unlikely::mark_rare(&mut self.func);
        Ok(())
    }

    /// Takes the frame's address at the entry where something needs it as a number. Once the stack grows at run time, all
    /// accesses to the frame do, and returns: the stack pointer no longer points there. Arguments of calls lie where it points.
    fn define_frame_base(&mut self) -> Lowered {
        if self.alloca {
            let base = self.frame_base();
            let blocks: Vec<Block> = self.func.blocks().collect();
            for block in blocks {
                let insts: Vec<_> = self.func.block_insts(block).collect();
                for inst in insts {
                    if self.func.opcode(inst).as_abstract() == Some(AbstractOp::Ret)
                        && self.func.kind == FunctionKind::Device
                    {
                        let mut emit = Emit::before(&mut self.func, inst);
                        let operands = [base.into()];
                        let mods = (Scalar::B32,);
                        emit.put(
                            AbstractOp::StackRestore,
                            mods,
                            &[],
                            &operands,
                            Guard::ALWAYS,
                            &[],
                        );
                        emit.finish()?;
                    }
                    if self.func.modifier::<Space>(inst) != Some(Space::Local) {
                        continue;
                    }
                    let operands = self.func.operands(inst).to_vec();
                    for operand in operands {
                        if let Operand::Address(id) = operand
                            && self.func.address(id).base.get().is_none()
                            && self.func.address(id).offset >= self.outgoing as i32
                        {
                            self.func.address_mut(id).base = Reg::from(base).into();
                        }
                    }
                }
            }
        }
        let (Some(base), Some(entry)) = (self.frame_base, self.func.entry()) else {
            return Ok(());
        };
        let first = self.func.layout.first_inst(entry);
        let mut emit = match first {
            Some(inst) => Emit::before(&mut self.func, inst),
            None => Emit::at_end(&mut self.func, entry, None),
        };
        emit.put(
            AbstractOp::StackSave,
            (Scalar::B32,),
            &[base.into()],
            &[],
            Guard::ALWAYS,
            &[],
        );
        emit.finish()?;
        Ok(())
    }

    /// The function that is called, and the functions it calls that are not here.
    pub(super) fn into_function(
        mut self,
        function: &ast::Function,
    ) -> (DeviceFunction, Vec<Extern>) {
        self.set_frame();
        let function = DeviceFunction {
            debug: self.debugging.map(Debugging::into_record),
            linkage: linkage(function.linkage),
            local_registers: local_registers(function),
            shared: self.shared.into_iter().collect(),
            code: self.func,
        };
        (function, self.externs)
    }

    /// Says how large the frame is, as far as the source goes, and how many barriers there are.
    fn set_frame(&mut self) {
        let attributes = &mut self.func.attributes;
        attributes.local = self.memory.1.next_multiple_of(self.memory.2);
        let abi = Machine::of(self.func.target).abi;
        let stack = match self.func.kind == FunctionKind::Device && attributes.relocatable {
            true => abi.called_stack_alignment,
            false => abi.stack_alignment,
        };
        attributes.local_align = if self.memory.2 > stack {
            self.memory.2
        } else {
            0
        };
        attributes.barriers = self.barriers;
    }

    /// The kernel, and the functions it calls that are not here.
    pub(super) fn into_kernel(
        mut self,
        function: &ast::Function,
        parameters: Vec<Parameter>,
    ) -> (Kernel, Vec<Extern>) {
        let mut shared = Vec::new();
        let mut end = 0_u64;
        let mut dynamic = None;
        for &index in &self.shared {
            let symbol = &self.symbols.list[index];
            let align = u64::from(symbol.align.max(1));
            // Arrays of open size all start behind what has a size.
            if symbol.size == 0 {
                dynamic = Some(dynamic.unwrap_or(1).max(align));
                continue;
            }
            let offset = end.next_multiple_of(align);
            end = offset + symbol.size;
            shared.push(SharedPlace {
                symbol: symbol.name.clone(),
                offset: u32::try_from(offset).unwrap_or(u32::MAX),
            });
        }
        let dynamic_shared = dynamic.map(|align| {
            let start = u32::try_from(end.next_multiple_of(align)).unwrap_or(u32::MAX);
            for &index in &self.shared {
                let symbol = &self.symbols.list[index];
                if symbol.size == 0 {
                    shared.push(SharedPlace {
                        symbol: symbol.name.clone(),
                        offset: start,
                    });
                }
            }
            start
        });
        self.func.attributes.shared = u32::try_from(end).unwrap_or(u32::MAX);
        if self.pragmas.iter().any(|it| asks_for_shared_spills(it)) {
            self.func.attributes.shared_spills = SharedSpills::Wanted;
        }
        if !self.func.attributes.relocatable {
            self.func.attributes.aligned = shared.iter().filter_map(aligned).collect();
        }
        self.set_frame();
        let directive = |kind| {
            let mut directives = function.directives.iter();
            directives.find(move |it| it.kind == kind)
        };
        // The pragma of a function or a module speaks of all its loops; one in the body of the loop it stands in.
        let everywhere = |span| {
            let text = self.module.text(span);
            quoted(&text).any(|it| it == NO_UNROLLING)
        };
        let mut of_function = function
            .directives
            .iter()
            .filter(|it| it.kind == FunctionDirectiveKind::Pragma);
        let keep_all = of_function.any(|it| everywhere(it.span))
            || self.module.pragmas.iter().any(|&span| everywhere(span));
        if keep_all && self.func.entry().is_some() {
            let graph = FlowGraph::of(&self.func);
            let nest = LoopNest::new(&graph, &DepthFirst::new(&graph));
            self.func.attributes.rolled = nest.loops().map(|each| nest.header(each)).collect();
        }
        let mut passed = parameters.iter().rev().filter(|it| it.size > 0);
        let parameter_bytes = passed.next().map_or(0, |last| last.offset + last.size);
        let kernel = Kernel {
            linkage: linkage(function.linkage),
            parameters,
            parameter_bytes,
            shared,
            dynamic_shared,
            callees: Vec::new(),
            inlined: Vec::new(),
            debug: self.debugging.map(Debugging::into_record),
            pragmas: self.pragmas,
            local_registers: local_registers(function),
            max_cluster_rank: directive(FunctionDirectiveKind::MaxClusterRank)
                .map(|it| it.values[0]),
            explicit_cluster: directive(FunctionDirectiveKind::ExplicitCluster).is_some(),
            blocks_are_clusters: directive(FunctionDirectiveKind::BlocksAreClusters).is_some(),
            code: self.func,
        };
        (kernel, self.externs)
    }
}

/// `.local_maxnreg`
fn local_registers(function: &ast::Function) -> Option<u32> {
    let mut directives = function.directives.iter();
    let found = directives.find(|it| it.kind == FunctionDirectiveKind::LocalMaxNReg);
    found.map(|it| it.values[0])
}

/// A variable in shared memory and what its address is a multiple of, where wide accesses want to know.
fn aligned(place: &SharedPlace) -> Option<(String, u32)> {
    // Shared memory starts at a multiple of more than that.
    const WIDEST: u32 = 16;
    let bytes = 1 << place.offset.trailing_zeros().min(WIDEST.trailing_zeros());
    (bytes >= 8).then(|| (place.symbol.clone(), bytes))
}
