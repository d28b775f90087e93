#!/usr/bin/env python3
"""Runs clients of ptxas as they are installed, with ptxas and with Orias, and compares what they compute and how long it takes.

    run.py [CLIENT ...] [--repeat 50] [--fallback] [--out FILE.json]    needs a GPU
    run.py [CLIENT ...] --compile                                       needs none: the halves that compile

Each client is a module of this folder; those whose packages are not installed are left out, with a word. A client runs in two processes, one
for each assembler, with empty caches: a program makes its inputs from a fixed seed, is run once (that time holds the compilation), then
`--repeat` times, of which the median counts; its outputs are kept. Then outputs are compared: bit for bit, and where they differ by the
largest difference relative to the larger of 1 and what is expected. What Orias does not compile is a failure, unless `--fallback` lets the
client's own ptxas do it; the table says how many kernels were compiled by whom.

The package `orias` must be installed (`cargo xtask dist wheel`).
"""

import argparse
import importlib
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

HERE = Path(__file__).resolve().parent
CLIENTS = ("triton", "torch", "jax", "cupy", "numba", "cuda")
ASSEMBLERS = ("ptxas", "orias")


def load(client):
    sys.path.insert(0, str(HERE))
    return importlib.import_module(f"{client}_client")


def missing(module):
    """The packages of a client that are not installed."""
    return [name for name in module.PACKAGES if importlib.util.find_spec(name) is None]


def work(client, assembler, folder, repeat, fallback, compile_only):
    """One client with one assembler, in this process."""
    import numpy

    module = load(client)
    switch = module.switch(fallback) if assembler == "orias" else None
    told = {}
    if compile_only:
        for name, make in module.compiled().items():
            told[name] = attempt(lambda: {"bytes": len(keep(folder, name, [numpy.frombuffer(make(), "u1")])[0])})
    else:
        for name, make in module.programs().items():
            told[name] = attempt(lambda: measure(make, repeat, folder, name))
    count = switch.count if switch else None
    summary = {"orias": count.orias, "ptxas": count.ptxas, "failed": count.failed, "refusals": count.refusals} if count else None
    (folder / "told.json").write_text(json.dumps({"programs": told, "count": summary}))


def attempt(function):
    try:
        return function()
    except Exception as error:  # one program that fails is a row of the table
        return {"error": f"{type(error).__name__}: {error}".splitlines()[0], "trace": traceback.format_exc()}


def keep(folder, name, outputs):
    import numpy

    numpy.savez(folder / f"{name}.npz", *outputs)
    return outputs


def measure(make, repeat, folder, name):
    """`make` returns what runs the program and waits for it, and what fetches its outputs."""
    run, outputs = make()
    started = time.perf_counter()
    run()
    first = time.perf_counter() - started
    keep(folder, name, outputs())
    times = []
    for _ in range(repeat):
        started = time.perf_counter()
        run()
        times.append(time.perf_counter() - started)
    return {"first": first, "median": statistics.median(times)}


def compare(one, other):
    """How outputs differ: not at all, or by how much."""
    import numpy

    if one.files != other.files:
        return "another number of outputs"
    worst = 0.0
    for name in one.files:
        a, b = one[name], other[name]
        if a.shape != b.shape or a.dtype != b.dtype:
            return "another shape"
        if a.tobytes() == b.tobytes():
            continue
        if not numpy.issubdtype(a.dtype, numpy.number):
            return "different"
        a, b = a.astype("f8"), b.astype("f8")
        if (numpy.isnan(a) != numpy.isnan(b)).any():
            return "NaN in one only"
        worst = max(worst, float(numpy.nanmax(numpy.abs(a - b) / numpy.maximum(1.0, numpy.abs(a)))))
    return "equal" if worst == 0 else f"within {worst:.1e}"


def run_client(client, arguments):
    """The rows of a client's table."""
    import numpy

    with tempfile.TemporaryDirectory(prefix="clients-") as scratch:
        told = {}
        for assembler in ASSEMBLERS:
            folder = Path(scratch) / assembler
            folder.mkdir()
            environment = {**os.environ, "TRITON_CACHE_DIR": str(folder / "triton"), "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor")}
            environment |= {"CUPY_CACHE_DIR": str(folder / "cupy"), "JAX_ENABLE_COMPILATION_CACHE": "false"}
            words = [sys.executable, __file__, "--work", client, assembler, folder, "--repeat", str(arguments.repeat)]
            words += ["--fallback"] * arguments.fallback + ["--compile"] * arguments.compile
            done = subprocess.run(words, env=environment)
            if done.returncode != 0:
                return [{"client": client, "program": "(all)", "verdict": f"{assembler}: process ended with {done.returncode}"}]
            told[assembler] = json.loads((folder / "told.json").read_text())
        rows = []
        for name, ptxas in told["ptxas"]["programs"].items():
            orias = told["orias"]["programs"].get(name, {"error": "not run"})
            row = {"client": client, "program": name, "ptxas": ptxas, "orias": orias}
            if "error" in ptxas:
                row["verdict"] = "ptxas: " + ptxas["error"]
            elif "error" in orias:
                row["verdict"] = "Orias: " + orias["error"]
            elif arguments.compile:
                row["verdict"] = "compiled"
            else:
                files = [Path(scratch) / assembler / f"{name}.npz" for assembler in ASSEMBLERS]
                with numpy.load(files[0]) as one, numpy.load(files[1]) as other:
                    row["verdict"] = compare(one, other)
            rows.append(row)
        rows.append({"client": client, "program": "(kernels)", "count": told["orias"]["count"], "verdict": ""})
        return rows


def table(rows):
    """One table of all clients."""
    lines = ["| client | program | outputs | ptxas, ms | Orias, ms | ratio | first run, s | with Orias, s |", "| --- | --- | --- | --- | --- | --- | --- | --- |"]
    for row in rows:
        if row.get("count"):
            count = row["count"]
            by = f"{count['orias']} compiled by Orias, {count['ptxas']} by ptxas, {count['failed']} failed"
            lines.append(f"| {row['client']} | kernels | {by} | | | | | |")
            lines += [f"| | | {times} x {why} | | | | | |" for why, times in count["refusals"].items()]
            continue
        cells = ["", "", "", "", ""]
        ptxas, orias = row.get("ptxas", {}), row.get("orias", {})
        if "median" in ptxas and "median" in orias:
            cells = [f"{1e3 * ptxas['median']:.3f}", f"{1e3 * orias['median']:.3f}", f"{orias['median'] / ptxas['median']:.3f}"]
            cells += [f"{ptxas['first']:.2f}", f"{orias['first']:.2f}"]
        lines.append("| " + " | ".join([row["client"], row["program"], row["verdict"], *cells]) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("clients", nargs="*", help=", ".join(CLIENTS))
    parser.add_argument("--repeat", type=int, default=50)
    parser.add_argument("--fallback", action="store_true")
    parser.add_argument("--compile", action="store_true", help="only what needs no GPU")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--work", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        client, assembler, folder = arguments.work
        return work(client, assembler, Path(folder), arguments.repeat, arguments.fallback, arguments.compile)
    unknown = set(arguments.clients) - set(CLIENTS)
    if unknown:
        parser.error(f"no client is named {', '.join(sorted(unknown))}")
    rows, left_out = [], []
    for client in arguments.clients or CLIENTS:
        module = load(client)
        lacking = missing(module)
        if not lacking and arguments.compile and not hasattr(module, "compiled"):
            lacking = ["a GPU: it compiles nothing without"]
        if not lacking and not arguments.compile:
            lacking = [why for why in [module.lacks()] if why]
        if lacking:
            left_out.append(f"{client}: left out, there is no {', '.join(lacking)}")
            continue
        rows += run_client(client, arguments)
    if rows:
        print(table(rows))
    for line in left_out:
        print(line)
    if arguments.out:
        arguments.out.write_text(json.dumps(rows, indent=1))
    good = ("equal", "within", "compiled")
    bad = [row for row in rows if row["verdict"] and not row["verdict"].startswith(good)]
    # What ptxas fails at, too, is no failure of Orias.
    return 1 if any(not row["verdict"].startswith("ptxas:") for row in bad) else 0


if __name__ == "__main__":
    sys.exit(main())
