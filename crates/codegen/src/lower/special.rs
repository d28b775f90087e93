//! Special registers: most are read as they are, those about clusters are computed.
//!
//! The machine does not know the place of a cluster in the grid, nor that of a block in its cluster. ptxas multiplies the
//! block's number with the reciprocal of the cluster's size, which the driver hands over, and cuts off the fraction; the
//! block's place in the cluster is what is left.

use super::body::{Body, Lowered, unsupported};
use crate::emit::imm;
use orias_ori::Value;
use orias_ori::operation::{
    AbstractOp, Compare, Ftz, Half, Modifier as _, Round, Scalar, SourceType, Special,
};
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

impl Body<'_, '_> {
    /// The value of a special register, 32 or 64 bits or a predicate.
    pub fn special(
        &mut self,
        special: orias_ptx::special::Special,
        component: u8,
    ) -> Lowered<Value> {
        let row = special.register();
        let name = match (row.id, component) {
            (Id::Envreg, _) => {
                let number = imm(u64::from(special.number()));
                return self.with(|emit| emit.value(AbstractOp::EnvReg, (), &[number]));
            }
            // The fourth component of a vector is zero.
            (_, 3) => return self.with(|emit| emit.as_value(Scalar::B32, imm(0))),
            (Id::Clusterid, 0..=2) => return self.cluster(usize::from(component)),
            (Id::ClusterCtaid, 0..=2) => return self.in_cluster(usize::from(component)),
            (_, 0..=2) => format!("{}_{}", &row.name[1..], ["x", "y", "z"][component as usize]),
            (Id::Pm | Id::PmWide, _) => format!("pm{}", special.number()),
            (Id::ReservedSmemOffset, _) => match special.number() {
                0 => return self.with(|emit| emit.as_value(Scalar::B32, imm(0))),
                number => format!("reserved_smem_offset_{number}"),
            },
            (Id::ReservedSmemOffsetBegin, _) => "reserved_smem_begin".to_owned(),
            (Id::ReservedSmemOffsetEnd, _) => "reserved_smem_end".to_owned(),
            (Id::ReservedSmemOffsetCap, _) => "reserved_smem_cap".to_owned(),
            _ => row.name[1..].to_owned(),
        };
        let Some(&register) = Special::ALL.iter().find(|it| it.to_string() == name) else {
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
