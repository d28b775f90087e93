//! Special registers: most are read as they are, those about clusters are computed.
//!
//! The machine does not know the place of a cluster in the grid, nor that of a block in its cluster. ptxas multiplies the
//! block's number with the reciprocal of the cluster's size, which the driver hands over, and cuts off the fraction; the
//! block's place in the cluster is what is left.

use super::body::{Body, Lowered, unsupported};
use crate::emit::imm;
use orias_ori::Value;
use orias_ori::operation::{AbstractOp, Compare, Ftz, Half, Round, Scalar, SourceType, Special};
use orias_ptx::special::SpecialId as Id;
use orias_ptx::types::Type as PtxType;

/// The registers of one dimension: a block's number, blocks of a cluster, and one divided by them.
const DIMENSIONS: [[Special; 3]; 3] = [
    [
        Special::CtaidX,
        Special::ClusterNctaidX,
        Special::ClusterScaleX,
    ],
    [
        Special::CtaidY,
        Special::ClusterNctaidY,
        Special::ClusterScaleY,
    ],
    [
        Special::CtaidZ,
        Special::ClusterNctaidZ,
        Special::ClusterScaleZ,
    ],
];

/// The counters of the performance monitor.
const MONITOR: [Special; 8] = [
    Special::Pm0,
    Special::Pm1,
    Special::Pm2,
    Special::Pm3,
    Special::Pm4,
    Special::Pm5,
    Special::Pm6,
    Special::Pm7,
];

/// Ori's special register for a row of PTX's, a number in it and a component, if it is read as it is.
fn register(id: Id, number: u8, component: u8) -> Option<Special> {
    let component = usize::from(component);
    Some(match id {
        Id::Tid => *[Special::TidX, Special::TidY, Special::TidZ].get(component)?,
        Id::Ntid => *[Special::NtidX, Special::NtidY, Special::NtidZ].get(component)?,
        Id::Ctaid => DIMENSIONS.get(component)?[0],
        Id::Nctaid => *[Special::NctaidX, Special::NctaidY, Special::NctaidZ].get(component)?,
        Id::ClusterNctaid => DIMENSIONS.get(component)?[1],
        Id::Nclusterid => *[
            Special::NclusterIdX,
            Special::NclusterIdY,
            Special::NclusterIdZ,
        ]
        .get(component)?,
        Id::Clusterid | Id::ClusterCtaid | Id::Envreg => return None,
        Id::Laneid => Special::LaneId,
        Id::Warpid => Special::WarpId,
        Id::Nwarpid => Special::NwarpId,
        Id::Smid => Special::SmId,
        Id::Nsmid => Special::NsmId,
        Id::Gridid => Special::GridId,
        Id::IsExplicitCluster => Special::IsExplicitCluster,
        Id::ClusterCtarank => Special::ClusterCtarank,
        Id::ClusterNctarank => Special::ClusterNctarank,
        Id::LanemaskEq => Special::LanemaskEq,
        Id::LanemaskLe => Special::LanemaskLe,
        Id::LanemaskLt => Special::LanemaskLt,
        Id::LanemaskGe => Special::LanemaskGe,
        Id::LanemaskGt => Special::LanemaskGt,
        Id::Clock => Special::Clock,
        Id::ClockHi => Special::ClockHi,
        Id::Clock64 => Special::Clock64,
        Id::Pm | Id::PmWide => *MONITOR.get(usize::from(number))?,
        Id::Globaltimer => Special::GlobalTimer,
        Id::GlobaltimerLo => Special::GlobalTimerLo,
        Id::GlobaltimerHi => Special::GlobalTimerHi,
        Id::ReservedSmemOffsetBegin => Special::ReservedSmemBegin,
        Id::ReservedSmemOffsetEnd => Special::ReservedSmemEnd,
        Id::ReservedSmemOffsetCap => Special::ReservedSmemCap,
        Id::ReservedSmemOffset if number == 1 => Special::ReservedSmemOffset1,
        Id::ReservedSmemOffset => return None,
        Id::TotalSmemSize => Special::TotalSmemSize,
        Id::AggrSmemSize => Special::AggrSmemSize,
        Id::DynamicSmemSize => Special::DynamicSmemSize,
        Id::CurrentGraphExec => Special::CurrentGraphExec,
    })
}

impl Body<'_, '_> {
    /// The value of a special register, 32 or 64 bits or a predicate.
    pub fn special(
        &mut self,
        special: orias_ptx::special::Special,
        component: u8,
    ) -> Lowered<Value> {
        let row = special.register();
        match (row.id, component) {
            (Id::Envreg, _) => {
                let number = imm(u64::from(special.number()));
                return self.with(|emit| emit.value(AbstractOp::EnvReg, (), &[number]));
            }
            // The fourth component of a vector is zero.
            (_, 3) => return self.with(|emit| emit.as_value(Scalar::B32, imm(0))),
            (Id::Clusterid, 0..=2) => return self.cluster(usize::from(component)),
            (Id::ClusterCtaid, 0..=2) => return self.in_cluster(usize::from(component)),
            (Id::ReservedSmemOffset, _) if special.number() == 0 => {
                return self.with(|emit| emit.as_value(Scalar::B32, imm(0)));
            }
            _ => {}
        }
        let Some(register) = register(row.id, special.number(), component) else {
            return unsupported(format!("special register {special}"));
        };
        let op = match row.ty.bits() {
            64 => AbstractOp::Sreg64,
            _ => AbstractOp::Sreg,
        };
        self.with(|emit| {
            let value = emit.value(op, (register,), &[]);
            match row.ty {
                PtxType::Pred => {
                    let set = emit.setp(Compare::Eq, Scalar::B32, value.into(), imm(1));
                    set.as_value().unwrap_or(value)
                }
                _ => value,
            }
        })
    }

    /// The place of the block's cluster in the grid, along one dimension.
    fn cluster(&mut self, dimension: usize) -> Lowered<Value> {
        let [block, _, scale] = DIMENSIONS[dimension];
        self.with(|emit| {
            let block = emit.op(AbstractOp::Sreg, (block,), &[]);
            let scale = emit.op(AbstractOp::Sreg, (scale,), &[]);
            let to_single = (Round::Rn, Scalar::F32, SourceType::U32);
            let block = emit.op(AbstractOp::Cvt, to_single, &[block]);
            let mods = (Round::Rn, Ftz::Keep, Scalar::F32);
            let cluster = emit.op(AbstractOp::Fmul, mods, &[block, scale]);
            let to_integer = (Round::Rzi, Scalar::U32, SourceType::F32);
            emit.value(AbstractOp::Cvt, to_integer, &[cluster])
        })
    }

    /// The place of the block in its cluster, along one dimension.
    fn in_cluster(&mut self, dimension: usize) -> Lowered<Value> {
        let [block, size, _] = DIMENSIONS[dimension];
        let cluster = self.cluster(dimension)?;
        self.with(|emit| {
            let block = emit.op(AbstractOp::Sreg, (block,), &[]);
            let size = emit.op(AbstractOp::Sreg, (size,), &[]);
            let before = emit.op(AbstractOp::Neg, (Scalar::S32,), &[cluster.into()]);
            let mods = (Half::Lo, Scalar::U32);
            emit.value(AbstractOp::Mad, mods, &[size, before, block])
        })
    }
}
