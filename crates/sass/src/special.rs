//! Special registers: what S2R, CS2R and S2UR read.

/// The numbers that have a name of their own; any other is called `SR` and its number.
const NAMES: &[(u8, &str)] = &[
    (0, "SR_LANEID"),
    (1, "SR_CLOCK"),
    (2, "SR_VIRTCFG"),
    (3, "SR_VIRTID"),
    (15, "SR_ORDERING_TICKET"),
    (16, "SR_PRIM_TYPE"),
    (17, "SR_INVOCATION_ID"),
    (18, "SR_Y_DIRECTION"),
    (19, "SR_THREAD_KILL"),
    (20, "SM_SHADER_TYPE"),
    (21, "SR_DIRECTCBEWRITEADDRESSLOW"),
    (22, "SR_DIRECTCBEWRITEADDRESSHIGH"),
    (23, "SR_DIRECTCBEWRITEENABLED"),
    (24, "SR_SW_SCRATCH"),
    (25, "SR_MACHINE_ID_1"),
    (26, "SR_MACHINE_ID_2"),
    (27, "SR_MACHINE_ID_3"),
    (28, "SR_AFFINITY"),
    (29, "SR_INVOCATION_INFO"),
    (30, "SR_WSCALEFACTOR_XY"),
    (31, "SR_WSCALEFACTOR_Z"),
    (32, "SR_TID"),
    (33, "SR_TID.X"),
    (34, "SR_TID.Y"),
    (35, "SR_TID.Z"),
    (37, "SR_CTAID.X"),
    (38, "SR_CTAID.Y"),
    (39, "SR_CTAID.Z"),
    (40, "SR_NTID"),
    (41, "SR_CirQueueIncrMinusOne"),
    (42, "SR_NLATC"),
    (44, "SR_SM_SPA_VERSION"),
    (45, "SR_MULTIPASSSHADERINFO"),
    (46, "SR_LWINHI"),
    (47, "SR_SWINHI"),
    (48, "SR_SWINLO"),
    (49, "SR_SWINSZ"),
    (50, "SR_SMEMSZ"),
    (51, "SR_SMEMBANKS"),
    (52, "SR_LWINLO"),
    (53, "SR_LWINSZ"),
    (54, "SR_LMEMLOSZ"),
    (55, "SR_LMEMHIOFF"),
    (56, "SR_EQMASK"),
    (57, "SR_LTMASK"),
    (58, "SR_LEMASK"),
    (59, "SR_GTMASK"),
    (60, "SR_GEMASK"),
    (61, "SR_REGALLOC"),
    (62, "SR_BARRIERALLOC"),
    (64, "SR_GLOBALERRORSTATUS"),
    (65, "SR_CGAERRORSTATUS"),
    (66, "SR_WARPERRORSTATUS"),
    (67, "SR_VIRTUALSMID"),
    (68, "SR_VIRTUALENGINEID"),
    (80, "SR_CLOCKLO"),
    (81, "SR_CLOCKHI"),
    (82, "SR_GLOBALTIMERLO"),
    (83, "SR_GLOBALTIMERHI"),
    (84, "SR_ESR_PC"),
    (85, "SR_ESR_PC_HI"),
    (96, "SR_HWTASKID"),
    (97, "SR_CIRCULARQUEUEENTRYINDEX"),
    (98, "SR_CIRCULARQUEUEENTRYADDRESSLOW"),
    (99, "SR_CIRCULARQUEUEENTRYADDRESSHIGH"),
    (100, "SR_PM0"),
    (101, "SR_PM_HI0"),
    (102, "SR_PM1"),
    (103, "SR_PM_HI1"),
    (104, "SR_PM2"),
    (105, "SR_PM_HI2"),
    (106, "SR_PM3"),
    (107, "SR_PM_HI3"),
    (108, "SR_PM4"),
    (109, "SR_PM_HI4"),
    (110, "SR_PM5"),
    (111, "SR_PM_HI5"),
    (112, "SR_PM6"),
    (113, "SR_PM_HI6"),
    (114, "SR_PM7"),
    (115, "SR_PM_HI7"),
    (116, "SR_SNAP_PM0"),
    (117, "SR_SNAP_PM_HI0"),
    (118, "SR_SNAP_PM1"),
    (119, "SR_SNAP_PM_HI1"),
    (120, "SR_SNAP_PM2"),
    (121, "SR_SNAP_PM_HI2"),
    (122, "SR_SNAP_PM3"),
    (123, "SR_SNAP_PM_HI3"),
    (124, "SR_SNAP_PM4"),
    (125, "SR_SNAP_PM_HI4"),
    (126, "SR_SNAP_PM5"),
    (127, "SR_SNAP_PM_HI5"),
    (128, "SR_SNAP_PM6"),
    (129, "SR_SNAP_PM_HI6"),
    (130, "SR_SNAP_PM7"),
    (131, "SR_SNAP_PM_HI7"),
    (132, "SR_VARIABLE_RATE"),
    (133, "__HIR0X000"),
    (134, "SR_WARPGROUP_INFO"),
    (135, "SR_WARPGROUPID"),
    (136, "SR_CgaCtaId"),
    (137, "SR_GpcLocalCgaId"),
    (139, "SR_CTARegPoolSz"),
    (255, "SRZ"),
];

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
