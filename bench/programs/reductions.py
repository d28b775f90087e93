"""Reductions over rows: sums, extrema with their places, norms, softmax, cross-entropy."""

import torch
import triton
import triton.language as tl

from . import program


@triton.jit
def multiply(a, b):
    return a * b


@triton.jit
def exclusive_or(a, b):
    return a ^ b


@triton.jit
def welford(mean_a, m2_a, n_a, mean_b, m2_b, n_b):
    delta = mean_b - mean_a
    n = n_a + n_b
    part = tl.where(n > 0, n_b / n, 0.0)
    return mean_a + delta * part, m2_a + m2_b + delta * delta * n_a * part, n


@triton.jit
def reduce_rows(x_ptr, y_ptr, columns, OP: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    x = tl.load(x_ptr + row * columns + at, mask=inside, other=0)
    if OP == "sum":
        y = tl.sum(x, axis=0)
    elif OP == "max":
        y = tl.max(tl.where(inside, x, float("-inf")), axis=0)
    elif OP == "argmax":
        y = tl.argmax(tl.where(inside, x, float("-inf")), axis=0)
    elif OP == "argmin_int":
        y = tl.argmin(tl.where(inside, x, 2147483647), axis=0)
    elif OP == "xor":
        y = tl.reduce(x, 0, exclusive_or)
    elif OP == "product":
        y = tl.reduce(tl.where(inside, x, 1.0), 0, multiply)
    elif OP == "norm":
        y = tl.sqrt(tl.sum(x * x, axis=0))
    elif OP == "logsumexp":
        z = tl.where(inside, x.to(tl.float32), float("-inf"))
        top = tl.max(z, axis=0)
        y = top + tl.log(tl.sum(tl.exp(z - top), axis=0))
    elif OP == "variance":
        n = tl.where(inside, 1.0, 0.0)
        mean, m2, count = tl.reduce((x, tl.zeros_like(x), n), 0, welford)
        y = m2 / count + mean
    tl.store(y_ptr + row, y)


def _reduce(data, op, dtype=torch.float32, out=None, columns=1000, num_warps=4):
    rows = data.rows(4096)
    if dtype == torch.int32:
        x = data.bits(rows, columns)
    else:
        x = data.normal(rows, columns, dtype=dtype)
        if op == "product":
            x = 1.0 + x * 0.01
    y = data.empty(rows, dtype=out or dtype)
    block = triton.next_power_of_2(columns)

    def run():
        reduce_rows[(rows,)](x, y, columns, OP=op, BLOCK=block, num_warps=num_warps)
        return (y,)

    return run


program("scalar", name="row_sum_f32", op="sum")(_reduce)
program("scalar", name="row_sum_f16_wide", op="sum", dtype=torch.float16, columns=4000, num_warps=8)(_reduce)
program("scalar", name="row_max_bf16", op="max", dtype=torch.bfloat16)(_reduce)
program("scalar", name="row_argmax_f32", op="argmax", out=torch.int32)(_reduce)
program("scalar", name="row_argmin_i32", op="argmin_int", dtype=torch.int32)(_reduce)
program("scalar", name="row_xor_i32", op="xor", dtype=torch.int32)(_reduce)
program("scalar", name="row_product_f32", op="product")(_reduce)
program("scalar", name="row_norm_f64", op="norm", dtype=torch.float64)(_reduce)
program("scalar", name="row_logsumexp_bf16", op="logsumexp", dtype=torch.bfloat16, out=torch.float32)(_reduce)
program("scalar", name="row_variance_welford", op="variance")(_reduce)
program("scalar", name="row_sum_one_warp", op="sum", columns=200, num_warps=1)(_reduce)


@triton.jit
def column_sum(x_ptr, y_ptr, rows, columns, BR: tl.constexpr, BC: tl.constexpr):
    c = tl.program_id(0) * BC + tl.arange(0, BC)
    total = tl.zeros((BC,), tl.float32)
    for r in range(0, rows, BR):
        at = r + tl.arange(0, BR)
        x = tl.load(x_ptr + at[:, None] * columns + c[None, :], mask=(at < rows)[:, None] & (c < columns)[None, :], other=0.0)
        total += tl.sum(x, axis=0)
    tl.store(y_ptr + c, total, mask=c < columns)


@program("scalar")
def column_sums(data):
    rows, columns = data.rows(4001), 1024
    x = data.normal(rows, columns)
    y = data.empty(columns)

    def run():
        column_sum[(columns // 32,)](x, y, rows, columns, BR=64, BC=32)
        return (y,)

    return run


@triton.jit
def softmax(x_ptr, y_ptr, columns, LOG: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    x = tl.load(x_ptr + row * columns + at, mask=inside, other=float("-inf")).to(tl.float32)
    z = x - tl.max(x, axis=0)
    if LOG:
        y = z - tl.log(tl.sum(tl.exp(z), axis=0))
    else:
        e = tl.exp(z)
        y = e / tl.sum(e, axis=0)
    tl.store(y_ptr + row * columns + at, y.to(y_ptr.dtype.element_ty), mask=inside)


def _softmax(data, dtype, columns, log=False, num_warps=4):
    rows = data.rows(4096)
    x = data.normal(rows, columns, dtype=dtype, scale=3.0)
    y = data.like(x)

    def run():
        softmax[(rows,)](x, y, columns, LOG=log, BLOCK=triton.next_power_of_2(columns), num_warps=num_warps)
        return (y,)

    return run


program("scalar", name="softmax_f32", dtype=torch.float32, columns=1000)(_softmax)
program("scalar", name="softmax_f16_wide", dtype=torch.float16, columns=3000, num_warps=8)(_softmax)
program("scalar", name="log_softmax_bf16", dtype=torch.bfloat16, columns=1024, log=True)(_softmax)


@triton.jit
def online_softmax(x_ptr, y_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    top = tl.full((BLOCK,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=-1e30)
        new = tl.maximum(top, x)
        total = total * tl.exp(top - new) + tl.exp(x - new)
        top = new
    peak = tl.max(top, axis=0)
    scale = 1.0 / tl.sum(total * tl.exp(top - peak), axis=0)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * columns + at, mask=at < columns)
        tl.store(y_ptr + row * columns + at, tl.exp(x - peak) * scale, mask=at < columns)


@program("scalar")
def softmax_online(data):
    rows, columns = data.rows(1024), 5000
    x = data.normal(rows, columns, scale=4.0)
    y = data.like(x)

    def run():
        online_softmax[(rows,)](x, y, columns, BLOCK=512)
        return (y,)

    return run


@triton.jit
def layer_norm(x_ptr, w_ptr, b_ptr, y_ptr, mean_ptr, rstd_ptr, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    x = tl.load(x_ptr + row * columns + at, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / columns
    centred = tl.where(inside, x - mean, 0.0)
    rstd = 1.0 / tl.sqrt(tl.sum(centred * centred, axis=0) / columns + eps)
    w = tl.load(w_ptr + at, mask=inside).to(tl.float32)
    b = tl.load(b_ptr + at, mask=inside).to(tl.float32)
    tl.store(y_ptr + row * columns + at, (centred * rstd * w + b).to(y_ptr.dtype.element_ty), mask=inside)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)


def _layer_norm(data, dtype, columns):
    rows = data.rows(4096)
    x, w, b = data.normal(rows, columns, dtype=dtype), data.normal(columns, dtype=dtype), data.normal(columns, dtype=dtype)
    y, mean, rstd = data.like(x), data.empty(rows), data.empty(rows)

    def run():
        layer_norm[(rows,)](x, w, b, y, mean, rstd, columns, 1e-5, BLOCK=triton.next_power_of_2(columns))
        return y, mean, rstd

    return run


program("scalar", name="layer_norm_f32", dtype=torch.float32, columns=1024)(_layer_norm)
program("scalar", name="layer_norm_f16", dtype=torch.float16, columns=768)(_layer_norm)


@triton.jit
def layer_norm_backward(dy_ptr, x_ptr, w_ptr, mean_ptr, rstd_ptr, dx_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    x = tl.load(x_ptr + row * columns + at, mask=inside, other=0.0)
    dy = tl.load(dy_ptr + row * columns + at, mask=inside, other=0.0)
    w = tl.load(w_ptr + at, mask=inside, other=0.0)
    mean, rstd = tl.load(mean_ptr + row), tl.load(rstd_ptr + row)
    hat = tl.where(inside, (x - mean) * rstd, 0.0)
    wdy = w * dy
    c1 = tl.sum(hat * wdy, axis=0) / columns
    c2 = tl.sum(wdy, axis=0) / columns
    tl.store(dx_ptr + row * columns + at, (wdy - (hat * c1 + c2)) * rstd, mask=inside)


@program("scalar")
def layer_norm_gradient(data):
    rows, columns = data.rows(4096), 1000
    x, dy, w = data.normal(rows, columns), data.normal(rows, columns), data.normal(columns)
    mean, rstd, dx = data.normal(rows, scale=0.1), data.uniform(rows, low=0.5, high=2.0), data.like(x)

    def run():
        layer_norm_backward[(rows,)](dy, x, w, mean, rstd, dx, columns, BLOCK=1024)
        return (dx,)

    return run


@triton.jit
def rms_norm(x_ptr, w_ptr, y_ptr, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    x = tl.load(x_ptr + row * columns + at, mask=inside, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + at, mask=inside).to(tl.float32)
    scale = tl.rsqrt(tl.sum(x * x, axis=0) / columns + eps)
    tl.store(y_ptr + row * columns + at, (x * scale * w).to(y_ptr.dtype.element_ty), mask=inside)


@program("scalar")
def rms_norm_bf16(data):
    rows, columns = data.rows(4096), 2048
    x, w = data.normal(rows, columns, dtype=torch.bfloat16), data.normal(columns, dtype=torch.bfloat16)
    y = data.like(x)

    def run():
        rms_norm[(rows,)](x, w, y, columns, 1e-6, BLOCK=2048, num_warps=8)
        return (y,)

    return run


@triton.jit
def cross_entropy(logits_ptr, label_ptr, loss_ptr, grad_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    label = tl.load(label_ptr + row)
    x = tl.load(logits_ptr + row * columns + at, mask=inside, other=float("-inf"))
    top = tl.max(x, axis=0)
    e = tl.exp(x - top)
    total = tl.sum(e, axis=0)
    chosen = tl.load(logits_ptr + row * columns + label)
    tl.store(loss_ptr + row, tl.log(total) + top - chosen)
    tl.store(grad_ptr + row * columns + at, e / total - tl.where(at == label, 1.0, 0.0), mask=inside)


@program("scalar")
def cross_entropy_f32(data):
    rows, columns = data.rows(2048), 2000
    x, labels = data.normal(rows, columns, scale=2.0), data.integers(rows, low=0, high=columns, dtype=torch.int64)
    loss, grad = data.empty(rows), data.like(x)

    def run():
        cross_entropy[(rows,)](x, labels, loss, grad, columns, BLOCK=2048, num_warps=8)
        return loss, grad

    return run


@triton.jit
def group_norm(x_ptr, w_ptr, b_ptr, y_ptr, channels, size, PER: tl.constexpr, BLOCK: tl.constexpr):
    group, sample = tl.program_id(0), tl.program_id(1)
    base = (sample * channels + group * PER) * size
    at = tl.arange(0, BLOCK)
    inside = at < size * PER
    x = tl.load(x_ptr + base + at, mask=inside, other=0.0)
    mean = tl.sum(x, axis=0) / (size * PER)
    d = tl.where(inside, x - mean, 0.0)
    rstd = tl.rsqrt(tl.sum(d * d, axis=0) / (size * PER) + 1e-5)
    channel = group * PER + at // size
    w = tl.load(w_ptr + channel, mask=inside)
    b = tl.load(b_ptr + channel, mask=inside)
    tl.store(y_ptr + base + at, d * rstd * w + b, mask=inside)


@program("scalar")
def group_norm_f32(data):
    samples, channels, size, per = data.rows(64), 64, 14 * 14, 8
    x, w, b = data.normal(samples, channels, size), data.normal(channels), data.normal(channels)
    y = data.like(x)

    def run():
        group_norm[(channels // per, samples)](x, w, b, y, channels, size, PER=per, BLOCK=2048)
        return (y,)

    return run


@triton.jit
def matmul_fma(a_ptr, b_ptr, c_ptr, k, n, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    c = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, k, BK):
        i = start + tl.arange(0, BK)
        a = tl.load(a_ptr + m[:, None] * k + i[None, :])
        b = tl.load(b_ptr + i[:, None] * n + c[None, :])
        total = tl.dot(a, b, total, input_precision="ieee")
    tl.store(c_ptr + m[:, None] * n + c[None, :], total)


@program("scalar", "dot")
def matmul_f32_by_fma(data):
    m, n, k = data.rows(1024), 512, 256
    m = max(m, 32)
    a, b, c = data.normal(m, k), data.normal(k, n), data.empty(m, n)

    def run():
        matmul_fma[(m // 32, n // 32)](a, b, c, k, n, BM=32, BN=32, BK=32)
        return (c,)

    return run
