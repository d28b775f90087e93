//! Names that ptxas takes for operations of its own.
//!
//! A function that is declared and not defined, and whose name begins with [`PREFIX`], is an operation of ptxas's back end, its qualifiers spelled out behind it by `_`. They are in no
//! version of PTX; whoever writes PTX has an instruction for each of them that sm_90 has. They are told by name from those that ptxas does not know, and refused.

/// What such names begin with.
pub const PREFIX: &str = "__nv_ptx_builtin_ocg_";

/// The operations, and the PTX that says the same; none where sm_90 has no such instruction.
const OPERATIONS: [(&str, &str); 44] = [
    ("add", "add"),
    ("cp_async_commit", "cp.async.commit_group"),
    ("cp_async_wait", "cp.async.wait_group"),
    ("cache", "prefetch, discard or applypriority"),
    ("ld_mc", "multimem.ld_reduce"),
    ("ldc", "ld.const"),
    ("s2r", "mov from a special register"),
    ("acqblk", "griddepcontrol.wait"),
    ("preexit", "griddepcontrol.launch_dependents"),
    ("red_async", "red.async"),
    ("cp_async_bulk", "cp.async.bulk"),
    ("cp_red_async_bulk", "cp.reduce.async.bulk"),
    ("cp_async_tensor", "cp.async.bulk.tensor"),
    ("cp_async_prefetch_tensor", "cp.async.bulk.prefetch.tensor"),
    ("fence_view_async", "fence.proxy.async"),
    ("viadd", "add"),
    ("viaddmax", "add and max"),
    ("viaddmin", "add and min"),
    ("vimax", "max"),
    ("vimin", "min"),
    ("vimax3", "max twice"),
    ("vimin3", "min twice"),
    ("write_async", "st.async"),
    ("cctl_c", "prefetch or discard"),
    ("getnextworkid", ""),
    ("fadd2", ""),
    ("ffma2", ""),
    ("fmul2", ""),
    ("mnmx", "min or max"),
    ("fmax3", "max twice"),
    ("fmin3", "min twice"),
    ("tcbar", ""),
    ("mmareadshma", "wgmma.mma_async"),
    ("tccp", ""),
    ("tcmma", ""),
    ("tcshift", ""),
    ("virtcount", ""),
    ("tcatomsws", ""),
    ("tcldsws", ""),
    ("tcstsws", ""),
    ("memclear", ""),
    ("acqshminit", ""),
    ("ldtm", ""),
    ("sttm", ""),
];

/// What to say of a function of this name, if it is taken for such an operation.
pub fn refusal(name: &str) -> Option<String> {
    let operation = name.strip_prefix(PREFIX)?;
    let named = |row: &&(&str, &str)| {
        let rest = operation.strip_prefix(row.0);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
    };
    // No name goes on as another one's qualifiers.
    let found = OPERATIONS.iter().find(named);
    Some(match found {
        None => format!("(C7300) Unexpected instrinsic name ({name})"),
        Some((_, "")) => format!("Intrinsic '{name}' has no instruction on this target"),
        Some((_, instead)) => format!("Intrinsic '{name}' is not supported yet; PTX has {instead}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intrinsics_are_told_by_name() {
        let of = |operation: &str| refusal(&format!("{PREFIX}{operation}")).expect("an intrinsic");
        assert!(of("cp_async_tensor_2d").contains("cp.async.bulk.tensor"));
        assert!(of("cp_async_wait_all").contains("cp.async.wait_group"));
        // Pairs of singles, and tensor memory.
        for none in ["fadd2_ftz", "tcbar", "tcmma", "tccp_2d", "ldtm", "sttm"] {
            assert!(of(none).contains("no instruction"), "{none}");
        }
        assert!(of("nosuch").starts_with("(C7300)"));
        assert!(of("additive").starts_with("(C7300)"));
        assert_eq!(refusal("vprintf"), None);
    }
}
