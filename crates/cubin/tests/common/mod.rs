//! A module that uses everything the builder knows, for the tests.

use orias_cubin::attribute::{Attribute, IndirectBranch, Value, id};
use orias_cubin::build::{
    Address, Chip, CodeRelocation, CubinContents, DataRelocation, Entry, Function, Linkage, Param,
    Shared, Subroutine, Variable,
};

/// Bytes that stand for `count` instructions.
pub fn code(count: usize) -> Vec<u8> {
    (0..count * 16).map(|byte| (byte * 7) as u8).collect()
}

/// A parameter with nothing said about what it points to.
pub fn param(offset: u16, size: u16) -> Param {
    Param {
        offset,
        size,
        pointee_log_align: 0,
        space: 0,
    }
}

/// A variable with nothing special about it.
pub fn variable(name: &str, size: u64, initial: Option<&[u8]>) -> Variable {
    Variable {
        name: name.to_owned(),
        offset: 0,
        size,
        align: 4,
        initial: initial.map(<[u8]>::to_vec),
        addresses: Vec::new(),
        linkage: Linkage::Local,
        managed: false,
    }
}

/// A kernel with two parameters and nothing else.
pub fn small_kernel(name: &str) -> Function {
    Function {
        name: name.to_owned(),
        entry: Some(Entry {
            params: vec![param(0, 8), param(8, 4)],
            ..Entry::default()
        }),
        code: code(8),
        registers: 10,
        exits: vec![0x30],
        ..Function::default()
    }
}

/// Two kernels and a function that use everything.
pub fn module() -> CubinContents {
    let mut module = CubinContents::new(SM_90A);
    let mut large = small_kernel("large");
    large.barriers = 2;
    large.frame_size = 64;
    large.min_stack_size = 96;
    large.max_registers = Some(32);
    large.shared = Some(Shared {
        size: 100,
        align: 16,
    });
    large.bank2 = vec![1, 2, 3, 4, 5, 6, 7, 8];
    large.code = code(16);
    large.subroutines = vec![Subroutine {
        name: "$division".to_owned(),
        offset: 0x80,
        size: 0x40,
        frame_size: 8,
        weak: true,
        frame_rules: None,
    }];
    large.externs = vec!["malloc".to_owned()];
    large.attributes = vec![
        Attribute {
            id: id::INDIRECT_BRANCH_TARGETS,
            value: Value::IndirectBranches(vec![IndirectBranch {
                offset: 0x20,
                kind: 0,
                reserved: 0,
                targets: vec![0x30, 0x40],
            }]),
        },
        Attribute {
            id: id::CRS_STACK_SIZE,
            value: Value::Words(vec![0]),
        },
    ];
    if let Some(entry) = &mut large.entry {
        entry.max_threads = Some([128, 1, 1]);
        entry.required_threads = Some([64, 2, 1]);
        entry.cluster = Some([2, 1, 1]);
        entry.max_cluster_rank = Some(8);
        entry.explicit_cluster = true;
    }
    let device = Function {
        name: "callee".to_owned(),
        entry: None,
        relocations: vec![CodeRelocation {
            offset: 0x10,
            kind: 0x38,
            address: Address {
                symbol: "table".to_owned(),
                addend: 4,
            },
        }],
        ..small_kernel("callee")
    };
    module.functions = vec![small_kernel("small"), large, device];
    module.externs = vec!["malloc".to_owned()];
    let call = |caller: &str, callee: &str| (caller.to_owned(), callee.to_owned());
    module.calls = vec![call("large", "callee"), call("large", "malloc")];
    module.constants = vec![variable("weights", 8, Some(&[1, 2, 3, 4, 5, 6, 7, 8]))];
    let mut pointer = variable("pointer", 8, None);
    pointer.align = 8;
    pointer.addresses = vec![DataRelocation {
        offset: 0,
        kind: orias_cubin::elf::r_cuda::GENERIC_64,
        address: Address {
            symbol: "counter".to_owned(),
            addend: 0,
        },
    }];
    let mut counter = variable("counter", 4, None);
    counter.linkage = Linkage::Global;
    module.globals = vec![pointer, variable("table", 8, Some(&[9, 9])), counter];
    Variable::place_in_order(&mut module.globals);
    module.addresses = vec![
        Address {
            symbol: "counter".to_owned(),
            addend: 0,
        },
        Address {
            symbol: "table".to_owned(),
            addend: 4,
        },
    ];
    module
}

/// `sm_90`.
pub const SM_90: Chip = Chip {
    sm: 90,
    accelerated: false,
    virtual_sm: 90,
    param_base: 0x210,
    reserved_shared: 0x400,
    mercury_version: 0x0101,
    work_arounds: 8,
};

/// `sm_90a`.
pub const SM_90A: Chip = Chip {
    accelerated: true,
    ..SM_90
};
