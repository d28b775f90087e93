"""Elementwise programs: activations, arithmetic in every floating type, conversions."""

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from . import program

N = 1 << 22


@triton.jit
def unary(x_ptr, y_ptr, n, OP: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    x = tl.load(x_ptr + at, mask=inside, other=0.0)
    if OP == "relu":
        y = tl.maximum(x, 0.0)
    elif OP == "sigmoid":
        y = tl.sigmoid(x)
    elif OP == "silu":
        z = x.to(tl.float32)
        y = z * tl.sigmoid(z)
    elif OP == "gelu_erf":
        y = 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
    elif OP == "gelu_tanh":
        y = 0.5 * x * (1.0 + libdevice.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))
    elif OP == "mish":
        y = x * libdevice.tanh(libdevice.log1p(tl.exp(x)))
    elif OP == "softplus":
        z = x.to(tl.float32)
        y = tl.where(z > 20.0, z, tl.log(1.0 + tl.exp(z)))
    elif OP == "elu":
        y = tl.where(x > 0, x, libdevice.expm1(x))
    elif OP == "trig":
        y = tl.sin(x) * tl.cos(x * 3.0)
    elif OP == "log_exp":
        y = tl.log2(tl.abs(x) + 1.0) + tl.exp2(x * 0.25) + tl.log(tl.abs(x) + 0.5)
    elif OP == "roots":
        y = tl.sqrt_rn(tl.abs(x)) + tl.rsqrt(tl.abs(x) + 1.0) + tl.div_rn(1.0, x + 8.0)
    elif OP == "rounding":
        y = tl.floor(x) + 2.0 * tl.ceil(x * 3.0) + 4.0 * libdevice.rint(x * 7.0) + libdevice.trunc(x * 5.0)
    elif OP == "inverse":
        y = libdevice.atan(x) + libdevice.asinh(x) + libdevice.erfinv(libdevice.tanh(x * 0.1))
    elif OP == "cbrt_lgamma":
        y = libdevice.cbrt(x) + libdevice.lgamma(tl.abs(x) + 1.5)
    elif OP == "special":
        y = tl.where(x != x, -7.0, tl.minimum(tl.maximum(x, -100.0), 100.0))
    elif OP == "f64_exp":
        y = tl.exp(x) + tl.log(tl.abs(x) + 1.0)
    elif OP == "f64_div":
        y = (x * x + 1.0) / (x + 9.0) + tl.sqrt(tl.abs(x))
    tl.store(y_ptr + at, y.to(y_ptr.dtype.element_ty), mask=inside)


def _unary(data, op, dtype=torch.float32, block=1024, kind="normal", num_warps=4):
    n = data.rows(N) - 13
    x = data.floats(n) if kind == "floats" else data.normal(n, dtype=dtype, scale=2.0)
    y = data.like(x)
    grid = (triton.cdiv(n, block),)

    def run():
        unary[grid](x, y, n, OP=op, BLOCK=block, num_warps=num_warps)
        return (y,)

    return run


for _op, _dtype in [
    ("relu", torch.float16),
    ("sigmoid", torch.float32),
    ("silu", torch.bfloat16),
    ("gelu_erf", torch.float32),
    ("gelu_tanh", torch.float32),
    ("mish", torch.float32),
    ("softplus", torch.float16),
    ("elu", torch.float32),
    ("trig", torch.float32),
    ("log_exp", torch.float32),
    ("roots", torch.float32),
    ("rounding", torch.float32),
    ("inverse", torch.float32),
    ("cbrt_lgamma", torch.float32),
    ("f64_exp", torch.float64),
    ("f64_div", torch.float64),
]:
    program("scalar", name=_op if _op.startswith("f64") else f"{_op}_{str(_dtype).split('.')[1]}", op=_op, dtype=_dtype)(_unary)
program("scalar", name="special_values", op="special", kind="floats")(_unary)


@triton.jit
def binary(a_ptr, b_ptr, y_ptr, n, alpha, OP: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    a = tl.load(a_ptr + at, mask=inside)
    b = tl.load(b_ptr + at, mask=inside)
    if OP == "axpy":
        y = a * alpha + b
    elif OP == "swiglu":
        g = a.to(tl.float32)
        y = g * tl.sigmoid(g) * b.to(tl.float32)
    elif OP == "fma":
        y = tl.fma(a, b, a) - tl.fma(b, b, -a)
    elif OP == "div":
        y = a / b + tl.fdiv(b, a + 4.0)
    elif OP == "minmax":
        y = tl.maximum(tl.minimum(a, b), -b) + tl.where(a > b, a, b)
    elif OP == "atan2":
        y = libdevice.atan2(a, b) + libdevice.hypot(a, b)
    elif OP == "pow":
        y = libdevice.pow(tl.abs(a) + 0.01, b)
    elif OP == "fmod":
        y = libdevice.fmod(a * 10.0, b) + libdevice.copysign(a, b)
    elif OP == "f64":
        y = a * b + a - b * 0.5
    elif OP == "half_math":
        y = a * b + a * 2.0 - b
    tl.store(y_ptr + at, y.to(y_ptr.dtype.element_ty), mask=inside)


def _binary(data, op, dtype=torch.float32, block=1024):
    n = data.rows(N) - 5
    a, b = data.normal(n, dtype=dtype), data.normal(n, dtype=dtype)
    y = data.like(a)

    def run():
        binary[(triton.cdiv(n, block),)](a, b, y, n, 1.5, OP=op, BLOCK=block)
        return (y,)

    return run


for _op, _dtype in [
    ("axpy", torch.float32),
    ("axpy", torch.float16),
    ("axpy", torch.bfloat16),
    ("swiglu", torch.bfloat16),
    ("fma", torch.float32),
    ("div", torch.float32),
    ("minmax", torch.float16),
    ("minmax", torch.bfloat16),
    ("atan2", torch.float32),
    ("pow", torch.float32),
    ("fmod", torch.float32),
    ("half_math", torch.float16),
    ("half_math", torch.bfloat16),
]:
    program("scalar", name=f"{_op}_{str(_dtype).split('.')[1]}", op=_op, dtype=_dtype)(_binary)
program("scalar", name="muladd_f64", op="f64", dtype=torch.float64)(_binary)


@triton.jit
def quantize_rows(x_ptr, q_ptr, scale_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    x = tl.load(x_ptr + row * columns + at, mask=inside, other=0.0).to(tl.float32)
    largest = tl.max(tl.abs(x), axis=0)
    scale = tl.maximum(largest, 1e-6) / 127.0
    q = libdevice.rint(x / scale)
    q = tl.minimum(tl.maximum(q, -128.0), 127.0).to(tl.int8)
    tl.store(q_ptr + row * columns + at, q, mask=inside)
    tl.store(scale_ptr + row, scale)


@program("scalar", "int8")
def quantize_int8(data):
    rows, columns = data.rows(4096), 1000
    x = data.normal(rows, columns, dtype=torch.bfloat16)
    q, scale = data.empty(rows, columns, dtype=torch.int8), data.empty(rows)

    def run():
        quantize_rows[(rows,)](x, q, scale, columns, BLOCK=1024)
        return q, scale

    return run


@triton.jit
def dequantize(q_ptr, scale_ptr, y_ptr, n, columns, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    q = tl.load(q_ptr + at, mask=inside).to(tl.float32)
    scale = tl.load(scale_ptr + at // columns, mask=inside)
    tl.store(y_ptr + at, (q * scale).to(tl.bfloat16), mask=inside)


@program("scalar", "int8")
def dequantize_int8(data):
    rows, columns = data.rows(4096), 1000
    q = data.bits(rows, columns, dtype=torch.int8)
    scale = data.uniform(rows)
    y = data.empty(rows, columns, dtype=torch.bfloat16)
    n = rows * columns

    def run():
        dequantize[(triton.cdiv(n, 1024),)](q, scale, y, n, columns, BLOCK=1024)
        return (y,)

    return run


@triton.jit
def fp8_round_trip(x_ptr, y_ptr, bits_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    x = tl.load(x_ptr + at, mask=inside, other=0.0)
    e4 = x.to(tl.float8e4nv)
    e5 = x.to(tl.float8e5)
    tl.store(bits_ptr + at, e4.to(tl.uint8, bitcast=True), mask=inside)
    tl.store(y_ptr + at, e4.to(tl.float32) + e5.to(tl.float32), mask=inside)


@program("scalar", "fp8")
def fp8_conversions(data):
    n = data.rows(N)
    x = data.normal(n, scale=30.0)
    y, bits = data.like(x), data.empty(n, dtype=torch.uint8)

    def run():
        fp8_round_trip[(triton.cdiv(n, 1024),)](x, y, bits, n, BLOCK=1024)
        return y, bits

    return run


@triton.jit
def conversions(x_ptr, i_ptr, h_ptr, b_ptr, d_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    x = tl.load(x_ptr + at, mask=inside, other=0.0)
    i = (x * 100.0).to(tl.int32)
    wide = (x * 1e10).to(tl.int64)
    tl.store(i_ptr + at, i + wide.to(tl.int32), mask=inside)
    tl.store(h_ptr + at, x.to(tl.float16) + i.to(tl.float16), mask=inside)
    tl.store(b_ptr + at, x.to(tl.bfloat16), mask=inside)
    tl.store(d_ptr + at, x.to(tl.float64) * 0.1 + wide.to(tl.float64), mask=inside)


@program("scalar")
def conversions_between_types(data):
    n = data.rows(N)
    x = data.normal(n)
    outputs = (data.like(x, torch.int32), data.like(x, torch.float16), data.like(x, torch.bfloat16), data.like(x, torch.float64))

    def run():
        conversions[(triton.cdiv(n, 512),)](x, *outputs, n, BLOCK=512)
        return outputs

    return run
