#!/usr/bin/env python3
"""A softmax in Triton whose rows fill registers many times over: the PTX that ptxas takes minutes for, or does not finish.

    long_rows.py [--rows 8192,16384,32768,65536] [--limit 60] [--memory 8] [--gpu] [--keep FOLDER]

Triton makes the PTX, which needs no GPU; `PTXAS` and `ORIAS` name the commands (default: those on the path). A block is four rows, by
four warps. Both compile it for sm_90a, ptxas with at most `--limit` seconds of a processor and `--memory` GiB. With `--gpu` what both made is
launched on the same input, compared bit for bit, and timed: the median of 20 launches. `--keep` names a folder that PTX and cubins are left in, and are taken
from where it holds them, so that a machine without Triton or one of the commands can do the rest.
"""

import argparse
import ctypes
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "clients"))

ROWS, WARPS = 4, 4


def write_ptx(length, file):
    """What Triton 3.6 makes of a softmax over rows of this length."""
    import triton
    import triton.language as tl
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    @triton.jit
    def softmax(x, y, n, ROWS: tl.constexpr, ROW: tl.constexpr):
        rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
        at = tl.arange(0, ROW)
        place, inside = rows[:, None] * n + at[None, :], (at < n)[None, :]
        value = tl.load(x + place, mask=inside, other=float("-inf"))
        value = tl.exp(value - tl.max(value, 1)[:, None])
        tl.store(y + place, value / tl.sum(value, 1)[:, None], mask=inside)

    constants = {"ROWS": ROWS, "ROW": length}
    signature = {"x": "*fp32", "y": "*fp32", "n": "i32", **dict.fromkeys(constants, "constexpr")}
    source = ASTSource(softmax, signature, constants)
    # Its last step would be ptxas.
    made = {}
    compiler = triton.backends.backends["nvidia"].compiler
    stages_of = compiler.add_stages

    def without_cubin(self, stages, *rest):
        stages_of(self, stages, *rest)
        write = stages["ptx"]

        def keep(source, metadata):
            made["ptx"] = write(source, metadata)
            raise Stop

        stages["ptx"] = keep

    compiler.add_stages = without_cubin
    try:
        triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": WARPS})
    except Stop:
        pass
    finally:
        compiler.add_stages = stages_of
    file.write_text(made["ptx"])


class Stop(Exception):
    """The PTX is there."""


def compile(words, seconds, memory):
    """Processor time, wall time, peak memory in bytes, and what was said; or why there is none."""

    def limit():
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
        resource.setrlimit(resource.RLIMIT_AS, (memory << 30, memory << 30))

    with tempfile.TemporaryFile("w+") as said:
        started = time.perf_counter()
        process = subprocess.Popen(words, stdout=said, stderr=said, preexec_fn=limit)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = status
        said.seek(0)
        return {
            "code": os.waitstatus_to_exitcode(status),
            "processor": usage.ru_utime + usage.ru_stime,
            "wall": time.perf_counter() - started,
            "memory": usage.ru_maxrss << 10,
            "said": said.read(),
        }


def told(one):
    """A cell of the table."""
    if one is None:
        return "-"
    if one["code"] != 0:
        return f"not done after {one['processor']:.0f} s, {one['memory'] / 2**30:.1f} GiB"
    return f"{one['processor']:.2f} s, {one['memory'] / 2**20:.0f} MiB"


def uses(one):
    """Registers and bytes spilled, as -v says."""
    if one is None or one["code"] != 0:
        return "-"
    registers = re.search(r"Used (\d+) registers", one["said"])
    spills = re.search(r"(\d+) bytes spill stores", one["said"])
    return f"{registers.group(1) if registers else '?'} / {spills.group(1) if spills else '?'}"


def launch(driver, cubin, name, source, length, rows):
    """The output and the median time of a cubin."""
    import numpy

    module, function, made = ctypes.c_void_p(), ctypes.c_void_p(), numpy.zeros_like(source)
    driver.call("cuModuleLoadData", ctypes.byref(module), cubin)
    driver.call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
    shared = 65536
    driver.call("cuFuncSetAttribute", function, 8, shared)
    x, y = driver.copy_of(source), driver.copy_of(made)
    words = [x, y, ctypes.c_int(length), ctypes.c_uint64(0), ctypes.c_uint64(0)]
    pointers = (ctypes.c_void_p * len(words))(*(ctypes.addressof(word) for word in words))
    times = []
    for _ in range(21):
        driver.call("cuCtxSynchronize")
        started = time.perf_counter()
        driver.call("cuLaunchKernel", function, rows // ROWS, 1, 1, 32 * WARPS, 1, 1, shared, None, pointers, None)
        driver.call("cuCtxSynchronize")
        times.append(time.perf_counter() - started)
    out = driver.fetch(y, made)
    for address in (x, y):
        driver.call("cuMemFree_v2", address)
    return out, statistics.median(times[1:])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", default="8192,16384,32768,65536", help="lengths of rows")
    parser.add_argument("--limit", type=int, default=60, help="seconds of a processor for ptxas")
    parser.add_argument("--memory", type=int, default=8, help="GiB")
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--keep", type=Path)
    arguments = parser.parse_args()
    commands = {"orias": os.environ.get("ORIAS", "orias"), "ptxas": os.environ.get("PTXAS", "ptxas")}
    folder = arguments.keep or Path(tempfile.mkdtemp(prefix="long-rows-"))
    folder.mkdir(parents=True, exist_ok=True)
    if arguments.gpu:
        import numpy
        from gpu import Driver

        driver = Driver()
    print("| block | lines of PTX | Orias | ptxas | registers / bytes spilled, Orias | ptxas | outputs | time of ptxas's |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    wrong = 0
    for length in map(int, arguments.rows.split(",")):
        ptx = folder / f"softmax-{length}.ptx"
        if not ptx.exists():
            write_ptx(length, ptx)
        text = ptx.read_text()
        done, cubins = {}, {name: folder / f"softmax-{length}-{name}.cubin" for name in commands}
        for name, command in commands.items():
            if arguments.keep and arguments.gpu and cubins[name].exists():
                done[name] = None
                continue
            done[name] = compile([command, "-arch=sm_90a", "-v", ptx, "-o", cubins[name]], arguments.limit, arguments.memory)
        wrong += done["orias"] is not None and done["orias"]["code"] != 0
        equal = ratio = ""
        if arguments.gpu and all(cubin.exists() for cubin in cubins.values()):
            name = re.search(r"\.entry (\w+)", text).group(1)
            source = numpy.random.default_rng(7).standard_normal((528, length), dtype="f4")
            outputs = {who: launch(driver, cubin.read_bytes(), name, source, length, 528) for who, cubin in cubins.items()}
            same = outputs["orias"][0].tobytes() == outputs["ptxas"][0].tobytes()
            wrong += not same
            equal, ratio = "equal" if same else "different", f"{outputs['orias'][1] / outputs['ptxas'][1]:.3f}"
        cells = [f"{ROWS} x {length}", text.count("\n"), told(done["orias"]), told(done["ptxas"]), uses(done["orias"]), uses(done["ptxas"]), equal, ratio]
        print("| " + " | ".join(map(str, cells)) + " |", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
