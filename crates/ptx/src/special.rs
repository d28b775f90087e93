//! Special registers: what the program may ask the machine, by name.

use crate::grammar::{Gate, GateScope};
use crate::types::Type;

/// One special register, or a numbered row of them.
#[derive(Debug)]
pub struct SpecialRegister {
    /// Which row it is.
    pub id: SpecialId,
    /// The name, with its percent sign; a number follows it when `count` is not 0.
    pub name: &'static str,
    /// How many there are, numbered from 0; 0 for a register without number.
    pub count: u8,
    /// What follows the number in the name.
    pub tail: &'static str,
    /// The type of the register, or of each component.
    pub ty: Type,
    /// Whether it has components `.x`, `.y`, `.z`, `.w`.
    pub vector: bool,
    /// Where it exists.
    pub since: Gate,
}

const fn row(name: &'static str, ty: Type, vector: bool, ptx: u16, sm: u16) -> SpecialRegister {
    SpecialRegister {
        // The table puts the row's own here.
        id: SpecialId::Tid,
        name,
        count: 0,
        tail: "",
        ty,
        vector,
        since: Gate {
            ptx,
            sm,
            scope: GateScope::Onwards,
        },
    }
}

const fn numbered(
    name: &'static str,
    count: u8,
    tail: &'static str,
    ty: Type,
    ptx: u16,
    sm: u16,
) -> SpecialRegister {
    SpecialRegister {
        count,
        tail,
        ..row(name, ty, false, ptx, sm)
    }
}

/// From the rows: the table, and an identity for each row, so that whoever tells registers apart cannot misspell one or forget one.
macro_rules! registers {
    ($($id:ident => $row:expr,)*) => {
        /// Which row of the table a register is of.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs, reason = "each variant is what it is spelt like")]
        pub enum SpecialId {
            $($id,)*
        }

        /// Every special register of PTX 9.0.
        pub static SPECIAL_REGISTERS: &[SpecialRegister] = &[$(SpecialRegister {
            id: SpecialId::$id,
            ..$row
        },)*];
    };
}

registers! {
    Tid => row("%tid", Type::U32, true, 10, 0),
    Ntid => row("%ntid", Type::U32, true, 10, 0),
    Laneid => row("%laneid", Type::U32, false, 13, 0),
    Warpid => row("%warpid", Type::U32, false, 13, 0),
    Nwarpid => row("%nwarpid", Type::U32, false, 20, 20),
    Ctaid => row("%ctaid", Type::U32, true, 10, 0),
    Nctaid => row("%nctaid", Type::U32, true, 10, 0),
    Smid => row("%smid", Type::U32, false, 13, 0),
    Nsmid => row("%nsmid", Type::U32, false, 20, 20),
    Gridid => row("%gridid", Type::U64, false, 10, 0),
    IsExplicitCluster => row("%is_explicit_cluster", Type::Pred, false, 78, 90),
    Clusterid => row("%clusterid", Type::U32, true, 78, 90),
    Nclusterid => row("%nclusterid", Type::U32, true, 78, 90),
    ClusterCtaid => row("%cluster_ctaid", Type::U32, true, 78, 90),
    ClusterNctaid => row("%cluster_nctaid", Type::U32, true, 78, 90),
    ClusterCtarank => row("%cluster_ctarank", Type::U32, false, 78, 90),
    ClusterNctarank => row("%cluster_nctarank", Type::U32, false, 78, 90),
    LanemaskEq => row("%lanemask_eq", Type::U32, false, 20, 20),
    LanemaskLe => row("%lanemask_le", Type::U32, false, 20, 20),
    LanemaskLt => row("%lanemask_lt", Type::U32, false, 20, 20),
    LanemaskGe => row("%lanemask_ge", Type::U32, false, 20, 20),
    LanemaskGt => row("%lanemask_gt", Type::U32, false, 20, 20),
    Clock => row("%clock", Type::U32, false, 10, 0),
    ClockHi => row("%clock_hi", Type::U32, false, 50, 20),
    Clock64 => row("%clock64", Type::U64, false, 20, 20),
    Pm => numbered("%pm", 8, "", Type::U32, 13, 0),
    PmWide => numbered("%pm", 8, "_64", Type::U64, 40, 50),
    Envreg => numbered("%envreg", 32, "", Type::B32, 21, 0),
    Globaltimer => row("%globaltimer", Type::U64, false, 31, 30),
    GlobaltimerLo => row("%globaltimer_lo", Type::U32, false, 31, 30),
    GlobaltimerHi => row("%globaltimer_hi", Type::U32, false, 31, 30),
    ReservedSmemOffsetBegin => row("%reserved_smem_offset_begin", Type::B32, false, 76, 80),
    ReservedSmemOffsetEnd => row("%reserved_smem_offset_end", Type::B32, false, 76, 80),
    ReservedSmemOffsetCap => row("%reserved_smem_offset_cap", Type::B32, false, 76, 80),
    ReservedSmemOffset => numbered("%reserved_smem_offset_", 2, "", Type::B32, 76, 80),
    TotalSmemSize => row("%total_smem_size", Type::U32, false, 41, 20),
    AggrSmemSize => row("%aggr_smem_size", Type::U32, false, 81, 90),
    DynamicSmemSize => row("%dynamic_smem_size", Type::U32, false, 41, 20),
    CurrentGraphExec => row("%current_graph_exec", Type::U64, false, 80, 50),
}

/// A special register as written: its row and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Special {
    row: u8,
    number: u8,
}

impl Special {
    /// The register of that name (`%tid`, `%envreg3`), without component.
    pub fn from_name(name: &[u8]) -> Option<Special> {
        SPECIAL_REGISTERS.iter().enumerate().find_map(|(at, it)| {
            let rest = name.strip_prefix(it.name.as_bytes())?;
            let number = if it.count == 0 {
                rest.is_empty().then_some(0)?
            } else {
                let digits = std::str::from_utf8(rest.strip_suffix(it.tail.as_bytes())?).ok()?;
                let canonical = !digits.is_empty()
                    && (digits == "0" || !digits.starts_with('0'))
                    && digits.bytes().all(|byte| byte.is_ascii_digit());
                let number: u8 = canonical.then(|| digits.parse().ok())??;
                (number < it.count).then_some(number)?
            };
            Some(Special {
                row: at as u8,
                number,
            })
        })
    }

    /// The table's row.
    pub fn register(self) -> &'static SpecialRegister {
        &SPECIAL_REGISTERS[self.row as usize]
    }

    /// The number of a numbered register.
    pub const fn number(self) -> u8 {
        self.number
    }
}

impl std::fmt::Display for Special {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let row = self.register();
        f.write_str(row.name)?;
        if row.count > 0 {
            write!(f, "{}{}", self.number, row.tail)?;
        }
        Ok(())
    }
}
