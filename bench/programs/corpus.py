"""Kernels of a corpus of PTX modules of which nobody wrote down how they are launched.

MODULES names a folder of modules with one kernel each, as torch.compile makes them. Each becomes a program: every pointer gets a region of
its own, random numbers, or small integers where indices are loaded; the grid comes from the number of elements that a block of the kernel
takes and from the bound it checks, and is otherwise large enough to fill the chip. What such a launch computes means nothing, but it is
the same with every assembler, and so is the work.
"""

import ctypes
import json
import os
import re
import subprocess
import tempfile
from pathlib import Path

import torch

from . import Program, PROGRAMS

#: Bytes of each pointer's region, and where in it the pointer points: indices may be larger than expected, or negative.
REGION, START = 1 << 27, 1 << 25

#: Elements of a launch whose kernel checks no bound, and blocks at most.
ELEMENTS, BLOCKS = 1 << 22, 4096

#: Dynamic shared memory where a kernel uses any, which the PTX does not tell: tiles of matrix products take up to all there is.
SHARED, SHARED_BY_TILES = 32 << 10, 227 << 10

MATRIX = re.compile(r"\b(wgmma|mma\.sync)")
OUT_OF_SCOPE = re.compile(r"\b(mbarrier|cp\.async\.bulk|tensormap)")


def shape(text):
    """The grid for a kernel."""
    if "%ctaid.y" in text:
        return (64, 32, 1)
    block = re.search(r"mov\.u32 \s*(%r\d+), %ctaid\.x;(?:\n\s*\.loc[^\n]*)*\n\s*shl\.b32 \s*%r\d+, \1, (\d+);", text)
    elements = 1 << int(block[2]) if block else 1
    # The first comparison with a number checks whether there are elements for this thread.
    bound = re.search(r"setp\.(?:lt|gt|le|ge)\.[su]32 \s*%p\d+, %r\d+, (\d+);", text)
    if bound and int(bound[1]) > elements:
        return (min(BLOCKS, -(-int(bound[1]) // elements)), 1, 1)
    return (min(BLOCKS, max(1, ELEMENTS // max(elements, 512))), 1, 1)


def prepare(source):
    """Loads a module as ptxas makes it and returns its launch."""
    import assemblers
    import triton

    text = source.read_text()
    entry = re.search(r"\.entry\s+([\w$]+)\s*\((.*?)\)", text, re.S)
    name = entry[1]
    kinds = [line.split() for line in entry[2].split("\n") if ".param" in line]
    threads = int(re.search(r"\.reqntid\s+(\d+)", text)[1])
    shared = (SHARED_BY_TILES if MATRIX.search(text) else SHARED) if ".extern .shared" in text else 0
    with tempfile.TemporaryDirectory() as scratch:
        cubin = Path(scratch) / "code.cubin"
        subprocess.run([assemblers.ptxas(), "-lineinfo", "--gpu-name=sm_90a", str(source), "-o", str(cubin)], check=True)
        about = Path(scratch) / "about.json"
        about.write_text(json.dumps({"shared": shared}))
        module, function, *_ = triton.runtime.driver.active.utils.load_binary(name, cubin.read_bytes(), shared, 0)
        group = {"code.ptx": str(source), "code.cubin": str(cubin), "code.json": str(about)}
        triton.knobs.runtime.kernel_load_end_hook(module, function, name, group, "")
    # Indices must be small, and where the kernel checks them by assertions, of any width, zero.
    largest = 1 if "__assertfail" in text else 64 if re.search(r"ld\.global[^;]*\.b64", text) else None
    pointers = sum(".ptr" in kind for kind in kinds)
    generator = torch.Generator(device="cuda")
    generator.manual_seed(7)
    if largest:
        first = torch.randint(0, largest, (REGION // 8,), generator=generator, device="cuda", dtype=torch.int64)
    else:
        first = torch.rand(REGION // 4, generator=generator, device="cuda")
    regions = torch.empty(pointers, first.numel(), dtype=first.dtype, device="cuda")
    words, pointer = [], 0
    for kind in kinds:
        if ".ptr" in kind:
            words.append(ctypes.c_uint64(regions[pointer].data_ptr() + START))
            pointer += 1
        else:
            words.append(ctypes.c_uint64(1024))
    arguments = (ctypes.c_void_p * len(words))(*(ctypes.addressof(word) for word in words))
    grid = shape(text)
    library = ctypes.CDLL("libcuda.so.1")

    def run():
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        function_handle = ctypes.c_void_p(function)
        code = library.cuLaunchKernel(function_handle, *grid, threads, 1, 1, shared, stream, arguments, None)
        if code:
            raise RuntimeError(f"CUDA error {code} at the launch")
        return (regions,)

    run.reset = lambda: regions.copy_(first.expand_as(regions))
    run.reset()
    # The array of arguments holds their addresses only.
    run.keep = words
    return run


for source in sorted(Path(os.environ["MODULES"]).glob("*.ptx")) if os.environ.get("MODULES") else ():
    text = source.read_text()
    if not OUT_OF_SCOPE.search(text):
        kind = "matrix" if MATRIX.search(text) else "scalar"
        PROGRAMS[source.stem] = Program(source.stem, frozenset({kind, "corpus"}), lambda _, source=source: prepare(source))
