#!/usr/bin/env python3
"""Litmus tests of the PTX memory model, on a GPU.

    litmus.py run [--runs N] [--filter TEXT] [--assemblers orias-O0,orias-O3,ptxas-O3]   counts outcomes, lists forbidden ones; exit code 1 if there are some
    litmus.py make FOLDER                                                                writes the PTX of every test

    ORIAS     the orias command (default: target/release/orias of this repository)
    PTXAS     NVIDIA's ptxas, for the assemblers of that name (default: the one on the PATH)

A *shape* is what two to four threads do and which outcome is forbidden if they synchronise; a *way* is how they do: nothing (relaxed accesses
only, then the outcome is allowed, and seeing it says that the test can fail), releases and acquires, or fences. Shapes are made for scopes and memories: threads of
one block in shared or global memory, blocks of a cluster in shared memory of the first or in global memory, blocks of a grid in global memory.

Each lane of a warp is one thread of a test, with places of its own in each trip of a loop. Those who belong together start a trip together: at a
barrier of the block or the cluster, or, in a grid, when a counter says that all are there (or after a while, so that nothing can hang). A run is one
test of one lane in one trip.
"""

import argparse
import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

BENCH = Path(__file__).resolve().parent

#: Lanes of each role that take part, and trips of a launch.
LANES = 128
TRIPS = 32
#: Groups of threads that belong together, and runs of a launch.
GROUPS = 128
RUNS = GROUPS * TRIPS * LANES
#: Which run's place of x lies where this one's place of y does, in the other half: bits to flip.
SCATTER = 0x15c0

# What a thread does: ("st", place, value), ("ld", place, register) or ("fence",). `order` says which access releases or acquires
# where accesses do the work.
SHAPES = {
    # name: roles, forbidden outcome over registers and final values, ways in which it is forbidden
    "MP": ([[("st", "x", 1), ("fence",), ("st", "y", 1, "release")],
            [("ld", "y", 0, "acquire"), ("fence",), ("ld", "x", 1)]],
           {0: 1, 1: 0}, ["access", "acq_rel", "split", "sc"]),
    "LB": ([[("ld", "x", 0, "acquire"), ("fence",), ("st", "y", 1, "release")],
            [("ld", "y", 1, "acquire"), ("fence",), ("st", "x", 1, "release")]],
           {0: 1, 1: 1}, ["access", "acq_rel", "split", "sc"]),
    "SB": ([[("st", "x", 1), ("fence",), ("ld", "y", 0)],
            [("st", "y", 1), ("fence",), ("ld", "x", 1)]],
           {0: 0, 1: 0}, ["sc"]),
    "R": ([[("st", "x", 1), ("fence",), ("st", "y", 1)],
           [("st", "y", 2), ("fence",), ("ld", "x", 0)]],
          {"y": 2, 0: 0}, ["sc"]),
    "2+2W": ([[("st", "x", 1), ("fence",), ("st", "y", 2)],
              [("st", "y", 1), ("fence",), ("st", "x", 2)]],
             {"x": 1, "y": 1}, ["sc"]),
    "CoRR": ([[("st", "x", 1)],
              [("ld", "x", 0), ("ld", "x", 1)]],
             {0: 1, 1: 0}, ["none"]),
    "IRIW": ([[("st", "x", 1)], [("st", "y", 1)],
              [("ld", "x", 0, "acquire"), ("fence",), ("ld", "y", 1)],
              [("ld", "y", 2, "acquire"), ("fence",), ("ld", "x", 3)]],
             {0: 1, 1: 0, 2: 1, 3: 0}, ["sc"]),
}

#: Scope, and where the places are.
SITES = [("cta", "shared"), ("cta", "global"), ("cluster", "shared::cluster"), ("cluster", "global"), ("gpu", "global"), ("sys", "global")]

WAYS = ["none", "access", "acq_rel", "split", "sc"]


def access(step, way, scope, space, address):
    """An access of a role: its order comes from the way."""
    kind, _, what = step[:3]
    order = step[3] if way == "access" and len(step) > 3 else "relaxed"
    if kind == "st":
        return f"    st.{order}.{scope}.{space}.u32 [{address}], {what};\n"
    return f"    ld.{order}.{scope}.{space}.u32 %v{what}, [{address}];\n"


def fence(way, scope, before):
    """The fence of a way; where it is split, who stores releases and who loads acquires."""
    if way == "split":
        return f"    fence.{'acquire' if before == 'ld' else 'release'}.{scope};\n"
    return {"acq_rel": f"    fence.acq_rel.{scope};\n", "sc": f"    fence.sc.{scope};\n"}.get(way, "")


def kernel(shape, way, scope, where):
    """The PTX of a test: kernel `litmus(places, results, counters)`."""
    roles = SHAPES[shape][0]
    count = len(roles)
    space = where
    near = where == "shared"
    cluster = scope == "cluster"
    together = scope == "cta"
    lines = [f".version 9.0\n.target sm_90a\n.address_size 64\n\n.visible .entry litmus(.param .u64 places, .param .u64 results, .param .u64 counters)\n"]
    if cluster:
        lines.append(f"    .explicitcluster .reqnctapercluster {count}, 1, 1\n")
    lines.append("{\n    .reg .pred %p<4>;\n    .reg .b32 %r<20>, %v<8>;\n    .reg .b64 %rd<20>;\n")
    lines.append(f"    .shared .align 128 .b32 near[{2 * LANES * 32 if where != 'global' else 32}];\n")
    lines.append("    ld.param.u64 %rd0, [places];\n    ld.param.u64 %rd1, [results];\n    ld.param.u64 %rd2, [counters];\n"
                 "    mov.u32 %r0, %tid.x;\n    mov.u32 %r1, %ctaid.x;\n")
    # Role, group of roles, and which lane of the role this is: not the same places in the same warps for all roles.
    if together:
        lines.append(f"    div.u32 %r2, %r0, {LANES};\n    rem.u32 %r3, %r0, {LANES};\n    mov.u32 %r4, %r1;\n")
    else:
        lines.append(f"    rem.u32 %r2, %r1, {count};\n    div.u32 %r4, %r1, {count};\n    mov.u32 %r3, %r0;\n")
    lines.append(f"    mul.lo.u32 %r5, %r2, 37;\n    add.u32 %r3, %r3, %r5;\n    rem.u32 %r3, %r3, {LANES};\n    mov.u32 %r6, 0;\n")
    for register in range(4):
        lines.append(f"    mov.u32 %v{register}, 0;\n")
    lines.append("TRIP:\n")
    # Places of this lane in this trip: x and y apart by more than a line of the cache.
    lines.append(f"    mad.lo.u32 %r7, %r4, {TRIPS}, %r6;\n    mad.lo.u32 %r7, %r7, {LANES}, %r3;\n")
    if where == "global":
        # The lanes of a warp lie side by side, x and y far apart, in other slices of the cache from trip to trip.
        lines.append(f"    mad.wide.u32 %rd3, %r7, 4, %rd0;\n    xor.b32 %r13, %r7, {SCATTER};\n    mad.wide.u32 %rd4, %r13, 4, %rd0;\n    add.u64 %rd4, %rd4, {4 * RUNS};\n")
        x, y = "%rd3", "%rd4"
    else:
        lines.append("    mov.u32 %r8, near;\n    mad.lo.u32 %r8, %r3, 256, %r8;\n")
        if not near:
            lines.append("    mapa.shared::cluster.u32 %r8, %r8, 0;\n")
        lines.append("    add.u32 %r9, %r8, 128;\n")
        x, y = "%r8", "%r9"
        # Role 0 clears them.
        lines.append(f"    setp.eq.u32 %p0, %r2, 0;\n    @%p0 st.{space}.u32 [{x}], 0;\n    @%p0 st.{space}.u32 [{y}], 0;\n")
    barrier = "    bar.sync 0;\n" if together else "    barrier.cluster.arrive.aligned;\n    barrier.cluster.wait.aligned;\n"
    if together or cluster:
        lines.append(barrier)
    else:
        lines.append(f"    setp.ne.u32 %p0, %r0, 0;\n    @%p0 bra HERE;\n    mad.lo.u32 %r10, %r4, {TRIPS}, %r6;\n    mad.wide.u32 %rd5, %r10, 4, %rd2;\n"
                     "    red.relaxed.gpu.global.add.u32 [%rd5], 1;\n    mov.u32 %r11, 0;\nAGAIN:\n    ld.relaxed.gpu.global.u32 %r12, [%rd5];\n"
                     f"    add.u32 %r11, %r11, 1;\n    setp.lt.u32 %p1, %r12, {count};\n    setp.lt.and.u32 %p1, %r11, 4096, %p1;\n    @%p1 bra AGAIN;\nHERE:\n    bar.sync 0;\n")
    # Roles do not always start at the same time: each trip and each warp has delays of its own.
    lines.append("    shr.u32 %r14, %r3, 5;\n    mul.lo.u32 %r14, %r14, 5;\n    mad.lo.u32 %r14, %r6, 7, %r14;\n    mad.lo.u32 %r14, %r2, 11, %r14;\n    mad.lo.u32 %r14, %r4, 13, %r14;\n"
                 "    and.b32 %r14, %r14, 63;\nDELAY:\n    sub.u32 %r14, %r14, 1;\n    setp.gt.s32 %p1, %r14, 0;\n    @%p1 bra DELAY;\n")
    address = {"x": x, "y": y}
    for number, role in enumerate(roles):
        lines.append(f"    setp.ne.u32 %p2, %r2, {number};\n    @%p2 bra ROLE{number + 1};\n")
        before = None
        for step in role:
            if step[0] == "fence":
                lines.append(fence(way, scope, before))
            else:
                lines.append(access(step, way, scope, space, address[step[1]]))
                before = step[0]
        loaded = [step[2] for step in role if step[0] == "ld"]
        lines.append("    mad.wide.u32 %rd6, %r7, 32, %rd1;\n")
        for register in loaded:
            lines.append(f"    st.global.u32 [%rd6+{4 * register}], %v{register};\n")
        lines.append("    bra MET;\n" if number + 1 < count else "")
        lines.append(f"ROLE{number + 1}:\n")
    lines.append("MET:\n")
    if together or cluster:
        # What memory holds in the end.
        lines.append(barrier)
        lines.append(f"    setp.ne.u32 %p0, %r2, 0;\n    @%p0 bra NEXT;\n    ld.relaxed.{scope}.{space}.u32 %v6, [{x}];\n    ld.relaxed.{scope}.{space}.u32 %v7, [{y}];\n"
                     "    mad.wide.u32 %rd7, %r7, 32, %rd1;\n    st.global.u32 [%rd7+16], %v6;\n    st.global.u32 [%rd7+20], %v7;\nNEXT:\n")
        lines.append(barrier)
    lines.append(f"    add.u32 %r6, %r6, 1;\n    setp.lt.u32 %p3, %r6, {TRIPS};\n    @%p3 bra TRIP;\n    ret;\n}}\n")
    return "".join(lines)


def tests(wanted=""):
    """Every test: name, shape, way, scope, memory, whether the outcome is forbidden."""
    for shape, (_, _, forbidding) in SHAPES.items():
        for scope, where in SITES:
            for way in WAYS:
                if way not in forbidding and way != "none":
                    continue
                name = f"{shape}.{way}.{scope}.{where.replace('::', '-')}"
                if wanted in name:
                    yield name, shape, way, scope, where, way in forbidding


def assemble(assembler, source, cubin):
    tool, level = assembler.rsplit("-O", 1)
    orias = os.environ.get("ORIAS") or str(BENCH.parent / "target/release/orias")
    ptxas = os.environ.get("PTXAS") or shutil.which("ptxas") or sys.exit("no ptxas: name it in PTXAS")
    command = orias if tool == "orias" else ptxas
    done = subprocess.run([command, "-arch=sm_90a", f"-O{level}", str(source), "-o", str(cubin)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{assembler}: {source}: {done.stderr}")


class Gpu:
    """As much of the CUDA driver as is needed."""

    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        device, self.context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), device)
        self.call("cuCtxSetCurrent", self.context)

    def call(self, name, *arguments):
        code = getattr(self.cuda, name)(*arguments)
        if code != 0:
            sys.exit(f"{name}: error {code}")

    def room(self, size):
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return address

    def clear(self, address, size):
        self.call("cuMemsetD8_v2", address, ctypes.c_ubyte(0), ctypes.c_size_t(size))

    def read(self, address, size):
        data = (ctypes.c_uint32 * (size // 4))()
        self.call("cuMemcpyDtoH_v2", data, address, ctypes.c_size_t(size))
        return data

    def function(self, image):
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), image)
        self.call("cuModuleGetFunction", ctypes.byref(function), module, b"litmus")
        return module, function

    def launch(self, function, grid, block, arguments):
        pointers = (ctypes.c_void_p * len(arguments))(*(ctypes.cast(ctypes.pointer(it), ctypes.c_void_p) for it in arguments))
        self.call("cuLaunchKernel", function, grid, 1, 1, block, 1, 1, 0, None, pointers, None)
        self.call("cuCtxSynchronize")


def outcomes(results, places, shape, final_in_results, runs):
    """How often the outcome in question came."""
    import numpy

    table = numpy.frombuffer(results, dtype=numpy.uint32).reshape(runs, 8)
    seen = numpy.ones(runs, dtype=bool)
    for key, value in SHAPES[shape][1].items():
        if isinstance(key, int):
            column = table[:, key]
        elif final_in_results:
            column = table[:, 4 if key == "x" else 5]
        else:
            halves = numpy.frombuffer(places, dtype=numpy.uint32).reshape(2, runs)
            column = halves[0] if key == "x" else halves[1][numpy.arange(runs) ^ SCATTER]
        seen &= column == value
    return int(seen.sum())


def run(options):
    gpu = Gpu()
    groups, per_launch = GROUPS, RUNS
    launches = max(1, -(-options.runs // per_launch))
    places, results, counters = gpu.room(per_launch * 8), gpu.room(per_launch * 32), gpu.room(groups * TRIPS * 4)
    bad = 0
    print(f"{'test':<36}" + "".join(f"{name:>14}" for name in options.assemblers) + "   of so many runs each")
    with tempfile.TemporaryDirectory() as folder:
        for name, shape, way, scope, where, forbidden in tests(options.filter):
            source = Path(folder) / "litmus.ptx"
            source.write_text(kernel(shape, way, scope, where))
            counts = []
            for assembler in options.assemblers:
                cubin = Path(folder) / "litmus.cubin"
                assemble(assembler, source, cubin)
                module, function = gpu.function(cubin.read_bytes())
                count = len(SHAPES[shape][0])
                grid, block = (groups, count * LANES) if scope == "cta" else (groups * count, LANES)
                total = 0
                in_results = scope in ("cta", "cluster")
                for _ in range(launches):
                    gpu.clear(places, per_launch * 8)
                    gpu.clear(results, per_launch * 32)
                    gpu.clear(counters, groups * TRIPS * 4)
                    gpu.launch(function, grid, block, [places, results, counters])
                    final = any(isinstance(key, str) for key in SHAPES[shape][1])
                    held = gpu.read(places, per_launch * 8) if final and not in_results else None
                    total += outcomes(gpu.read(results, per_launch * 32), held, shape, in_results, per_launch)
                gpu.call("cuModuleUnload", module)
                counts.append(total)
                bad += forbidden and total > 0
            verdict = "FORBIDDEN" if forbidden and any(counts) else "" if forbidden else "allowed"
            print(f"{name:<36}" + "".join(f"{count:>14}" for count in counts) + f"   {launches * per_launch} {verdict}", flush=True)
    print(f"{bad} tests with a forbidden outcome")
    return bad > 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    runs = commands.add_parser("run")
    runs.add_argument("--runs", type=int, default=10**7)
    runs.add_argument("--filter", default="")
    runs.add_argument("--assemblers", type=lambda text: text.split(","), default=["orias-O0", "orias-O3", "ptxas-O3"])
    make = commands.add_parser("make")
    make.add_argument("folder", type=Path)
    options = parser.parse_args()
    if options.command == "run":
        sys.exit(run(options))
    options.folder.mkdir(parents=True, exist_ok=True)
    for name, shape, way, scope, where, _ in tests():
        (options.folder / f"{name}.ptx").write_text(kernel(shape, way, scope, where))


if __name__ == "__main__":
    main()
