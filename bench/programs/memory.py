"""Programs whose work is moving data: transposes, gathers, stencils, atomics."""

import torch
import triton
import triton.language as tl

from . import program


@triton.jit
def transpose(x_ptr, y_ptr, rows, columns, BLOCK: tl.constexpr):
    r = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + r[:, None] * columns + c[None, :], mask=(r < rows)[:, None] & (c < columns)[None, :])
    tl.store(y_ptr + c[:, None] * rows + r[None, :], tl.trans(x), mask=(c < columns)[:, None] & (r < rows)[None, :])


def _transpose(data, dtype):
    rows, columns = data.rows(2000), 1500
    x = data.normal(rows, columns).to(dtype) if dtype.is_floating_point else data.bits(rows, columns, dtype=dtype)
    y = data.empty(columns, rows, dtype=dtype)

    def run():
        transpose[(triton.cdiv(rows, 32), triton.cdiv(columns, 32))](x, y, rows, columns, BLOCK=32)
        return (y,)

    return run


program("scalar", "memory", name="transpose_f32", dtype=torch.float32)(_transpose)
program("scalar", "memory", name="transpose_f16", dtype=torch.float16)(_transpose)
program("scalar", "memory", name="transpose_i8", dtype=torch.int8)(_transpose)


@triton.jit
def embedding(index_ptr, table_ptr, y_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    index = tl.load(index_ptr + row)
    for start in range(0, width, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(table_ptr + index * width + at, mask=at < width)
        tl.store(y_ptr + row * width + at, x, mask=at < width)


@program("scalar", "memory")
def embedding_lookup(data):
    tokens, words, width = data.rows(8192), 5000, 700
    index = data.integers(tokens, low=0, high=words, dtype=torch.int64)
    table, y = data.normal(words, width, dtype=torch.bfloat16), data.empty(tokens, width, dtype=torch.bfloat16)

    def run():
        embedding[(tokens,)](index, table, y, width, BLOCK=256)
        return (y,)

    return run


@triton.jit
def scatter(index_ptr, x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    index = tl.load(index_ptr + at, mask=at < n, other=0)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(y_ptr + index, x, mask=at < n)


@program("scalar", "memory")
def scatter_permutation(data):
    n = data.rows(1 << 21)
    index = torch.randperm(n, generator=data.generator, device=data.device)
    x, y = data.normal(n), data.empty(n)

    def run():
        scatter[(triton.cdiv(n, 1024),)](index, x, y, n, BLOCK=1024)
        return (y,)

    return run


@triton.jit
def gather_in_block(x_ptr, index_ptr, y_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    index = tl.load(index_ptr + at)
    tl.store(y_ptr + at, tl.gather(x, index, 0))


@program("scalar", "memory")
def gather_f32(data):
    n, block = max(data.rows(1 << 20), 512), 512
    x, index, y = data.normal(n), data.integers(n, low=0, high=block), data.empty(n)

    def run():
        gather_in_block[(n // block,)](x, index, y, BLOCK=block)
        return (y,)

    return run


@triton.jit
def rotary(x_ptr, cos_ptr, sin_ptr, y_ptr, heads, HALF: tl.constexpr):
    token, head = tl.program_id(0), tl.program_id(1)
    at = tl.arange(0, HALF)
    base = (token * heads + head) * HALF * 2
    a = tl.load(x_ptr + base + at).to(tl.float32)
    b = tl.load(x_ptr + base + HALF + at).to(tl.float32)
    c, s = tl.load(cos_ptr + token * HALF + at), tl.load(sin_ptr + token * HALF + at)
    tl.store(y_ptr + base + at, (a * c - b * s).to(tl.bfloat16))
    tl.store(y_ptr + base + HALF + at, (b * c + a * s).to(tl.bfloat16))


@program("scalar")
def rotary_embedding(data):
    tokens, heads, half = data.rows(2048), 16, 64
    x = data.normal(tokens, heads, 2 * half, dtype=torch.bfloat16)
    angle = data.uniform(tokens, half, high=6.28)
    cos, sin, y = angle.cos(), angle.sin(), data.like(x)

    def run():
        rotary[(tokens, heads)](x, cos, sin, y, heads, HALF=half, num_warps=2)
        return (y,)

    return run


@triton.jit
def complex_product(a_ptr, b_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK * 2 + tl.arange(0, BLOCK * 2)
    a = tl.load(a_ptr + at, mask=at < 2 * n, other=0.0)
    b = tl.load(b_ptr + at, mask=at < 2 * n, other=0.0)
    ar, ai = tl.split(tl.reshape(a, (BLOCK, 2)))
    br, bi = tl.split(tl.reshape(b, (BLOCK, 2)))
    y = tl.interleave(ar * br - ai * bi, ar * bi + ai * br)
    tl.store(y_ptr + at, y, mask=at < 2 * n)


@program("scalar")
def complex_multiply(data):
    n = data.rows(1 << 20)
    a, b = data.normal(n, 2), data.normal(n, 2)
    y = data.like(a)

    def run():
        complex_product[(triton.cdiv(n, 512),)](a, b, y, n, BLOCK=512)
        return (y,)

    return run


@triton.jit
def convolve(x_ptr, w_ptr, y_ptr, n, TAPS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for k in tl.static_range(TAPS):
        place = at + k - TAPS // 2
        x = tl.load(x_ptr + place, mask=(place >= 0) & (place < n), other=0.0)
        total += x * tl.load(w_ptr + k)
    tl.store(y_ptr + at, total, mask=at < n)


@program("scalar")
def convolution_1d(data):
    n = data.rows(1 << 21)
    x, w = data.normal(n), data.normal(9)
    y = data.like(x)

    def run():
        convolve[(triton.cdiv(n, 1024),)](x, w, y, n, TAPS=9, BLOCK=1024)
        return (y,)

    return run


@triton.jit
def laplace(x_ptr, y_ptr, height, width, BY: tl.constexpr, BX: tl.constexpr):
    y = tl.program_id(0) * BY + tl.arange(0, BY)[:, None]
    x = tl.program_id(1) * BX + tl.arange(0, BX)[None, :]
    inside = (y > 0) & (y < height - 1) & (x > 0) & (x < width - 1)
    at = y * width + x
    centre = tl.load(x_ptr + at, mask=inside, other=0.0)
    around = tl.load(x_ptr + at - 1, mask=inside, other=0.0) + tl.load(x_ptr + at + 1, mask=inside, other=0.0)
    around += tl.load(x_ptr + at - width, mask=inside, other=0.0) + tl.load(x_ptr + at + width, mask=inside, other=0.0)
    tl.store(y_ptr + at, centre + 0.1 * (around - 4.0 * centre), mask=inside)


@program("scalar")
def stencil_2d(data):
    height, width = data.rows(1500), 1501
    x, y = data.normal(height, width), data.zeros(height, width)

    def run():
        laplace[(triton.cdiv(height, 8), triton.cdiv(width, 128))](x, y, height, width, BY=8, BX=128)
        return (y,)

    return run


@triton.jit
def depthwise(x_ptr, w_ptr, y_ptr, channels, height, width, BLOCK: tl.constexpr):
    plane = tl.program_id(1)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row, column = at // width, at % width
    channel = plane % channels
    total = tl.zeros((BLOCK,), tl.float32)
    for dy in tl.static_range(3):
        for dx in tl.static_range(3):
            r, c = row + dy - 1, column + dx - 1
            inside = (r >= 0) & (r < height) & (c >= 0) & (c < width)
            x = tl.load(x_ptr + plane * height * width + r * width + c, mask=inside, other=0.0)
            total += x.to(tl.float32) * tl.load(w_ptr + channel * 9 + dy * 3 + dx).to(tl.float32)
    tl.store(y_ptr + plane * height * width + at, total.to(y_ptr.dtype.element_ty), mask=at < height * width)


@program("scalar")
def depthwise_convolution(data):
    samples, channels, height, width = data.rows(8), 64, 56, 56
    x, w = data.normal(samples, channels, height, width, dtype=torch.float16), data.normal(channels, 9, dtype=torch.float16)
    y = data.like(x)

    def run():
        depthwise[(triton.cdiv(height * width, 512), samples * channels)](x, w, y, channels, height, width, BLOCK=512)
        return (y,)

    return run


@triton.jit
def max_pool(x_ptr, y_ptr, index_ptr, height, width, BLOCK: tl.constexpr):
    plane = tl.program_id(1)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    half = width // 2
    inside = at < (height // 2) * half
    base = plane * height * width + (at // half) * 2 * width + (at % half) * 2
    best = tl.load(x_ptr + base, mask=inside, other=0.0)
    place = tl.zeros((BLOCK,), tl.int32)
    for k in tl.static_range(1, 4):
        x = tl.load(x_ptr + base + (k // 2) * width + k % 2, mask=inside, other=0.0)
        place = tl.where(x > best, k, place)
        best = tl.maximum(best, x)
    out = plane * (height // 2) * half + at
    tl.store(y_ptr + out, best, mask=inside)
    tl.store(index_ptr + out, place.to(tl.int8), mask=inside)


@program("scalar")
def max_pool_2d(data):
    planes, height, width = data.rows(512), 64, 64
    x = data.normal(planes, height, width)
    y, index = data.empty(planes, 32, 32), data.empty(planes, 32, 32, dtype=torch.int8)

    def run():
        max_pool[(2, planes)](x, y, index, height, width, BLOCK=512)
        return y, index

    return run


@triton.jit
def count_atomically(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0)
    tl.atomic_add(y_ptr + x, 1, mask=at < n)


@program("scalar", "atomic")
def atomic_counts(data):
    n, bins = data.rows(1 << 20), 1000
    x, y = data.integers(n, low=0, high=bins), data.zeros(bins, dtype=torch.int32)

    def run():
        y.zero_()
        count_atomically[(triton.cdiv(n, 1024),)](x, y, n, BLOCK=1024)
        return (y,)

    return run


@triton.jit
def extrema_atomically(x_ptr, i_ptr, most_ptr, least_ptr, bits_ptr, any_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    x = tl.load(x_ptr + at, mask=inside, other=0)
    i = tl.load(i_ptr + at, mask=inside, other=0)
    tl.atomic_max(most_ptr + i, x, mask=inside)
    tl.atomic_min(least_ptr + i, x, mask=inside)
    tl.atomic_xor(bits_ptr + i, x, mask=inside)
    tl.atomic_or(any_ptr + i, x & 0xFF, mask=inside)


@program("scalar", "atomic")
def atomic_extrema(data):
    n, bins = data.rows(1 << 20), 4096
    x, i = data.bits(n), data.integers(n, low=0, high=bins)
    tables = tuple(data.zeros(bins, dtype=torch.int32) for _ in range(4))

    def run():
        for table in tables:
            table.zero_()
        extrema_atomically[(triton.cdiv(n, 512),)](x, i, *tables, n, BLOCK=512)
        return tables

    return run


@triton.jit
def add_floats_atomically(x_ptr, i_ptr, y_ptr, h_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    x = tl.load(x_ptr + at, mask=inside, other=0)
    i = tl.load(i_ptr + at, mask=inside, other=0)
    tl.atomic_add(y_ptr + i, x.to(tl.float32), mask=inside)
    tl.atomic_add(h_ptr + i, (x & 1).to(tl.float16), mask=inside)


@program("scalar", "atomic")
def atomic_float_sums(data):
    n, bins = data.rows(1 << 20), 4096
    # Whole numbers: their sums are exact, in whatever order they are added.
    x, i = data.integers(n, low=-100, high=100), data.integers(n, low=0, high=bins)
    y, h = data.zeros(bins), data.zeros(bins, dtype=torch.float16)

    def run():
        y.zero_()
        h.zero_()
        add_floats_atomically[(triton.cdiv(n, 512),)](x, i, y, h, n, BLOCK=512)
        return y, h

    return run


@triton.jit
def locked_sum(x_ptr, total_ptr, lock_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    part = tl.sum(tl.load(x_ptr + at, mask=at < n, other=0), axis=0)
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(total_ptr, tl.load(total_ptr, volatile=True) + part)
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr, 0)


@program("scalar", "atomic")
def sum_under_lock(data):
    n = data.rows(1 << 17)
    x = data.integers(n, low=-1000, high=1000)
    total, lock = data.zeros(1, dtype=torch.int32), data.zeros(1, dtype=torch.int32)

    def run():
        total.zero_()
        lock.zero_()
        locked_sum[(triton.cdiv(n, 1024),)](x, total, lock, n, BLOCK=1024)
        return total, lock

    return run


@triton.jit
def resample(x_ptr, y_ptr, height, width, scale, BLOCK: tl.constexpr):
    plane = tl.program_id(1)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    wide, tall = width * 2, height * 2
    inside = at < wide * tall
    fy = tl.maximum(((at // wide).to(tl.float32) + 0.5) * scale - 0.5, 0.0)
    fx = tl.maximum(((at % wide).to(tl.float32) + 0.5) * scale - 0.5, 0.0)
    y0, x0 = fy.to(tl.int32), fx.to(tl.int32)
    y1, x1 = tl.minimum(y0 + 1, height - 1), tl.minimum(x0 + 1, width - 1)
    wy, wx = fy - y0, fx - x0
    base = x_ptr + plane * height * width
    a = tl.load(base + y0 * width + x0, mask=inside)
    b = tl.load(base + y0 * width + x1, mask=inside)
    c = tl.load(base + y1 * width + x0, mask=inside)
    d = tl.load(base + y1 * width + x1, mask=inside)
    top, bottom = a + (b - a) * wx, c + (d - c) * wx
    tl.store(y_ptr + plane * wide * tall + at, top + (bottom - top) * wy, mask=inside)


@program("scalar")
def bilinear_upsample(data):
    planes, height, width = data.rows(128), 48, 48
    x, y = data.normal(planes, height, width), data.empty(planes, 96, 96)

    def run():
        resample[(triton.cdiv(96 * 96, 512), planes)](x, y, height, width, 0.5, BLOCK=512)
        return (y,)

    return run
