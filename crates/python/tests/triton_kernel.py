"""Run by test_triton.py in a process of its own: compiles a kernel for sm_90 without a GPU."""

import os
import sys

import orias

if sys.argv[1] == "start":
    orias.triton.enable()

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def scale(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * 2 + 1, mask=at < n)


def compile(block):
    """The cubin, and who made it: ptxas leaves its name in the file, Orias does not leave that one."""
    source = ASTSource(scale, {"x": "*fp32", "y": "*fp32", "n": "i32", "BLOCK": "constexpr"}, {"BLOCK": block})
    made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 1})
    return made.asm["cubin"], made


def who(cubin, count):
    return "orias" if count else "own"


how = sys.argv[1]
if how == "start":
    cubin, _ = compile(64)
    count = orias.count()
    print("orias" if count.orias == 1 else "own", "count", count.total)
elif how == "back":
    first, _ = compile(64)
    switch = orias.triton.enable()
    second, _ = compile(64)
    made = switch.count.orias
    switch.disable()
    third, _ = compile(64)
    print("own" if first != second else "same", who(second, made), "own" if third == first else "other", "count", switch.count.total)
elif how == "run":
    import numpy

    with orias.triton.enable():
        cubin, made = compile(64)
    x, y = numpy.arange(100, dtype="f4"), numpy.zeros(100, "f4")
    kernel = orias.Cubin(cubin)
    # Triton's kernels have parameters for scratch memory behind those of the source.
    extra = len(kernel["scale"].parameters) - 3
    orias.run(kernel, x, y, numpy.int32(100), *[numpy.int64(0)] * extra, grid=2, block=32)
    print("equal" if (y == x * 2 + 1).all() else "different")
elif how == "knob":
    own = triton.knobs.nvidia.ptxas.path
    triton.knobs.nvidia.ptxas = own
    with orias.triton.enable() as switch:
        compile(64)
        print(who(None, switch.count.orias))
    print("knob" if triton.knobs.nvidia.ptxas.path == own else "lost")
elif how == "fallback":
    from triton.backends.nvidia.compiler import get_ptxas

    own = get_ptxas(90).path
    with orias.triton.enable(fallback=True) as switch:
        assert os.environ["ORIAS_FALLBACK"] == own
        compile(64)
        print(who(None, switch.count.orias), "count", switch.count.total)
