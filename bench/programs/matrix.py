"""Matrix products and attention on the tensor cores: mma, and wgmma where the tiles are large enough."""

import torch
import triton
import triton.language as tl

from . import program


@triton.jit
def matmul(a_ptr, b_ptr, bias_ptr, c_ptr, m, n, k, EPILOGUE: tl.constexpr, EVEN: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    if c_ptr.dtype.element_ty == tl.int32:
        total = tl.zeros((BM, BN), tl.int32)
    else:
        total = tl.zeros((BM, BN), tl.float32)
    a_at = a_ptr + rows[:, None] * k + inner[None, :]
    b_at = b_ptr + inner[:, None] * n + columns[None, :]
    for start in range(0, k, BK):
        if EVEN:
            a, b = tl.load(a_at), tl.load(b_at)
        else:
            a = tl.load(a_at, mask=inner[None, :] < k - start, other=0.0)
            b = tl.load(b_at, mask=inner[:, None] < k - start, other=0.0)
        total = tl.dot(a, b, total, out_dtype=total.dtype)
        a_at += BK
        b_at += BK * n
    if EPILOGUE == "gelu":
        total += tl.load(bias_ptr + columns)[None, :]
        total = 0.5 * total * (1.0 + tl.erf(total * 0.7071067811865476))
    tl.store(c_ptr + rows[:, None] * n + columns[None, :], total.to(c_ptr.dtype.element_ty))


def _matmul(data, dtype, out, tile=(128, 128, 64), size=(1024, 1024, 1000), epilogue="none", num_warps=4, num_stages=3):
    m, n, k = size
    if dtype == torch.int8:
        a, b = data.bits(m, k, dtype=torch.int8), data.bits(k, n, dtype=torch.int8)
    else:
        a, b = data.normal(m, k, scale=0.5).to(dtype), data.normal(k, n, scale=0.5).to(dtype)
    bias, c = data.normal(n), data.empty(m, n, dtype=out)
    bm, bn, bk = tile

    def run():
        matmul[(m // bm, n // bn)](
            a, b, bias, c, m, n, k, EPILOGUE=epilogue, EVEN=k % bk == 0, BM=bm, BN=bn, BK=bk, num_warps=num_warps, num_stages=num_stages
        )
        return (c,)

    return run


_half, _brain, _single = torch.float16, torch.bfloat16, torch.float32
for _name, _arguments in {
    "matmul_f16_wgmma": dict(dtype=_half, out=_half),
    "matmul_f16_wgmma_eight_warps": dict(dtype=_half, out=_half, tile=(128, 256, 64), num_warps=8),
    "matmul_bf16_wgmma": dict(dtype=_brain, out=_brain),
    "matmul_bf16_gelu": dict(dtype=_brain, out=_brain, epilogue="gelu"),
    "matmul_tf32_wgmma": dict(dtype=_single, out=_single, tile=(64, 64, 32)),
    "matmul_int8": dict(dtype=torch.int8, out=torch.int32, tile=(64, 64, 64), size=(1024, 1024, 1024)),
    "matmul_fp8": dict(dtype=torch.float8_e4m3fn, out=_single, tile=(64, 64, 64), size=(1024, 1024, 1024)),
    "matmul_f16_mma": dict(dtype=_half, out=_half, tile=(32, 64, 32), num_warps=2),
    "matmul_bf16_mma_one_warp": dict(dtype=_brain, out=_single, tile=(16, 32, 32), num_warps=1, size=(512, 512, 512)),
    "matmul_f16_no_pipeline": dict(dtype=_half, out=_single, tile=(64, 64, 32), num_stages=1),
}.items():
    program("matrix", name=_name, **_arguments)(_matmul)


@triton.jit
def attention(q_ptr, k_ptr, v_ptr, o_ptr, length, scale, CAUSAL: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    head = tl.program_id(1)
    base = head * length * D
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + base + rows[:, None] * D + d[None, :])
    top = tl.full((BM,), float("-inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    out = tl.zeros((BM, D), tl.float32)
    end = length
    if CAUSAL:
        end = (tl.program_id(0) + 1) * BM
    for start in range(0, end, BN):
        columns = start + tl.arange(0, BN)
        k = tl.load(k_ptr + base + columns[None, :] * D + d[:, None])
        scores = tl.dot(q, k) * scale
        if CAUSAL:
            scores = tl.where(rows[:, None] >= columns[None, :], scores, float("-inf"))
        new = tl.maximum(top, tl.max(scores, axis=1))
        p = tl.exp2(scores - new[:, None])
        shrink = tl.exp2(top - new)
        total = total * shrink + tl.sum(p, axis=1)
        out = out * shrink[:, None]
        v = tl.load(v_ptr + base + columns[:, None] * D + d[None, :])
        out = tl.dot(p.to(v.dtype), v, out)
        top = new
    out = out / total[:, None]
    tl.store(o_ptr + base + rows[:, None] * D + d[None, :], out.to(o_ptr.dtype.element_ty))


def _attention(data, dtype, causal, bm, bn, d=64, num_warps=4):
    heads, length = 16, 1024
    q, k, v = (data.normal(heads, length, d, dtype=dtype) for _ in range(3))
    o = data.like(q)

    def run():
        attention[(length // bm, heads)](
            q, k, v, o, length, 1.44269504 / d**0.5, CAUSAL=causal, BM=bm, BN=bn, D=d, num_warps=num_warps, num_stages=2
        )
        return (o,)

    return run


program("matrix", name="attention_f16", dtype=_half, causal=False, bm=128, bn=64)(_attention)
program("matrix", name="attention_bf16_causal", dtype=_brain, causal=True, bm=64, bn=64)(_attention)
program("matrix", name="attention_f16_mma", dtype=_half, causal=True, bm=32, bn=32, num_warps=2)(_attention)
program("matrix", name="attention_f16_wide", dtype=_half, causal=False, bm=128, bn=128, d=128, num_warps=8)(_attention)


@triton.jit
def batched(a_ptr, b_ptr, c_ptr, SIZE: tl.constexpr):
    batch = tl.program_id(0)
    r, c = tl.arange(0, SIZE)[:, None], tl.arange(0, SIZE)[None, :]
    a = tl.load(a_ptr + batch * SIZE * SIZE + r * SIZE + c)
    b = tl.load(b_ptr + batch * SIZE * SIZE + r * SIZE + c)
    tl.store(c_ptr + batch * SIZE * SIZE + r * SIZE + c, tl.dot(a, tl.trans(b)) + tl.sum(a.to(tl.float32), axis=1)[:, None])


@program("matrix")
def matmul_small_batches(data):
    a, b = data.normal(2048, 32, 32, dtype=_half), data.normal(2048, 32, 32, dtype=_half)
    c = data.empty(2048, 32, 32)

    def run():
        batched[(2048,)](a, b, c, SIZE=32)
        return (c,)

    return run
