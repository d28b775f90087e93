#!/usr/bin/env python3
"""Runs clients of ptxas as they are installed, with ptxas and with Orias, and compares what they compute and how long it takes.

    run.py [CLIENT ...] [--only PROGRAM,...] [--repeat 50] [--limit 300] [--fallback] [--out FILE.json]    needs a GPU
    run.py [CLIENT ...] --compile    needs none: the halves that compile

Each client is a module of this folder; those whose packages are not installed are left out, with a word. A client runs in two processes, one
for each assembler, with empty caches: a program makes its inputs from a fixed seed, is run once (that time holds the compilation), then
`--repeat` times, of which the median counts; its outputs are kept. Then outputs are compared, bit for bit. Equal is what they must be, but for
programs that choose among kernels by measured time: those have a tolerance in their module, of the largest difference relative to the largest
number of the output. A client that did not compile anything with Orias has failed, and so has one that Orias failed to compile something for,
unless `--fallback` lets the client's own ptxas do it; the table says how many kernels were compiled by whom. `--limit` is the most
seconds for each of the two processes: what is done by then counts.

The package `orias` must be installed (`cargo xtask dist wheel`).
"""

import argparse
import importlib
import importlib.util
import json
import os
import signal
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


def work(client, assembler, folder, repeat, fallback, compile_only, only):
    """One client with one assembler, in this process."""
    module = load(client)
    switch = module.switch(fallback) if assembler == "orias" else None
    told = {}
    beside = module.ptxas() if assembler == "ptxas" else None
    for name, make in (module.compiled() if compile_only else module.programs()).items():
        if only and name not in only:
            continue
        if compile_only:
            told[name] = attempt(lambda: {"bytes": sum(len(output) for output in keep(folder, name, cubins(make())))})
        else:
            told[name] = attempt(lambda: measure(make, repeat, folder, name))
        # After each program, as the process may be stopped.
        count = switch.count if switch else None
        summary = {"orias": count.orias, "ptxas": count.ptxas, "failed": count.failed, "refusals": count.refusals} if count else None
        (folder / "told.new").write_text(json.dumps({"programs": told, "count": summary, "beside": beside}))
        (folder / "told.new").rename(folder / "told.json")


def cubins(made):
    """What was compiled, as arrays of bytes; nothing for a client that does not say."""
    import numpy

    return [numpy.frombuffer(data, "u1") for data in made]


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
    """`make` returns what runs the program and waits for it, and what fetches its outputs; one that times itself, the seconds of a run, too."""
    run, outputs, *timed = make()
    started = time.perf_counter()
    run()
    first = time.perf_counter() - started
    keep(folder, name, outputs())
    times = timed[0]() if timed else []
    for _ in range(0 if timed else repeat):
        started = time.perf_counter()
        run()
        times.append(time.perf_counter() - started)
    return {"first": first, "median": statistics.median(times)}


def compare(one, other, tolerance):
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
        if not numpy.issubdtype(a.dtype, numpy.floating):
            return "different"
        a, b = a.astype("f8"), b.astype("f8")
        if not (numpy.isfinite(a) == numpy.isfinite(b)).all():
            return "NaN or infinity in one only"
        finite = numpy.isfinite(a)
        if not (a[~finite].astype(str) == b[~finite].astype(str)).all():
            return "another infinity"
        a, b = a[finite], b[finite]
        # Bits that differ where numbers do not: signs of zero, payloads.
        largest = numpy.max(numpy.abs(a), initial=0.0)
        worst = max(worst, float(numpy.max(numpy.abs(a - b), initial=0.0) / largest) if largest else float(numpy.max(numpy.abs(b), initial=0.0)))
        worst = max(worst, 1e-300)
    if worst == 0:
        return "equal"
    return f"within {worst:.1e}" if worst <= tolerance else f"different by {worst:.1e}"


def run_client(client, arguments):
    """The rows of a client's table."""
    import numpy

    module = load(client)
    tolerances = getattr(module, "TOLERANCES", {})
    with tempfile.TemporaryDirectory(prefix="clients-") as scratch:
        told, ends = {}, {}
        for assembler in ASSEMBLERS:
            folder = Path(scratch) / assembler
            folder.mkdir()
            environment = {**os.environ, "TRITON_CACHE_DIR": str(folder / "triton"), "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor")}
            environment |= {"CUPY_CACHE_DIR": str(folder / "cupy"), "JAX_ENABLE_COMPILATION_CACHE": "false"}
            words = [sys.executable, __file__, "--work", client, assembler, folder, "--repeat", str(arguments.repeat)]
            words += ["--only", arguments.only] if arguments.only else []
            words += ["--fallback"] * arguments.fallback + ["--compile"] * arguments.compile
            ends[assembler] = f"{assembler}: " + stop_after(words, environment, arguments.limit)
            file = folder / "told.json"
            told[assembler] = json.loads(file.read_text()) if file.exists() else {"programs": {}, "count": None, "beside": None}
        rows = []
        # What the first did not come to, the second may have.
        for name in {**told["ptxas"]["programs"], **told["orias"]["programs"]}:
            ptxas, orias = (told[assembler]["programs"].get(name, {"error": f"not run ({ends[assembler]})"}) for assembler in ASSEMBLERS)
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
                    row["verdict"] = compare(one, other, tolerances.get(name, 0.0))
            rows.append(row)
        rows += [{"client": client, "program": "(all)", "verdict": end} for end in ends.values() if not end.endswith(ENDED)]
        count = told["orias"]["count"] or {"orias": 0, "ptxas": 0, "failed": 0, "refusals": {}}
        by = f"{count['orias']} compiled by Orias, {count['ptxas']} by ptxas, {count['failed']} failed; beside {told['ptxas']['beside']}"
        good = count["orias"] > 0 and count["failed"] == 0 and (arguments.fallback or count["ptxas"] == 0)
        rows.append({"client": client, "program": "(kernels)", "count": count, "verdict": by if good else f"not all by Orias: {by}"})
        return rows


ENDED = "done"


def stop_after(words, environment, limit):
    """Runs a process with all that it starts, for so many seconds; says how it ended."""
    process = subprocess.Popen(words, env=environment, start_new_session=True)
    try:
        code = process.wait(limit)
        return ENDED if code == 0 else f"process ended with {code}"
    except subprocess.TimeoutExpired:
        return f"stopped after {limit} s"
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()


HEAD = ["| client | program | outputs | ptxas, ms | Orias, ms | ratio | first run, s | with Orias, s |", "| --- | --- | --- | --- | --- | --- | --- | --- |"]


def lines_of(rows):
    """Lines of the table."""
    lines = []
    for row in rows:
        cells = ["", "", "", "", ""]
        ptxas, orias = row.get("ptxas", {}), row.get("orias", {})
        if "median" in ptxas and "median" in orias:
            cells = [f"{1e3 * ptxas['median']:.3f}", f"{1e3 * orias['median']:.3f}", f"{orias['median'] / ptxas['median']:.3f}"]
            cells += [f"{ptxas['first']:.2f}", f"{orias['first']:.2f}"]
        lines.append("| " + " | ".join([row["client"], row["program"], row["verdict"], *cells]) + " |")
        refusals = row.get("count", {}).get("refusals", {})
        lines += [f"| | | {times} x {why} | | | | | |" for why, times in refusals.items()]
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("clients", nargs="*", help=", ".join(CLIENTS))
    parser.add_argument("--repeat", type=int, default=50)
    parser.add_argument("--limit", type=int, default=300, help="seconds for each client with each assembler")
    parser.add_argument("--only", help="programs, a comma between")
    parser.add_argument("--fallback", action="store_true")
    parser.add_argument("--compile", action="store_true", help="only what needs no GPU")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--work", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        client, assembler, folder = arguments.work
        only = arguments.only.split(",") if arguments.only else None
        return work(client, assembler, Path(folder), arguments.repeat, arguments.fallback, arguments.compile, only)
    unknown = set(arguments.clients) - set(CLIENTS)
    if unknown:
        parser.error(f"no client is named {', '.join(sorted(unknown))}")
    rows, left_out = [], []
    for client in arguments.clients or CLIENTS:
        module = load(client)
        lacking = missing(module)
        if not lacking and arguments.compile and not hasattr(module, "compiled"):
            lacking = ["GPU: it compiles nothing without"]
        if not lacking and arguments.compile and hasattr(module, "lacks_to_compile"):
            lacking = [why for why in [module.lacks_to_compile()] if why]
        if not lacking and not arguments.compile:
            lacking = [why for why in [module.lacks()] if why]
        if lacking:
            left_out.append(f"{client}: left out, there is no {', '.join(lacking)}")
            continue
        if not rows:
            print("\n".join(HEAD))
        rows += (more := run_client(client, arguments))
        print("\n".join(lines_of(more)), flush=True)
    for line in left_out:
        print(line)
    if arguments.out:
        arguments.out.write_text(json.dumps(rows, indent=1))
    # What ptxas fails at is no failure of Orias.
    good = ("equal", "within", "compiled", "ptxas:")
    bad = [row for row in rows if not row["verdict"].startswith(good) and not row["verdict"][0].isdigit()]
    programs = [row for row in rows if "orias" in row]
    times = [row["orias"]["median"] / row["ptxas"]["median"] for row in programs if "median" in row["orias"] and "median" in row["ptxas"]]
    mean = f", times {statistics.geometric_mean(times):.3f} of ptxas's (geometric mean of {len(times)})" if times else ""
    equal = sum(row["verdict"] in ("equal", "compiled") for row in programs)
    print(f"{equal} of {len(programs)} programs {'compiled' if arguments.compile else 'equal'}, {len(bad)} failures{mean}")
    return 1 if bad or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
