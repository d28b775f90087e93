"""Programs that torch.compile makes into Triton kernels.

No program here multiplies matrices: what torch.compile leaves to libraries never meets the assembler. Autotuning by measured time is
off (see `settings` in the driver), because a choice between kernels that depends on their speed may change the results' last bits.
"""

import torch
import torch.nn.functional as F

from . import program


def _compiled(name, gradient=False):
    """A program from a function that takes `data` and returns (function to compile, its arguments).

    With `gradient`, the gradient with respect to the first argument is a second output: its kernels are compiled, too.
    """

    def add(make):
        def prepare(data):
            function, arguments = make(data)
            fast = torch.compile(function, dynamic=False)
            if gradient:
                arguments[0].requires_grad_(True)

            def run():
                outputs = fast(*arguments)
                if gradient:
                    return outputs.detach(), torch.autograd.grad(outputs, arguments[0], torch.ones_like(outputs))[0]
                return tuple(outputs) if isinstance(outputs, (tuple, list)) else (outputs,)

            return run

        program("scalar", "compile", name=f"compile_{name}")(prepare)
        return make

    return add


@_compiled("pointwise_chain")
def _(data):
    return lambda a, b, c: torch.relu(a * b + c).sin() * torch.sigmoid(a - c), [data.normal(data.rows(2048), 1024) for _ in range(3)]


@_compiled("bias_gelu_bf16")
def _(data):
    x, b = data.normal(data.rows(4096), 1024, dtype=torch.bfloat16), data.normal(1024, dtype=torch.bfloat16)
    return lambda x, b: F.gelu(x + b, approximate="tanh"), [x, b]


@_compiled("softmax")
def _(data):
    return lambda x: F.softmax(x, dim=-1), [data.normal(data.rows(2048), 1500)]


@_compiled("log_softmax_columns")
def _(data):
    return lambda x: F.log_softmax(x, dim=0), [data.normal(512, data.rows(1024))]


@_compiled("layer_norm_residual")
def _(data):
    x, r = data.normal(data.rows(4096), 768, dtype=torch.float16), data.normal(data.rows(4096), 768, dtype=torch.float16)
    w, b = data.normal(768, dtype=torch.float16), data.normal(768, dtype=torch.float16)
    return lambda x, r, w, b: F.layer_norm(x + r, (768,), w, b), [x, r, w, b]


@_compiled("layer_norm_gradient", gradient=True)
def _(data):
    x, w, b = data.normal(data.rows(2048), 1024), data.normal(1024), data.normal(1024)
    return lambda x, w, b: F.layer_norm(x, (1024,), w, b) ** 2, [x, w, b]


@_compiled("rms_norm")
def _(data):
    x, w = data.normal(data.rows(4096), 2048, dtype=torch.bfloat16), data.normal(2048, dtype=torch.bfloat16)

    def rms(x, w):
        z = x.float()
        return (z * torch.rsqrt(z.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * w

    return rms, [x, w]


@_compiled("batch_norm")
def _(data):
    x, w, b = data.normal(data.rows(32), 64, 28, 28), data.normal(64), data.normal(64)
    return lambda x, w, b: F.relu(F.batch_norm(x, None, None, w, b, training=True)), [x, w, b]


@_compiled("group_norm_silu")
def _(data):
    x, w, b = data.normal(data.rows(32), 64, 16, 16), data.normal(64), data.normal(64)
    return lambda x, w, b: F.silu(F.group_norm(x, 8, w, b)), [x, w, b]


@_compiled("cross_entropy_gradient", gradient=True)
def _(data):
    x = data.normal(data.rows(1024), 3000)
    labels = data.integers(data.rows(1024), low=0, high=3000, dtype=torch.int64)
    return lambda x, labels: F.cross_entropy(x, labels, reduction="none"), [x, labels]


@_compiled("variance_and_mean")
def _(data):
    return lambda x: torch.var_mean(x, dim=1), [data.normal(data.rows(1024), 5000)]


@_compiled("full_sum_f64")
def _(data):
    return lambda x: (x.sin() * x).sum(), [data.normal(data.rows(1 << 20), dtype=torch.float64)]


@_compiled("argmax_and_max")
def _(data):
    return lambda x: (x.argmax(dim=1), x.amax(dim=1), x.amin(dim=1)), [data.normal(data.rows(2048), 1777)]


@_compiled("cumsum")
def _(data):
    return lambda x: x.cumsum(dim=1) * 0.5, [data.normal(data.rows(1024), 2048)]


@_compiled("sort_rows")
def _(data):
    return lambda x: torch.sort(x, dim=1, stable=True), [data.normal(data.rows(4096), 32)]


@_compiled("integer_arithmetic")
def _(data):
    x, y = data.bits(data.rows(1 << 20)), data.integers(data.rows(1 << 20), low=1, high=1000)
    return lambda x, y: ((x // y) ^ (x % y), (x << 3) & (y >> 1), torch.bitwise_not(x) | y, x * y + 17), [x, y]


@_compiled("int64_division")
def _(data):
    x, y = data.bits(data.rows(1 << 19), dtype=torch.int64), data.integers(data.rows(1 << 19), low=1, high=100000, dtype=torch.int64)
    return lambda x, y: (torch.div(x, y, rounding_mode="floor"), x % y), [x, y]


@_compiled("f64_functions")
def _(data):
    x = data.uniform(data.rows(1 << 18), dtype=torch.float64, low=0.1, high=4.0)
    return lambda x: torch.exp(-x) * torch.log1p(x) + torch.tanh(x) / torch.sqrt(x + 1), [x]


@_compiled("special_functions")
def _(data):
    x = data.uniform(data.rows(1 << 20), low=0.05, high=5.0)
    return lambda x: torch.erf(x) + torch.lgamma(x) + torch.digamma(x) + torch.special.i0(x), [x]


@_compiled("embedding_sum")
def _(data):
    table, index = data.normal(3000, 256), data.integers(data.rows(512), 20, low=0, high=3000, dtype=torch.int64)
    return lambda table, index: F.embedding(index, table).sum(dim=1), [table, index]


@_compiled("gather_where")
def _(data):
    x, index = data.normal(data.rows(1024), 512), data.integers(data.rows(1024), 512, low=0, high=512, dtype=torch.int64)
    return lambda x, index: torch.where(index % 3 == 0, x.gather(1, index), -x), [x, index]


@_compiled("rotary_embedding")
def _(data):
    tokens = data.rows(1024)
    x, cos, sin = data.normal(tokens, 16, 128, dtype=torch.bfloat16), data.normal(tokens, 1, 128), data.normal(tokens, 1, 128)

    def rotate(x, cos, sin):
        a, b = x.chunk(2, dim=-1)
        return (x * cos + torch.cat((-b, a), dim=-1) * sin).to(x.dtype)

    return rotate, [x, cos, sin]


@_compiled("max_pool")
def _(data):
    return lambda x: F.max_pool2d(x, 3, stride=2, padding=1), [data.normal(data.rows(16), 64, 56, 56)]


@_compiled("average_pool")
def _(data):
    return lambda x: F.avg_pool2d(x, 2) + 1.0, [data.normal(data.rows(16), 64, 56, 56, dtype=torch.float16)]


@_compiled("bilinear_upsample")
def _(data):
    return lambda x: F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False), [data.normal(data.rows(8), 32, 40, 40)]


@_compiled("transpose_cat")
def _(data):
    x, y = data.normal(data.rows(64), 128, 96), data.normal(data.rows(64), 96, 128)
    return lambda x, y: torch.cat((x.transpose(1, 2).contiguous() * 2, y + 1), dim=2), [x, y]


@_compiled("adamw")
def _(data):
    n = data.rows(1 << 20)

    def step(p, g, m, v):
        m = torch.lerp(m, g, 0.1)
        v = v * 0.999 + g * g * 0.001
        return p * (1 - 1e-5) - 1e-3 * (m / 0.1) / ((v / 0.001).sqrt() + 1e-8), m, v

    return step, [data.normal(n), data.normal(n), data.normal(n), data.uniform(n)]


@_compiled("attention_scores")
def _(data):
    scores, mask = data.normal(data.rows(64), 128, 128, dtype=torch.float16), data.integers(128, 128, low=0, high=2) > 0
    return lambda s, mask: F.softmax((s * 0.125).masked_fill(mask, -1e4), dim=-1), [scores, mask]


@_compiled("quantize_int8")
def _(data):
    x = data.normal(data.rows(2048), 1024, dtype=torch.bfloat16)

    def quantize(x):
        scale = x.float().abs().amax(dim=1, keepdim=True) / 127
        q = torch.clamp(torch.round(x.float() / scale), -128, 127).to(torch.int8)
        return q, scale, q.float() * scale

    return quantize, [x]
