"""Numba: the PTX that it makes, compiled by hand: by `orias.compile`, or by the ptxas on the path. (Numba itself lets the driver do it.)

Numba makes PTX without a GPU. With `NUMBA_PTX=FOLDER` it is kept there, and read from there where Numba is not installed.
"""

import ctypes
import importlib.util
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from gpu import Driver, lacks_hopper

KEPT = Path(os.environ["NUMBA_PTX"]) if os.environ.get("NUMBA_PTX") else None
MAKES = importlib.util.find_spec("numba") is not None
PACKAGES = ("numpy",) if KEPT and not MAKES else ("numba", "numpy")

_assembler = "ptxas"


class _Count:
    """What `orias.compile` was asked for: no process is run, so no log is written."""

    orias = ptxas = failed = 0
    refusals: dict = {}


class _Switch:
    count = _Count()


def switch(fallback):
    """There is nothing to fall back on: the PTX is compiled by hand."""
    global _assembler
    _assembler = "orias"
    return _Switch


def lacks():
    return "ptxas" if shutil.which("ptxas") is None else lacks_hopper()


def ptxas():
    """Which ptxas is compared with."""
    from orias import clients

    return f"ptxas {clients.release_of('ptxas')}"


def assemble(ptx):
    if _assembler == "orias":
        import orias

        try:
            made = orias.compile(ptx, arch="sm_90")
        except orias.CompileError as error:
            _Count.failed += 1
            _Count.refusals = {**_Count.refusals, str(error).splitlines()[0]: 1}
            raise
        _Count.orias += 1
        return bytes(made)
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = os.path.join(folder, "in.ptx"), os.path.join(folder, "out.cubin")
        with open(source, "w") as file:
            file.write(ptx)
        subprocess.run(["ptxas", "-arch=sm_90", source, "-o", cubin], check=True, capture_output=True)
        with open(cubin, "rb") as file:
            return file.read()


def ptx_of():
    """Each kernel's PTX."""
    if not MAKES:
        return {file.stem: file.read_text() for file in sorted(KEPT.glob("*.ptx"))}
    from numba import cuda, float32, int32

    def saxpy(a, x, y):
        at = cuda.grid(1)
        if at < y.size:
            y[at] = a * x[at] + y[at]

    def stencil(x, y):
        at = cuda.grid(1)
        if 0 < at < x.size - 1:
            y[at] = x[at - 1] - 2 * x[at] + x[at + 1]

    def count(x, y):
        cuda.atomic.add(y, x[cuda.grid(1)] & 15, 1)

    rows = {
        "saxpy": (saxpy, (float32, float32[::1], float32[::1])),
        "stencil": (stencil, (float32[::1], float32[::1])),
        "count": (count, (int32[::1], int32[::1])),
    }
    made = {name: cuda.compile_ptx(function, types, cc=(9, 0))[0] for name, (function, types) in rows.items()}
    for name, ptx in made.items() if KEPT else ():
        KEPT.mkdir(parents=True, exist_ok=True)
        (KEPT / f"{name}.ptx").write_text(ptx)
    return made


def compiled():
    return {name: (lambda ptx=ptx: [assemble(ptx)]) for name, ptx in ptx_of().items()}


def programs():
    import numpy

    driver = Driver()
    size = 1 << 20

    def program(name, scalars, inputs):
        def make():
            ptx = ptx_of()[name]
            entry = ptx.split(".entry", 1)[1].split("(", 1)[0].strip()
            module, function = ctypes.c_void_p(), ctypes.c_void_p()
            addresses = [driver.copy_of(values) for values in inputs]
            words = list(scalars)
            for address, values in zip(addresses, inputs):
                # Numba's array of one dimension is seven words, the data's address among them.
                words += map(ctypes.c_uint64, (0, 0, values.size, values.itemsize, address.value, values.size, values.itemsize))
            pointers = (ctypes.c_void_p * len(words))(*(ctypes.addressof(word) for word in words))

            def run():
                if not module:
                    driver.call("cuModuleLoadData", ctypes.byref(module), assemble(ptx))
                    driver.call("cuModuleGetFunction", ctypes.byref(function), module, entry.encode())
                driver.call("cuLaunchKernel", function, size // 256, 1, 1, 256, 1, 1, 0, None, pointers, None)
                driver.call("cuCtxSynchronize")

            return run, lambda: [driver.fetch(address, values) for address, values in zip(addresses, inputs)]

        return make

    numbers = numpy.random.default_rng(6)
    x, y = numbers.standard_normal((2, size), dtype="f4")
    whole = numbers.integers(0, 1 << 20, size, dtype="i4")
    return {
        "saxpy": program("saxpy", [ctypes.c_float(2)], [x, y]),
        "stencil": program("stencil", [], [x, numpy.zeros(size, "f4")]),
        "count": program("count", [], [whole, numpy.zeros(16, "i4")]),
    }
