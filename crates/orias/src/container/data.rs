//! Variables with their initial values, and the addresses in them.
//!
//! An address in constant memory is an offset in its bank and is known now. Addresses in global memory, generic addresses and
//! addresses of kernels are known to the driver: they become relocations, as ptxas makes them. Of an address that is cut off to 32 bits
//! ptxas makes a relocation of 64, which spoils what lies behind; here each of the four bytes is a relocation of its own, as for `0xff(name)`.

use crate::diagnostics::Diagnostic;
use orias_codegen::{AddressKind, Linkage, LoweredModule, Relocation, Symbol, SymbolSpace};
use orias_cubin::build::{self, Address, DataRelocation, Variable};
use orias_cubin::elf::r_cuda;
use rustc_hash::{FxHashMap, FxHashSet};

/// What initial values can name.
pub(super) struct KnownNames<'a> {
    pub(super) module: &'a LoweredModule,
    /// Where constants lie in their bank.
    pub(super) constants: &'a FxHashMap<&'a str, u64>,
    /// The kernels that are in the cubin.
    pub(super) kernels: FxHashSet<&'a str>,
}

impl KnownNames<'_> {
    /// A variable of the module; its offset is not known yet.
    pub(super) fn variable(&self, symbol: &Symbol) -> Result<Variable, Diagnostic> {
        let mut initial = symbol.initial.clone();
        let mut addresses = Vec::new();
        for relocation in &symbol.relocations {
            match self.constant(relocation) {
                Some(address) => write(initial.get_or_insert_default(), relocation, address),
                None => addresses.extend(self.relocate(symbol, relocation)?),
            }
        }
        Ok(Variable {
            name: symbol.name.clone(),
            offset: 0,
            size: symbol.size,
            align: u64::from(symbol.align.max(1)),
            initial,
            addresses,
            linkage: match self.module.links {
                Some(_) => super::object::linkage(symbol.linkage),
                None if symbol.linkage == Linkage::Internal => build::Linkage::Local,
                None => build::Linkage::Global,
            },
            managed: symbol.managed,
        })
    }

    /// An address that is known now.
    fn constant(&self, relocation: &Relocation) -> Option<u64> {
        let place = match relocation.kind {
            AddressKind::Space => *self.constants.get(relocation.symbol.as_str())?,
            AddressKind::Function => self.module.pointer(&relocation.symbol)?,
            AddressKind::Generic | AddressKind::Kernel => return None,
        };
        Some(place.wrapping_add_signed(relocation.addend) >> relocation.shift)
    }

    fn is_constant(&self, name: &str) -> bool {
        let symbol = self.module.symbol(name);
        symbol.is_some_and(|it| it.space == SymbolSpace::Const)
    }

    /// The relocations of an address that the driver or a linker knows.
    fn relocate(
        &self,
        symbol: &Symbol,
        relocation: &Relocation,
    ) -> Result<Vec<DataRelocation>, Diagnostic> {
        let name = &relocation.symbol;
        let known = match relocation.kind {
            AddressKind::Function => self.module.links.is_some(),
            AddressKind::Kernel => self.kernels.contains(name.as_str()),
            AddressKind::Space | AddressKind::Generic => {
                let variable = self.module.symbol(name);
                variable
                    .is_some_and(|it| matches!(it.space, SymbolSpace::Global | SymbolSpace::Const))
                    || self.module.references.iter().any(|it| it.name == *name)
            }
        };
        if !known {
            let feature = format!(
                "the address of '{name}', which is not in the cubin, in the initial value of '{}'",
                symbol.name
            );
            return Err(Diagnostic::unsupported(feature));
        }
        let (whole, byte) = match relocation.kind {
            AddressKind::Kernel => (r_cuda::FUNCTION_64, r_cuda::FUNCTION_8),
            AddressKind::Function => (r_cuda::UNIFIED_64, r_cuda::UNIFIED_8),
            // The linker knows where in its bank a constant lies.
            AddressKind::Space if self.is_constant(name) => (r_cuda::ADDRESS_64, r_cuda::ADDRESS_8),
            AddressKind::Space | AddressKind::Generic => (r_cuda::GENERIC_64, r_cuda::GENERIC_8),
        };
        let at = |offset: u64, kind: u32| DataRelocation {
            offset: relocation.offset + offset,
            kind,
            address: Address {
                symbol: name.clone(),
                addend: relocation.addend,
            },
        };
        if relocation.bytes == 8 && relocation.shift == 0 {
            return Ok(vec![at(0, whole)]);
        }
        let first = u32::from(relocation.shift) / 8;
        let bytes = 0..u32::from(relocation.bytes);
        Ok(bytes.map(|n| at(n.into(), byte + first + n)).collect())
    }
}

/// Writes the bytes of an address that is known.
fn write(initial: &mut Vec<u8>, relocation: &Relocation, address: u64) {
    let (at, bytes) = (relocation.offset as usize, usize::from(relocation.bytes));
    if initial.len() < at + bytes {
        initial.resize(at + bytes, 0);
    }
    initial[at..at + bytes].copy_from_slice(&address.to_le_bytes()[..bytes]);
}
