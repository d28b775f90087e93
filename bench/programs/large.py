"""Products and attention as large as people run them, for the rate they reach: an 8192³ product, attention over 4,096 positions.

These are timed only (`triton_programs.py run --tags large`): in the emulator they would take days.
"""

import torch
import triton
import triton.language as tl

from . import program
from .matrix import attention

GROUP = 8


@triton.jit
def grouped_matmul(a_ptr, b_ptr, c_ptr, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    """Blocks go through the result in bands of GROUP rows of tiles, so that those which run at a time share what they read."""
    tiles_across = tl.cdiv(n, BN)
    block = tl.program_id(0)
    band = block // (GROUP * tiles_across)
    first = band * GROUP
    height = min(tl.cdiv(m, BM) - first, GROUP)
    within = block % (GROUP * tiles_across)
    row_tile, column_tile = first + within % height, within // height
    rows = row_tile * BM + tl.arange(0, BM)
    columns = column_tile * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    a_at = a_ptr + rows[:, None] * k + inner[None, :]
    b_at = b_ptr + inner[:, None] * n + columns[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, k, BK):
        total = tl.dot(tl.load(a_at), tl.load(b_at), total)
        a_at += BK
        b_at += BK * n
    tl.store(c_ptr + rows[:, None] * n + columns[None, :], total.to(tl.float16))


@program("large")
def gemm_f16_8192(data):
    size, tile = 8192, (128, 256, 64)
    a, b = (data.normal(size, size, dtype=torch.float16, scale=0.5) for _ in range(2))
    c = data.empty(size, size, dtype=torch.float16)
    bm, bn, bk = tile

    def run():
        blocks = (size // bm) * (size // bn)
        grouped_matmul[(blocks,)](a, b, c, size, size, size, BM=bm, BN=bn, BK=bk, GROUP=GROUP, num_warps=8, num_stages=3)
        return (c,)

    return run


def _attention(data, d, causal):
    heads, length, bm, bn = 64, 4096, 128, 64
    q, k, v = (data.normal(heads, length, d, dtype=torch.float16) for _ in range(3))
    o = data.like(q)

    def run():
        attention[(length // bm, heads)](
            q, k, v, o, length, 1.44269504 / d**0.5, CAUSAL=causal, BM=bm, BN=bn, D=d, num_warps=4 if d == 64 else 8, num_stages=3
        )
        return (o,)

    return run


for _d in (64, 128):
    for _causal in (False, True):
        program("large", name=f"attention_{_d}_{'causal' if _causal else 'full'}_4096", d=_d, causal=_causal)(_attention)
