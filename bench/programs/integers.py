"""Integer arithmetic, bits, hashes and loops whose trip counts differ from lane to lane."""

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from . import program

N = 1 << 21


@triton.jit
def integer_map(x_ptr, y_ptr, n, divisor, OP: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    x = tl.load(x_ptr + at, mask=inside, other=1)
    if OP == "murmur":
        h = x.to(tl.uint32, bitcast=True)
        h ^= h >> 16
        h *= 0x85EBCA6B
        h ^= h >> 13
        h *= 0xC2B2AE35
        h ^= h >> 16
        y = h.to(tl.int32, bitcast=True)
    elif OP == "bits":
        y = libdevice.popc(x) + 64 * libdevice.clz(x) + libdevice.brev(x) + libdevice.ffs(x)
    elif OP == "divide":
        d = divisor + (x & 15) + 1
        y = x // d + (x % d) * 3
    elif OP == "constants":
        y = x // 7 + x % 10 + (x // 1000) * (x % 641)
    elif OP == "unsigned":
        u = x.to(tl.uint32, bitcast=True)
        y = (u // 19 + u % 1000003 + tl.umulhi(u, u * 3)).to(tl.int32, bitcast=True)
    elif OP == "narrow":
        b = x.to(tl.int8)
        h = x.to(tl.int16)
        y = (b * b).to(tl.int32) + (h >> 3).to(tl.int32) + (h.to(tl.uint16, bitcast=True) >> 5).to(tl.int32)
    elif OP == "shifts":
        s = x & 31
        y = (x << s) ^ (x >> (31 - s)) ^ (x.to(tl.uint32, bitcast=True) >> s).to(tl.int32, bitcast=True)
    elif OP == "crc":
        c = x
        for i in tl.static_range(16):
            c = tl.where((c & 1) != 0, (c.to(tl.uint32, bitcast=True) >> 1).to(tl.int32, bitcast=True) ^ 0x6DB88320, (c >> 1) & 0x7FFFFFFF)
        y = c
    elif OP == "wide":
        y = x * 6364136223846793005 + (x >> 17) * (x & 0xFFFFFFFF)
    elif OP == "wide_divide":
        y = x // (divisor + (x & 1023) + 1) + x % 1000000007
    elif OP == "wide_high":
        u = x.to(tl.uint64, bitcast=True)
        y = tl.umulhi(u, u ^ 0x123456789ABCDEF).to(tl.int64, bitcast=True)
    elif OP == "compare":
        y = tl.where(x > 0, x, -x) + (x == 7).to(tl.int32) * 5 + tl.minimum(x, 100) + tl.maximum(x, -100)
    tl.store(y_ptr + at, y, mask=inside)


def _integers(data, op, dtype=torch.int32, block=512):
    n = data.rows(N) - 3
    x = data.bits(n, dtype=dtype)
    y = data.like(x)

    def run():
        integer_map[(triton.cdiv(n, block),)](x, y, n, 3, OP=op, BLOCK=block)
        return (y,)

    return run


for _op in ["murmur", "bits", "divide", "constants", "unsigned", "narrow", "shifts", "crc", "compare"]:
    program("scalar", "integer", name=f"int_{_op}", op=_op)(_integers)
for _op in ["wide", "wide_divide", "wide_high"]:
    program("scalar", "integer", name=f"int64_{_op}", op=_op, dtype=torch.int64)(_integers)


@triton.jit
def gcd_kernel(a_ptr, b_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(a_ptr + at, mask=at < n, other=0)
    b = tl.load(b_ptr + at, mask=at < n, other=0)
    while tl.max(b, axis=0) > 0:
        r = a % tl.maximum(b, 1)
        a, b = tl.where(b > 0, b, a), tl.where(b > 0, r, 0)
    tl.store(y_ptr + at, a, mask=at < n)


@program("scalar", "integer")
def gcd_loop(data):
    n = data.rows(1 << 20)
    a, b = data.integers(n, low=1, high=1 << 30), data.integers(n, low=1, high=1 << 30)
    y = data.like(a)

    def run():
        gcd_kernel[(triton.cdiv(n, 256),)](a, b, y, n, BLOCK=256)
        return (y,)

    return run


@triton.jit
def collatz_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=1).to(tl.int64)
    steps = tl.zeros((BLOCK,), tl.int32)
    for _ in range(64):
        odd = (x & 1) == 1
        running = x > 1
        x = tl.where(running, tl.where(odd, 3 * x + 1, x >> 1), x)
        steps += running.to(tl.int32)
    tl.store(y_ptr + at, steps, mask=at < n)


@program("scalar", "integer")
def collatz_steps(data):
    n = data.rows(1 << 20)
    x = data.integers(n, low=1, high=1 << 30)
    y = data.like(x)

    def run():
        collatz_kernel[(triton.cdiv(n, 256),)](x, y, n, BLOCK=256)
        return (y,)

    return run


@triton.jit
def mandelbrot_kernel(y_ptr, width, height, limit, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cx = (at % width).to(tl.float32) / width * 3.0 - 2.0
    cy = (at // width).to(tl.float32) / height * 2.0 - 1.0
    x = tl.zeros((BLOCK,), tl.float32)
    y = tl.zeros((BLOCK,), tl.float32)
    count = tl.zeros((BLOCK,), tl.int32)
    for _ in range(limit):
        inside = x * x + y * y < 4.0
        nx = x * x - y * y + cx
        y = tl.where(inside, 2.0 * x * y + cy, y)
        x = tl.where(inside, nx, x)
        count += inside.to(tl.int32)
    tl.store(y_ptr + at, count, mask=at < width * height)


@program("scalar")
def mandelbrot(data):
    width, height = 1024, data.rows(1024)
    y = data.empty(height, width, dtype=torch.int32)

    def run():
        mandelbrot_kernel[(width * height // 256,)](y, width, height, 100, BLOCK=256)
        return (y,)

    return run


@triton.jit
def packed_bytes(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0)
    y = tl.inline_asm_elementwise(
        "{ .reg .u32 t, one; mov.u32 one, 0x10101010; vadd4.u32.u32.u32.sat t, $1, one, one; prmt.b32 $0, t, $1, 0x3120; }",
        "=r,r",
        [x],
        dtype=tl.int32,
        is_pure=True,
        pack=1,
    )
    z = tl.inline_asm_elementwise(
        "dp4a.s32.s32 $0, $1, $2, $1;", "=r,r,r", [x, y], dtype=tl.int32, is_pure=True, pack=1
    )
    tl.store(y_ptr + at, y ^ z, mask=at < n)


@program("scalar", "integer")
def int_packed_bytes(data):
    n = data.rows(N)
    x = data.bits(n)
    y = data.like(x)

    def run():
        packed_bytes[(triton.cdiv(n, 512),)](x, y, n, BLOCK=512)
        return (y,)

    return run
