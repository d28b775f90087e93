//! What stands before a kernel's statements: parameters and directives.

use super::{Body, Storage};
use crate::lower::data::{alignment, reference_kind};
use crate::module::Parameter;
use orias_ori::KernelParam;
use orias_ptx::Diagnostic;
use orias_ptx::ast::{self, FunctionDirectiveKind};

impl Body<'_, '_> {
    /// Lays out the kernel's parameters.
    pub(super) fn parameters(&mut self, function: &ast::Function) -> Vec<Parameter> {
        let mut end = 0_u64;
        let mut parameters = Vec::new();
        for &id in &function.parameters {
            let variable = self.module.variable(id);
            if reference_kind(variable).is_some() {
                parameters.push(Parameter {
                    name: self.module.name(variable.name).to_owned(),
                    offset: Parameter::NOWHERE,
                    size: 0,
                    align: 1,
                    pointer: None,
                });
                continue;
            }
            let align = alignment(variable);
            let offset = end.next_multiple_of(u64::from(align));
            let size = variable.bytes();
            end = offset.saturating_add(size);
            let (Ok(offset), Ok(size)) = (u32::try_from(offset), u32::try_from(size)) else {
                let message = "not supported yet: parameters this large";
                self.problems
                    .push(Diagnostic::error(variable.span, message));
                return parameters;
            };
            self.storage.insert(id, Storage::Kernel(offset));
            self.func.kernel_params.push(KernelParam { offset, size });
            parameters.push(Parameter {
                name: self.module.name(variable.name).to_owned(),
                offset,
                size,
                align,
                pointer: variable.pointer,
            });
        }
        parameters
    }

    /// Takes over what the directives say of launches and registers.
    pub(super) fn directives(&mut self, function: &ast::Function) {
        for directive in &function.directives {
            let attributes = &mut self.func.attributes;
            let values = directive.values;
            match directive.kind {
                FunctionDirectiveKind::MaxNReg => attributes.max_registers = values[0],
                FunctionDirectiveKind::MaxNTid => attributes.max_threads = values,
                FunctionDirectiveKind::ReqNTid => {
                    attributes.max_threads = values;
                    attributes.required_threads = true;
                }
                FunctionDirectiveKind::MinNCtaPerSm | FunctionDirectiveKind::MaxNCtaPerSm => {
                    attributes.min_blocks = values[0];
                }
                FunctionDirectiveKind::ReqNCtaPerCluster => attributes.cluster = values,
                FunctionDirectiveKind::Pragma => {
                    let text = self.module.text(directive.span).into_owned();
                    self.pragmas.push(text);
                }
                FunctionDirectiveKind::ExplicitCluster => self.explicit_cluster = true,
                // Kept in the kernel's record, or without meaning for a kernel.
                FunctionDirectiveKind::NoReturn
                | FunctionDirectiveKind::MaxClusterRank
                | FunctionDirectiveKind::BlocksAreClusters
                | FunctionDirectiveKind::LocalMaxNReg
                | FunctionDirectiveKind::AbiPreserve
                | FunctionDirectiveKind::AbiPreserveControl => {}
            }
        }
    }
}
