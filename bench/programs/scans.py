"""Scans, sorts, histograms and random numbers."""

import torch
import triton
import triton.language as tl

from . import program


@triton.jit
def larger(a, b):
    return tl.maximum(a, b)


@triton.jit
def linear_step(a1, b1, a2, b2):
    return a1 * a2, b1 * a2 + b2


@triton.jit
def scan_rows(x_ptr, y_ptr, columns, OP: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    x = tl.load(x_ptr + row * columns + at, mask=inside, other=0)
    if OP == "cumsum":
        y = tl.cumsum(x, axis=0)
    elif OP == "cumsum_reverse":
        y = tl.cumsum(x, axis=0, reverse=True)
    elif OP == "cumprod":
        y = tl.cumprod(x, axis=0)
    elif OP == "cummax":
        y = tl.associative_scan(x, 0, larger)
    elif OP == "sort":
        y = tl.sort(x)
    elif OP == "sort_descending":
        y = tl.sort(x, descending=True)
    tl.store(y_ptr + row * columns + at, y, mask=inside)


def _scan(data, op, dtype=torch.float32, columns=1024, num_warps=4, rows=2048):
    rows = data.rows(rows)
    x = data.bits(rows, columns) if dtype == torch.int32 else data.normal(rows, columns, dtype=dtype)
    if op == "cumprod":
        x = 1.0 + 0.01 * x
    y = data.like(x)

    def run():
        scan_rows[(rows,)](x, y, columns, OP=op, BLOCK=triton.next_power_of_2(columns), num_warps=num_warps)
        return (y,)

    return run


program("scalar", name="cumsum_f32", op="cumsum")(_scan)
program("scalar", name="cumsum_i32", op="cumsum", dtype=torch.int32)(_scan)
program("scalar", name="cumsum_reverse_f32", op="cumsum_reverse", columns=512)(_scan)
program("scalar", name="cumprod_f32", op="cumprod")(_scan)
program("scalar", name="cummax_i32", op="cummax", dtype=torch.int32)(_scan)
program("scalar", name="sort_f32", op="sort", columns=256)(_scan)
program("scalar", name="sort_i32_descending", op="sort_descending", dtype=torch.int32, columns=512, rows=1024)(_scan)


@triton.jit
def recurrence(a_ptr, b_ptr, y_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    a = tl.load(a_ptr + row * n + at, mask=at < n, other=1.0)
    b = tl.load(b_ptr + row * n + at, mask=at < n, other=0.0)
    _, y = tl.associative_scan((a, b), 0, linear_step)
    tl.store(y_ptr + row * n + at, y, mask=at < n)


@program("scalar")
def linear_recurrence(data):
    rows, n = data.rows(2048), 1000
    a, b = data.uniform(rows, n, low=0.5, high=0.99), data.normal(rows, n)
    y = data.like(a)

    def run():
        recurrence[(rows,)](a, b, y, n, BLOCK=1024)
        return (y,)

    return run


@triton.jit
def top_k(x_ptr, y_ptr, columns, K: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=float("-inf"))
    tl.store(y_ptr + row * K + tl.arange(0, K), tl.topk(x, K))


@program("scalar")
def top_k_f32(data):
    rows, columns = data.rows(2048), 500
    x, y = data.normal(rows, columns), data.empty(rows, 8)

    def run():
        top_k[(rows,)](x, y, columns, K=8, BLOCK=512)
        return (y,)

    return run


@triton.jit
def block_histogram(x_ptr, y_ptr, n, BINS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0)
    counts = tl.histogram(x, BINS)
    tl.atomic_add(y_ptr + tl.arange(0, BINS), counts)


@program("scalar", "atomic")
def histogram_i32(data):
    n, bins = data.rows(1 << 21), 256
    x, y = data.integers(n, low=0, high=bins), data.zeros(bins, dtype=torch.int32)

    def run():
        y.zero_()
        block_histogram[(triton.cdiv(n, 1024),)](x, y, n, BINS=bins, BLOCK=1024)
        return (y,)

    return run


@triton.jit
def dropout(x_ptr, y_ptr, n, p, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    keep = tl.rand(seed, at) > p
    tl.store(y_ptr + at, tl.where(keep, x / (1 - p), 0.0), mask=at < n)


@program("scalar", "random")
def dropout_philox(data):
    n = data.rows(1 << 22)
    x = data.normal(n)
    y = data.like(x)

    def run():
        dropout[(triton.cdiv(n, 1024),)](x, y, n, 0.3, 1234, BLOCK=1024)
        return (y,)

    return run


@triton.jit
def random_numbers(u_ptr, g_ptr, i_ptr, n, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(u_ptr + at, tl.rand(seed, at), mask=inside)
    tl.store(g_ptr + at, tl.randn(seed + 1, at), mask=inside)
    tl.store(i_ptr + at, tl.randint(seed + 2, at), mask=inside)


@program("scalar", "random")
def random_uniform_normal_integer(data):
    n = data.rows(1 << 20)
    u, g, i = data.empty(n), data.empty(n), data.empty(n, dtype=torch.int32)

    def run():
        random_numbers[(triton.cdiv(n, 1024),)](u, g, i, n, 77, BLOCK=1024)
        return u, g, i

    return run


@triton.jit
def monte_carlo(y_ptr, rounds, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    hits = tl.zeros((BLOCK,), tl.int32)
    for i in range(rounds):
        a, b, c, d = tl.rand4x(seed, at * rounds + i)
        hits += (a * a + b * b < 1.0).to(tl.int32) + (c * c + d * d < 1.0).to(tl.int32)
    tl.store(y_ptr + tl.program_id(0), tl.sum(hits, axis=0))


@program("scalar", "random")
def monte_carlo_pi(data):
    blocks = data.rows(1024)
    y = data.empty(blocks, dtype=torch.int32)

    def run():
        monte_carlo[(blocks,)](y, 8, 99, BLOCK=512)
        return (y,)

    return run
