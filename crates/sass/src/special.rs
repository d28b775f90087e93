//! Special registers: what S2R, CS2R and S2UR read.

/// From the rows: the table of names, and a constant with the number of each register, so that a name that is not in the table does not compile.
macro_rules! registers {
    ($($number:literal $constant:ident $name:literal,)*) => {
        /// The numbers that have a name of their own; any other is called `SR` and its number.
        const NAMES: &[(u8, &str)] = &[$(($number, $name),)*];

        $(
            #[doc = concat!("The number of `", $name, "`.")]
            pub const $constant: u8 = $number;
        )*
    };
}

registers! {
    0 LANEID "SR_LANEID",
    1 CLOCK "SR_CLOCK",
    2 VIRTCFG "SR_VIRTCFG",
    3 VIRTID "SR_VIRTID",
    15 ORDERING_TICKET "SR_ORDERING_TICKET",
    16 PRIM_TYPE "SR_PRIM_TYPE",
    17 INVOCATION_ID "SR_INVOCATION_ID",
    18 Y_DIRECTION "SR_Y_DIRECTION",
    19 THREAD_KILL "SR_THREAD_KILL",
    20 SHADER_TYPE "SM_SHADER_TYPE",
    21 DIRECTCBEWRITEADDRESSLOW "SR_DIRECTCBEWRITEADDRESSLOW",
    22 DIRECTCBEWRITEADDRESSHIGH "SR_DIRECTCBEWRITEADDRESSHIGH",
    23 DIRECTCBEWRITEENABLED "SR_DIRECTCBEWRITEENABLED",
    24 SW_SCRATCH "SR_SW_SCRATCH",
    25 MACHINE_ID_1 "SR_MACHINE_ID_1",
    26 MACHINE_ID_2 "SR_MACHINE_ID_2",
    27 MACHINE_ID_3 "SR_MACHINE_ID_3",
    28 AFFINITY "SR_AFFINITY",
    29 INVOCATION_INFO "SR_INVOCATION_INFO",
    30 WSCALEFACTOR_XY "SR_WSCALEFACTOR_XY",
    31 WSCALEFACTOR_Z "SR_WSCALEFACTOR_Z",
    32 TID "SR_TID",
    33 TID_X "SR_TID.X",
    34 TID_Y "SR_TID.Y",
    35 TID_Z "SR_TID.Z",
    37 CTAID_X "SR_CTAID.X",
    38 CTAID_Y "SR_CTAID.Y",
    39 CTAID_Z "SR_CTAID.Z",
    40 NTID "SR_NTID",
    41 CIR_QUEUE_INCR_MINUS_ONE "SR_CirQueueIncrMinusOne",
    42 NLATC "SR_NLATC",
    44 SM_SPA_VERSION "SR_SM_SPA_VERSION",
    45 MULTIPASSSHADERINFO "SR_MULTIPASSSHADERINFO",
    46 LWINHI "SR_LWINHI",
    47 SWINHI "SR_SWINHI",
    48 SWINLO "SR_SWINLO",
    49 SWINSZ "SR_SWINSZ",
    50 SMEMSZ "SR_SMEMSZ",
    51 SMEMBANKS "SR_SMEMBANKS",
    52 LWINLO "SR_LWINLO",
    53 LWINSZ "SR_LWINSZ",
    54 LMEMLOSZ "SR_LMEMLOSZ",
    55 LMEMHIOFF "SR_LMEMHIOFF",
    56 EQMASK "SR_EQMASK",
    57 LTMASK "SR_LTMASK",
    58 LEMASK "SR_LEMASK",
    59 GTMASK "SR_GTMASK",
    60 GEMASK "SR_GEMASK",
    61 REGALLOC "SR_REGALLOC",
    62 BARRIERALLOC "SR_BARRIERALLOC",
    64 GLOBALERRORSTATUS "SR_GLOBALERRORSTATUS",
    65 CGAERRORSTATUS "SR_CGAERRORSTATUS",
    66 WARPERRORSTATUS "SR_WARPERRORSTATUS",
    67 VIRTUALSMID "SR_VIRTUALSMID",
    68 VIRTUALENGINEID "SR_VIRTUALENGINEID",
    80 CLOCKLO "SR_CLOCKLO",
    81 CLOCKHI "SR_CLOCKHI",
    82 GLOBALTIMERLO "SR_GLOBALTIMERLO",
    83 GLOBALTIMERHI "SR_GLOBALTIMERHI",
    84 ESR_PC "SR_ESR_PC",
    85 ESR_PC_HI "SR_ESR_PC_HI",
    96 HWTASKID "SR_HWTASKID",
    97 CIRCULARQUEUEENTRYINDEX "SR_CIRCULARQUEUEENTRYINDEX",
    98 CIRCULARQUEUEENTRYADDRESSLOW "SR_CIRCULARQUEUEENTRYADDRESSLOW",
    99 CIRCULARQUEUEENTRYADDRESSHIGH "SR_CIRCULARQUEUEENTRYADDRESSHIGH",
    100 PM0 "SR_PM0",
    101 PM_HI0 "SR_PM_HI0",
    102 PM1 "SR_PM1",
    103 PM_HI1 "SR_PM_HI1",
    104 PM2 "SR_PM2",
    105 PM_HI2 "SR_PM_HI2",
    106 PM3 "SR_PM3",
    107 PM_HI3 "SR_PM_HI3",
    108 PM4 "SR_PM4",
    109 PM_HI4 "SR_PM_HI4",
    110 PM5 "SR_PM5",
    111 PM_HI5 "SR_PM_HI5",
    112 PM6 "SR_PM6",
    113 PM_HI6 "SR_PM_HI6",
    114 PM7 "SR_PM7",
    115 PM_HI7 "SR_PM_HI7",
    116 SNAP_PM0 "SR_SNAP_PM0",
    117 SNAP_PM_HI0 "SR_SNAP_PM_HI0",
    118 SNAP_PM1 "SR_SNAP_PM1",
    119 SNAP_PM_HI1 "SR_SNAP_PM_HI1",
    120 SNAP_PM2 "SR_SNAP_PM2",
    121 SNAP_PM_HI2 "SR_SNAP_PM_HI2",
    122 SNAP_PM3 "SR_SNAP_PM3",
    123 SNAP_PM_HI3 "SR_SNAP_PM_HI3",
    124 SNAP_PM4 "SR_SNAP_PM4",
    125 SNAP_PM_HI4 "SR_SNAP_PM_HI4",
    126 SNAP_PM5 "SR_SNAP_PM5",
    127 SNAP_PM_HI5 "SR_SNAP_PM_HI5",
    128 SNAP_PM6 "SR_SNAP_PM6",
    129 SNAP_PM_HI6 "SR_SNAP_PM_HI6",
    130 SNAP_PM7 "SR_SNAP_PM7",
    131 SNAP_PM_HI7 "SR_SNAP_PM_HI7",
    132 VARIABLE_RATE "SR_VARIABLE_RATE",
    133 HIR0X000 "__HIR0X000",
    134 WARPGROUP_INFO "SR_WARPGROUP_INFO",
    135 WARPGROUPID "SR_WARPGROUPID",
    136 CGA_CTA_ID "SR_CgaCtaId",
    137 GPC_LOCAL_CGA_ID "SR_GpcLocalCgaId",
    139 CTA_REG_POOL_SZ "SR_CTARegPoolSz",
    255 ZERO "SRZ",
}

/// Whether a special register holds the same whenever a thread reads it.
#[must_use]
pub const fn is_fixed(number: u8) -> bool {
    matches!(
        number,
        LANEID
            | TID
            | TID_X
            | TID_Y
            | TID_Z
            | CTAID_X
            | CTAID_Y
            | CTAID_Z
            | EQMASK
            | LTMASK
            | LEMASK
            | GTMASK
            | GEMASK
    )
}

/// What special register `number` is called in text, where it has a name of its own.
#[must_use]
pub fn name(number: u8) -> Option<&'static str> {
    NAMES
        .binary_search_by_key(&number, |(number, _)| *number)
        .ok()
        .map(|index| NAMES[index].1)
}

/// The special register called `name`, by its own name or as `SR` and a number.
#[must_use]
pub fn number(text: &str) -> Option<u8> {
    if let Some((number, _)) = NAMES.iter().find(|(_, name)| *name == text) {
        return Some(*number);
    }
    let number: u8 = text.strip_prefix("SR")?.parse().ok()?;
    (name(number).is_none() && text == format!("SR{number}")).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_reads_back_from_its_name() {
        for register in 0..=255 {
            let text = name(register).map_or_else(|| format!("SR{register}"), str::to_owned);
            assert_eq!(number(&text), Some(register), "{text}");
        }
        assert_eq!(number("SR33"), None, "SR_TID.X has a name");
        assert_eq!(number("SR256"), None);
    }
}
