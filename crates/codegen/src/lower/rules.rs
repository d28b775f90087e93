//! For each PTX instruction, how it is lowered.
//!
//! [`rule`] is the table. Most instructions have an abstract operation of the same meaning: [`Rule::Same`] makes it, with
//! the modifiers that carry over by name, the results and operands in PTX's order, and the guard. Instructions that PTX
//! has for integers and floats alike are two operations ([`Rule::Number`]). The others have a function of their own.
//! An instruction without a rule is not supported yet, and named in the error.

use super::body::{Body, Destination, Lowered, Statement, unsupported};
use super::{
    arithmetic, atomics, bulk, calls, control, convert, matrix, mbarrier, memory, movement,
    reference, surface, sync, tensormap, texture, video, warpgroup,
};
use orias_ori::operation::AbstractOp as A;
use orias_ori::{Operand, Type};
use orias_ptx::grammar::{Access, Op};
use orias_ptx::types::{Type as PtxType, TypeClass};

/// How an instruction is lowered.
#[derive(Clone, Copy)]
pub(super) enum Rule {
    /// It becomes this operation.
    Same(A),
    /// It becomes the first for integers, the second for floats.
    Number(A, A),
    /// The same on untyped bits: the type's size alone matters.
    Bits(A),
    /// A function writes what it becomes.
    With(fn(&mut Body<'_, '_>, &Statement<'_>) -> Lowered),
}

/// The rule for an instruction, if there is one.
#[rustfmt::skip]
fn rule(op: Op) -> Option<Rule> {
    use Rule::{Bits, Number, Same, With};
    Some(match op {
        // Integers and floats.
        Op::Add | Op::Sub | Op::Addc | Op::Subc => With(arithmetic::add_or_subtract),
        Op::Abs => Number(A::Abs, A::Fabs),
        Op::Neg => Number(A::Neg, A::Fneg),
        Op::Min | Op::Max => With(arithmetic::minimum_or_maximum),
        Op::Div => With(arithmetic::divide),
        Op::DivFull => With(arithmetic::divide),
        Op::Rem => Same(A::Rem),
        Op::Sad => Same(A::Sad),
        Op::Mul => Same(A::Fmul),
        Op::Mad | Op::Fma => With(arithmetic::fused),
        Op::MulLo | Op::MulHi | Op::MulWide | Op::Mul24Lo | Op::Mul24Hi
            | Op::MadLo | Op::MadHi | Op::MadWide | Op::Mad24Lo | Op::Mad24Hi
            | Op::MadcLo | Op::MadcHi => With(arithmetic::multiply),
        Op::Popc => Same(A::Popc),
        Op::Clz => Same(A::Clz),
        Op::Bfind => With(arithmetic::find_bit),
        Op::Fns => Same(A::Fns),
        Op::Brev => Same(A::Brev),
        Op::Bfe => Same(A::Bfe),
        Op::Bfi => Same(A::Bfi),
        Op::Szext => Same(A::Szext),
        Op::Bmsk => Same(A::Bmsk),
        Op::Dp4a => Same(A::Dp4a),
        Op::Dp2aLo | Op::Dp2aHi => With(arithmetic::dot_product),
        Op::Testp => Same(A::Testp),
        Op::Copysign => Same(A::Copysign),
        Op::Rcp => Same(A::Rcp),
        Op::Sqrt => Same(A::Sqrt),
        Op::Rsqrt => Same(A::Rsqrt),
        Op::Sin => Same(A::Sin),
        Op::Cos => Same(A::Cos),
        Op::Lg2 => Same(A::Lg2),
        Op::Ex2 => Same(A::Ex2),
        Op::Tanh => Same(A::Tanh),
        // Comparison and choice.
        Op::Setp => With(arithmetic::set_predicate),
        Op::Set => Same(A::Set),
        Op::Selp => Bits(A::Selp),
        Op::Slct => With(arithmetic::select_by_sign),
        // Bits.
        Op::And => Same(A::And),
        Op::Or => Same(A::Or),
        Op::Xor => Same(A::Xor),
        Op::Not => Same(A::Not),
        Op::Cnot => Same(A::Cnot),
        Op::Lop3 => With(arithmetic::logic3),
        Op::Shl => Same(A::Shl),
        Op::Shr => Same(A::Shr),
        Op::ShfL | Op::ShfR => With(arithmetic::funnel_shift),
        Op::Prmt => Same(A::Prmt),
        // Conversion and movement.
        Op::Cvt => With(convert::convert),
        Op::CvtPack => With(convert::pack),
        Op::Mov => With(movement::mov),
        Op::Cvta | Op::CvtaTo => With(movement::convert_address),
        Op::Isspacep => With(movement::is_in_space),
        Op::Mapa | Op::Getctarank => With(movement::cluster_address),
        Op::Shfl => With(sync::shuffle),
        // Memory.
        Op::Ld => With(memory::load),
        Op::Ldu => With(memory::load),
        Op::St => With(memory::store),
        Op::Prefetch | Op::Prefetchu => With(memory::prefetch),
        Op::Discard | Op::Applypriority => With(memory::line),
        Op::CreatepolicyCvt | Op::CreatepolicyFractional | Op::CreatepolicyRange => With(memory::create_policy),
        Op::Alloca => With(memory::alloca),
        Op::Stacksave => With(memory::stack_save),
        Op::Stackrestore => With(memory::stack_restore),
        Op::Atom | Op::Red | Op::MultimemRed => With(atomics::update),
        Op::MultimemLdReduce => With(memory::load_copies),
        Op::MultimemSt => With(memory::store),
        Op::CpAsync => With(memory::copy_async),
        Op::CpAsyncCommitGroup => Same(A::CpAsyncCommit),
        Op::CpAsyncWaitGroup => Same(A::CpAsyncWait),
        Op::CpAsyncWaitAll => Same(A::CpAsyncWaitAll),
        Op::CpAsyncBulk => With(bulk::copy),
        Op::CpReduceAsyncBulk => With(bulk::reduce),
        Op::CpAsyncBulkPrefetch => With(bulk::prefetch),
        Op::CpAsyncBulkCommitGroup => Same(A::BulkCommit),
        Op::CpAsyncBulkWaitGroup => With(bulk::wait),
        Op::CpAsyncBulkTensor => With(bulk::tensor_copy),
        Op::CpReduceAsyncBulkTensor => With(bulk::tensor_reduce),
        Op::CpAsyncBulkPrefetchTensor => With(bulk::tensor_prefetch),
        Op::TensormapReplace => With(tensormap::replace),
        Op::TensormapCpFenceproxy => With(tensormap::copy),
        Op::Ldmatrix | Op::Stmatrix => With(memory::matrix),
        Op::Movmatrix => With(memory::move_matrix),
        Op::Mma => With(matrix::multiply),
        Op::WmmaLoadA | Op::WmmaLoadB | Op::WmmaLoadC => With(matrix::fragments::load),
        Op::WmmaStoreD => With(matrix::fragments::store),
        Op::WmmaMma => With(matrix::fragments::multiply),
        Op::WgmmaMmaAsync => With(warpgroup::multiply),
        Op::WgmmaFence => Same(A::WgmmaFence),
        Op::WgmmaCommitGroup => Same(A::WgmmaCommit),
        Op::WgmmaWaitGroup => With(warpgroup::wait),
        // Textures and surfaces.
        Op::Tex | Op::TexBase | Op::TexLevel | Op::TexGrad => With(texture::sample),
        Op::Tld4 => With(texture::gather),
        Op::Txq | Op::TxqLevel | Op::Suq => With(texture::query),
        Op::Istypep => With(reference::is_kind),
        Op::SuldB => With(surface::load),
        Op::SustB | Op::SustP => With(surface::store),
        Op::SuredB | Op::SuredP => With(surface::update),
        // Control.
        Op::Bra => With(control::branch),
        Op::BrxIdx => With(control::branch_indexed),
        Op::Ret => With(control::ret),
        Op::Exit => With(control::exit),
        Op::Trap => With(control::trap),
        Op::Brkpt => Same(A::Brkpt),
        Op::Call => With(calls::call),
        Op::Nanosleep => Same(A::Nanosleep),
        Op::Pmevent => With(control::performance_event),
        Op::PmeventMask => Same(A::PmEvent),
        Op::Setmaxnreg => With(control::set_max_registers),
        // Synchronisation.
        Op::BarSync | Op::BarCtaSync | Op::BarrierSync | Op::BarrierCtaSync
            | Op::BarArrive | Op::BarCtaArrive | Op::BarrierArrive | Op::BarrierCtaArrive
            | Op::BarRed | Op::BarCtaRed | Op::BarrierRed | Op::BarrierCtaRed
            | Op::Barrier | Op::BarrierCta => With(sync::barrier),
        Op::BarWarpSync => Same(A::BarWarp),
        Op::Membar | Op::Fence => With(sync::fence),
        Op::MembarProxy | Op::FenceProxy => With(sync::fence_proxy),
        Op::MbarrierInit | Op::MbarrierInval | Op::MbarrierExpectTx | Op::MbarrierCompleteTx => With(mbarrier::adjust),
        Op::MbarrierArrive | Op::MbarrierArriveDrop | Op::MbarrierArriveExpectTx
            | Op::MbarrierArriveDropExpectTx => With(mbarrier::arrive),
        Op::MbarrierTestWait | Op::MbarrierTestWaitParity | Op::MbarrierTryWait
            | Op::MbarrierTryWaitParity => With(mbarrier::wait),
        Op::MbarrierPendingCount => Same(A::MbarrierPending),
        Op::CpAsyncMbarrierArrive => With(mbarrier::arrive_after_copies),
        Op::BarrierClusterArrive | Op::BarrierClusterWait => With(mbarrier::cluster),
        Op::StAsync | Op::RedAsync => With(mbarrier::telling),
        Op::Vote => With(sync::vote),
        Op::Match => With(sync::match_lanes),
        Op::Activemask => Same(A::ActiveMask),
        Op::Redux => Same(A::Redux),
        Op::Elect => With(sync::elect),
        Op::Griddepcontrol => With(sync::grid_dependency),
        // Video.
        Op::Vadd | Op::Vsub | Op::Vabsdiff | Op::Vmin | Op::Vmax | Op::Vshl | Op::Vshr
            | Op::Vset => With(video::scalar),
        Op::Vmad => With(video::multiply_add),
        Op::Vadd2 | Op::Vsub2 | Op::Vavrg2 | Op::Vabsdiff2 | Op::Vmin2 | Op::Vmax2 | Op::Vset2
            | Op::Vadd4 | Op::Vsub4 | Op::Vavrg4 | Op::Vabsdiff4 | Op::Vmin4 | Op::Vmax4
            | Op::Vset4 => With(video::elements),
        _ => return None,
    })
}

/// Lowers one instruction.
pub(super) fn apply(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    match rule(statement.op) {
        Some(Rule::Same(op)) => same(body, statement, op),
        Some(Rule::Number(integer, float)) => {
            let op = if is_float(statement) { float } else { integer };
            same(body, statement, op)
        }
        Some(Rule::Bits(op)) => untyped(body, statement, op),
        Some(Rule::With(lower)) => lower(body, statement),
        None => unsupported(""),
    }
}

/// Whether the instruction works on floats.
pub(super) fn is_float(statement: &Statement<'_>) -> bool {
    statement.form.types().next().is_some_and(|ty| {
        ty.class() == TypeClass::Float || matches!(ty, PtxType::Bf16 | PtxType::Bf16x2)
    })
}

/// The instruction as `op`: results and operands in order, modifiers by name.
pub(super) fn same(body: &mut Body<'_, '_>, statement: &Statement<'_>, op: A) -> Lowered {
    let mods = body.carried(statement, op)?;
    let (destinations, operands) = places(body, statement)?;
    body.assign(op, mods, &destinations, &operands)
}

/// The same where only the size of the type matters.
fn untyped(body: &mut Body<'_, '_>, statement: &Statement<'_>, op: A) -> Lowered {
    let mods = body.carried(statement, op)?;
    let width = statement.form.types().next().map_or(32, PtxType::bits);
    let mods = super::modifiers::set(op, mods, super::operands::bits(width));
    let (destinations, operands) = places(body, statement)?;
    body.assign(op, mods, &destinations, &operands)
}

/// Results and operands of an instruction whose places are all values.
pub(super) fn places(
    body: &mut Body<'_, '_>,
    statement: &Statement<'_>,
) -> Lowered<(Vec<Destination>, Vec<Operand>)> {
    let mut destinations = Vec::new();
    let mut operands = Vec::new();
    for (index, pattern) in statement.patterns.iter().enumerate() {
        if pattern.access == Access::Write {
            destinations.push(match body.destination(statement, index)? {
                Destination::None => Destination::Unused(result_type(statement, index)),
                other => other,
            });
        } else {
            operands.push(body.source(statement, index)?);
        }
    }
    Ok((destinations, operands))
}

/// The type of the value a result has.
pub(super) fn result_type(statement: &Statement<'_>, index: usize) -> Type {
    use orias_ptx::opcode::PatternKind;
    match statement.patterns.get(index).map(|pattern| &pattern.kind) {
        Some(PatternKind::Value(value) | PatternKind::Vector(_, _, value)) => {
            super::body::register_type(value.ty)
        }
        _ => Type::R,
    }
}
