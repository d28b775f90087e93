//! Payloads of attributes, from bytes and to bytes.

use super::{IndirectBranch, MbarrierUse, ParamInfo, Payload, Value};
use crate::bytes::Put;

fn words(bytes: &[u8]) -> Option<Vec<u32>> {
    let (chunks, []) = bytes.as_chunks::<4>() else {
        return None;
    };
    Some(
        chunks
            .iter()
            .map(|chunk| u32::from_le_bytes(*chunk))
            .collect(),
    )
}

fn tuples<const N: usize>(bytes: &[u8]) -> Option<Vec<[u32; N]>> {
    let words = words(bytes)?;
    let (chunks, []) = words.as_chunks::<N>() else {
        return None;
    };
    Some(chunks.to_vec())
}

fn three(bytes: &[u8]) -> Option<[u32; 3]> {
    words(bytes)?.try_into().ok()
}

/// What `bytes` say if they are a `payload`; as they are if they cannot be.
pub(super) fn decode(payload: Payload, bytes: &[u8]) -> Value {
    let value = match payload {
        Payload::Opaque => None,
        Payload::Words => words(bytes).map(Value::Words),
        Payload::Offsets => words(bytes).map(Value::Offsets),
        Payload::OffsetPairs => tuples(bytes).map(Value::OffsetPairs),
        Payload::OffsetTriples => tuples(bytes).map(Value::OffsetTriples),
        Payload::Symbols => words(bytes).map(Value::Symbols),
        Payload::SymbolPairs => tuples(bytes).map(Value::SymbolPairs),
        Payload::FunctionValue => match tuples::<2>(bytes).as_deref() {
            Some([[symbol, value]]) => Some(Value::FunctionValue {
                symbol: *symbol,
                value: *value,
            }),
            _ => None,
        },
        Payload::Dimensions => three(bytes).map(Value::Dimensions),
        Payload::ParamBank => match tuples::<2>(bytes).as_deref() {
            Some([[symbol, place]]) => Some(Value::ParamBank {
                symbol: *symbol,
                offset: *place as u16,
                size: (*place >> 16) as u16,
            }),
            _ => None,
        },
        Payload::Param => three(bytes).map(|words| Value::Param(ParamInfo::from_narrow(words))),
        Payload::WideParam => {
            three(bytes).map(|words| Value::WideParam(ParamInfo::from_wide(words)))
        }
        Payload::IndirectBranches => indirect_branches(bytes).map(Value::IndirectBranches),
        Payload::Mbarriers => tuples(bytes).map(|uses| {
            Value::Mbarriers(
                uses.into_iter()
                    .map(|[offset, register, displacement, packed]| {
                        let [kind_and_stride, flag, uniform_register, reserved] =
                            packed.to_le_bytes();
                        MbarrierUse {
                            offset,
                            register,
                            displacement: displacement as i32,
                            kind_and_stride,
                            flag,
                            uniform_register,
                            reserved,
                        }
                    })
                    .collect(),
            )
        }),
    };
    value.unwrap_or_else(|| Value::Raw(bytes.to_vec()))
}

fn indirect_branches(bytes: &[u8]) -> Option<Vec<IndirectBranch>> {
    let words = words(bytes)?;
    let mut rest = words.as_slice();
    let mut branches = Vec::new();
    while let [offset, kind, count, after @ ..] = rest {
        let (targets, next) = after.split_at_checked(usize::try_from(*count).ok()?)?;
        branches.push(IndirectBranch {
            offset: *offset,
            kind: *kind as u16,
            reserved: (*kind >> 16) as u16,
            targets: targets.to_vec(),
        });
        rest = next;
    }
    rest.is_empty().then_some(branches)
}

/// The payload of a sized value.
pub(super) fn encode(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut put = |words: &[u32]| words.iter().for_each(|word| bytes.put_u32(*word));
    match value {
        Value::Flag(_) | Value::Byte(..) | Value::Half(_) => {}
        Value::Words(words) | Value::Offsets(words) | Value::Symbols(words) => put(words),
        Value::OffsetPairs(pairs) | Value::SymbolPairs(pairs) => put(pairs.as_flattened()),
        Value::OffsetTriples(triples) => put(triples.as_flattened()),
        Value::FunctionValue { symbol, value } => put(&[*symbol, *value]),
        Value::Dimensions(dimensions) => put(dimensions),
        Value::ParamBank {
            symbol,
            offset,
            size,
        } => put(&[*symbol, u32::from(*offset) | u32::from(*size) << 16]),
        Value::Param(param) => put(&param.to_narrow()),
        Value::WideParam(param) => put(&param.to_wide()),
        Value::IndirectBranches(branches) => {
            for branch in branches {
                put(&[
                    branch.offset,
                    u32::from(branch.kind) | u32::from(branch.reserved) << 16,
                    branch.targets.len() as u32,
                ]);
                put(&branch.targets);
            }
        }
        Value::Mbarriers(uses) => {
            for one in uses {
                put(&[
                    one.offset,
                    one.register,
                    one.displacement as u32,
                    u32::from_le_bytes([
                        one.kind_and_stride,
                        one.flag,
                        one.uniform_register,
                        one.reserved,
                    ]),
                ]);
            }
        }
        Value::Raw(raw) => bytes.extend_from_slice(raw),
    }
    bytes
}
