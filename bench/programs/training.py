"""Steps of optimisers: many streams in, many out. Each run starts from a copy of the same state."""

import torch
import triton
import triton.language as tl

from . import program


@triton.jit
def adamw(p_ptr, g_ptr, m_ptr, v_ptr, po_ptr, mo_ptr, vo_ptr, n, lr, b1, b2, eps, decay, c1, c2, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    p = tl.load(p_ptr + at, mask=inside)
    g = tl.load(g_ptr + at, mask=inside).to(tl.float32)
    m = tl.load(m_ptr + at, mask=inside)
    v = tl.load(v_ptr + at, mask=inside)
    m = b1 * m + (1 - b1) * g
    v = b2 * v + (1 - b2) * g * g
    p = p * (1 - lr * decay) - lr * (m / c1) / (tl.sqrt(v / c2) + eps)
    tl.store(po_ptr + at, p, mask=inside)
    tl.store(mo_ptr + at, m, mask=inside)
    tl.store(vo_ptr + at, v, mask=inside)


@program("scalar")
def adamw_step(data):
    n = data.rows(1 << 21)
    p, g, m, v = data.normal(n), data.normal(n, dtype=torch.bfloat16), data.normal(n), data.uniform(n)
    outputs = data.like(p), data.like(p), data.like(p)

    def run():
        adamw[(triton.cdiv(n, 1024),)](p, g, m, v, *outputs, n, 1e-3, 0.9, 0.999, 1e-8, 0.01, 0.1, 0.001, BLOCK=1024)
        return outputs

    return run


@triton.jit
def lion(p_ptr, g_ptr, m_ptr, po_ptr, mo_ptr, n, lr, b1, b2, decay, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    p, g, m = tl.load(p_ptr + at, mask=inside), tl.load(g_ptr + at, mask=inside), tl.load(m_ptr + at, mask=inside)
    u = b1 * m + (1 - b1) * g
    sign = tl.where(u > 0, 1.0, tl.where(u < 0, -1.0, 0.0))
    tl.store(po_ptr + at, p - lr * (sign + decay * p), mask=inside)
    tl.store(mo_ptr + at, b2 * m + (1 - b2) * g, mask=inside)


@program("scalar")
def lion_step(data):
    n = data.rows(1 << 21)
    p, g, m = data.normal(n), data.normal(n), data.normal(n)
    outputs = data.like(p), data.like(p)

    def run():
        lion[(triton.cdiv(n, 1024),)](p, g, m, *outputs, n, 1e-3, 0.9, 0.99, 0.1, BLOCK=1024)
        return outputs

    return run


@triton.jit
def adam_eight_bit(p_ptr, g_ptr, m_ptr, scale_ptr, po_ptr, mo_ptr, so_ptr, lr, beta, BLOCK: tl.constexpr):
    block = tl.program_id(0)
    at = block * BLOCK + tl.arange(0, BLOCK)
    p, g = tl.load(p_ptr + at), tl.load(g_ptr + at).to(tl.float32)
    m = tl.load(m_ptr + at).to(tl.float32) * tl.load(scale_ptr + block)
    m = beta * m + (1 - beta) * g
    scale = tl.max(tl.abs(m), axis=0) / 127.0 + 1e-12
    q = m / scale
    q = tl.floor(q + 0.5)
    tl.store(po_ptr + at, p - lr * m)
    tl.store(mo_ptr + at, q.to(tl.int8))
    tl.store(so_ptr + block, scale)


@program("scalar", "int8")
def momentum_in_int8(data):
    blocks, size = data.rows(2048), 1024
    p, g = data.normal(blocks, size), data.normal(blocks, size, dtype=torch.float16)
    m, scale = data.bits(blocks, size, dtype=torch.int8), data.uniform(blocks)
    outputs = data.like(p), data.like(m), data.like(scale)

    def run():
        adam_eight_bit[(blocks,)](p, g, m, scale, *outputs, 1e-3, 0.9, BLOCK=size)
        return outputs

    return run
