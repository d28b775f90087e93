"""Triton: elementwise, a reduction, a softmax whose rows fill many registers, and a matrix product."""

from gpu import lacks_hopper as lacks

PACKAGES = ("triton", "numpy")


def switch(fallback):
    import orias

    return orias.triton.enable(fallback=fallback)


def ptxas():
    """Which ptxas is compared with: the one that comes with Triton, unless the environment names another one."""
    from orias import clients, triton

    return f"Triton's ptxas {clients.release_of(triton._own_ptxas())}"


def kernels():
    """Each kernel with the signature and the constants it is compiled for."""
    import triton
    import triton.language as tl

    @triton.jit
    def gelu(x, y, n, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        value = tl.load(x + at, mask=at < n)
        tl.store(y + at, value * tl.sigmoid(1.702 * value), mask=at < n)

    @triton.jit
    def layer_norm(x, y, n, ROW: tl.constexpr):
        at = tl.arange(0, ROW)
        row = tl.program_id(0) * n
        value = tl.load(x + row + at, mask=at < n, other=0.0)
        mean = tl.sum(value, 0) / n
        off = tl.where(at < n, value - mean, 0.0)
        scale = 1 / tl.sqrt(tl.sum(off * off, 0) / n + 1e-5)
        tl.store(y + row + at, off * scale, mask=at < n)

    @triton.jit
    def softmax(x, y, n, ROWS: tl.constexpr, ROW: tl.constexpr):
        rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
        at = rows[:, None] * n + tl.arange(0, ROW)[None, :]
        value = tl.load(x + at)
        value = tl.exp(value - tl.max(value, 1)[:, None])
        tl.store(y + at, value / tl.sum(value, 1)[:, None])

    @triton.jit
    def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
        m = tl.program_id(0) * BM + tl.arange(0, BM)
        n = tl.program_id(1) * BN + tl.arange(0, BN)
        k = tl.arange(0, BK)
        sum = tl.zeros((BM, BN), dtype=tl.float32)
        for start in range(0, K, BK):
            left = tl.load(a + m[:, None] * K + (start + k)[None, :])
            right = tl.load(b + (start + k)[:, None] * N + n[None, :])
            sum += tl.dot(left, right)
        tl.store(c + m[:, None] * N + n[None, :], sum.to(tl.float16))

    floats = {"x": "*fp32", "y": "*fp32", "n": "i32"}
    halves = {"a": "*fp16", "b": "*fp16", "c": "*fp16", "M": "i32", "N": "i32", "K": "i32"}
    return {
        "gelu": (gelu, floats, {"BLOCK": 1024}, 4),
        "layer_norm": (layer_norm, floats, {"ROW": 4096}, 8),
        "softmax_4x8192": (softmax, floats, {"ROWS": 4, "ROW": 8192}, 4),
        "matmul": (matmul, halves, {"BM": 128, "BN": 128, "BK": 64}, 8),
    }


def compiled():
    """The cubin of each kernel for sm_90, without a GPU."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    def make(kernel, signature, constants, warps):
        signature = {**signature, **dict.fromkeys(constants, "constexpr")}
        source = ASTSource(kernel, signature, constants)
        return [triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": warps}).asm["cubin"]]

    return {name: (lambda row=row: make(*row)) for name, row in kernels().items()}


def programs():
    import torch

    table = kernels()

    def float_program(name, shape, grid, *extra):
        def make():
            kernel, _, constants, warps = table[name]
            torch.manual_seed(1)
            x = torch.randn(shape, device="cuda")
            y = torch.empty_like(x)

            def run():
                kernel[grid](x, y, extra[0], **constants, num_warps=warps)
                torch.cuda.synchronize()

            return run, lambda: [y.cpu().numpy()]

        return make

    def matmul():
        kernel, _, constants, warps = table["matmul"]
        torch.manual_seed(2)
        a, b = (torch.randn((2048, 2048), device="cuda", dtype=torch.float16) for _ in range(2))
        c = torch.empty_like(a)

        def run():
            kernel[(16, 16)](a, b, c, 2048, 2048, 2048, **constants, num_warps=warps)
            torch.cuda.synchronize()

        return run, lambda: [c.cpu().numpy()]

    return {
        "gelu": float_program("gelu", (1 << 24,), (1 << 14,), 1 << 24),
        "layer_norm": float_program("layer_norm", (4096, 4000), (4096,), 4000),
        "softmax_4x8192": float_program("softmax_4x8192", (1024, 8192), (256,), 8192),
        "matmul": matmul,
    }
