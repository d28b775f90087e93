//! Parameters of the kernel: every type, array, alignment and order.

use super::{Type, Writer};

/// The type of a parameter that is said to be an address.
const POINTER: Type = super::ty("u64", 8, false);

impl Writer {
    /// A parameter of the kernel with random bytes, seen by loads of its bytes and by a load of its type.
    pub(super) fn kernel_parameter(&mut self) {
        let mut shape = self.shape();
        // Kernel parameters are neither vectors nor of more than one dimension; others are for ptxas to judge.
        if !self.wild() {
            shape.vector = 1;
            if shape.dimensions.len() > 1 {
                shape.dimensions.truncate(1);
                let end = shape.brackets.find(']').map_or(0, |at| at + 1);
                shape.brackets.truncate(end);
            }
        }
        let name = self.name("arg");
        let mut declared = format!(".param {}", shape.declare(&name));
        if self.rng.one_in(6) {
            // With `.ptr .const` ptxas -O0 cuts the addresses of all constants off; what it makes of `.ptr .shared` and `.ptr .local` the
            // driver does not load.
            let space = *self.rng.pick(&["", ".global "]);
            let align = *self.rng.pick(&["", ".align 4 ", ".align 16 "]);
            declared = format!(".param .u64 .ptr {space}{align}{name}");
            (shape.ty, shape.vector, shape.align) = (POINTER, 1, None);
            shape.dimensions.clear();
        }
        let bytes = shape.bytes();
        self.parameters.push(declared);
        let argument: Vec<u8> = (0..bytes).map(|_| self.rng.next_u64() as u8).collect();
        self.arguments.push(argument);
        match self.rng.below(4) {
            0 => {
                let address = self.register("b64");
                self.line(format!("mov.b64 {address}, {name};"));
                self.dump(".param", &address, bytes, shape.alignment());
            }
            1 => {
                let address = self.register("b64");
                self.line(format!("mov.b64 {address}, {name};"));
                self.line(format!("cvta.param.u64 {address}, {address};"));
                self.dump("", &address, bytes, shape.alignment());
            }
            _ => self.dump(".param", &name, bytes, shape.alignment()),
        }
        if !shape.ty.float && shape.ty.bytes < 16 && shape.ty.name != "pred" && shape.vector == 1 {
            // With the sign of its type, from its last element.
            let to = self.register("b64");
            let at = bytes - shape.ty.bytes;
            self.line(format!("ld.param.{} {to}, [{name}+{at}];", shape.ty.name));
            if shape.ty.name.starts_with('b') {
                let mask = u64::MAX >> (64 - 8 * shape.ty.bytes);
                self.line(format!("and.b64 {to}, {to}, {mask:#x};"));
            }
            self.show(&to, 8);
        }
    }
}
