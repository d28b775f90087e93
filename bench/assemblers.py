#!/usr/bin/env python3
"""The assemblers that are compared, by name, and whole folders of PTX assembled by them.

    assemblers.py FOLDER MODE,... [--fmad=false] [OPTION...]   each FOLDER/*.ptx to FOLDER/MODE/*.cubin; what is refused is listed

A mode `orias+KNOB=VALUE` (or several: `orias+HoistLoads=off+IfConversionSize=8`) is our code with those knobs.

    ORIAS     the orias command (default: target/release/orias of this repository)
    PTXAS     NVIDIA's ptxas, the reference (default: the one on the PATH)
"""

import argparse
import concurrent.futures
import os
import shutil
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parent

#: What each mode names as the assembler, and what it sets in the environment.
MODES = {
    "ptxas": (None, {}),
    # The same once more: how far two measurements of the same code lie apart.
    "ptxas-again": (None, {}),
    "orias": ("orias-ptxas.sh", {}),
    "orias-O0": ("orias-ptxas.sh", {"ORIAS_FLAGS": "-O0"}),
    "orias-O1": ("orias-ptxas.sh", {"ORIAS_FLAGS": "-O1"}),
    "orias-unscheduled": ("orias-ptxas.sh", {"ORIAS_FLAGS": "--knob ScheduleInstructions=off --knob PostScheduleKeep=always"}),
    "control": ("reschedule-ptxas.sh", {"ORIAS_RESCHEDULE": "--control-only"}),
    "schedule": ("reschedule-ptxas.sh", {"ORIAS_RESCHEDULE": ""}),
    "shuffle": ("reschedule-ptxas.sh", {"ORIAS_RESCHEDULE": "--shuffle 1"}),
}


#: What stands before the knobs of a mode.
WITH_KNOBS = "orias+"


def settings(mode):
    """What a mode names as the assembler and what it sets in the environment; nothing for what is no mode."""
    if mode.startswith(WITH_KNOBS):
        knobs = mode[len(WITH_KNOBS) :].split("+")
        return ("orias-ptxas.sh", {"ORIAS_FLAGS": " ".join(f"--knob {knob}" for knob in knobs)}) if all("=" in knob for knob in knobs) else None
    return MODES.get(mode)


def mode_name(text):
    """The name of a mode as a command line has it."""
    if not settings(text):
        raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(MODES)}, {WITH_KNOBS}KNOB=VALUE")
    return text


def mode_list(text):
    """Several modes with commas between."""
    return [mode_name(word) for word in text.split(",")]


def order(mode):
    """Where a mode stands in tables: those of MODES in their order, then those with knobs."""
    return (list(MODES).index(mode) if mode in MODES else len(MODES), mode)


def ptxas():
    """NVIDIA's assembler."""
    found = os.environ.get("PTXAS") or shutil.which("ptxas")
    if not found:
        sys.exit("no ptxas: name it in PTXAS")
    return found


def command(mode):
    """The command that stands for ptxas in a mode."""
    script, _ = settings(mode)
    return str(BENCH / script) if script else ptxas()


def variables(mode):
    """What the command of a mode finds in its environment."""
    return {
        "ORIAS": os.environ.get("ORIAS") or str(BENCH.parent / "target/release/orias"),
        "ORIAS_PTXAS": ptxas(),
        **settings(mode)[1],
    }


def assemble(mode, source, cubin, options=()):
    """Makes a cubin of a PTX file; returns nothing, or the message of the assembler that refused it."""
    words = [command(mode), *options, str(source), "-o", str(cubin)]
    done = subprocess.run(
        words, env={**os.environ, **variables(mode)}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    if done.returncode == 0:
        return None
    lines = [line for line in done.stderr.splitlines() if line.strip() and not line.startswith("ptxas info")]
    return lines[0][:300] if lines else f"exit code {done.returncode}"


def environment(mode, folder, fusion):
    """What a process finds in its environment whose Triton kernels are compiled in one mode, with caches below `folder`.

    Without `fusion` no products and sums are fused: where assemblers differ in that, results differ in their last bits.
    """
    return {
        "TRITON_PTXAS_PATH": command(mode),
        "TRITON_CACHE_DIR": str(folder / mode / "triton"),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / mode / "inductor"),
        "TRITON_DEFAULT_FP_FUSION": "1" if fusion else "0",
        "ORIAS_LOG": str(folder / mode / "assembler.log"),
        **variables(mode),
    }


def main():
    words = [word for word in sys.argv[1:] if not word.startswith("-")]
    options = ["-arch=sm_90a", *(word for word in sys.argv[1:] if word.startswith("-"))]
    if len(words) != 2 or not all(map(settings, words[1].split(","))):
        sys.exit(__doc__ + f"\nmodes: {', '.join(MODES)}, {WITH_KNOBS}KNOB=VALUE")
    folder, modes = Path(words[0]), words[1].split(",")
    for mode in modes:
        (folder / mode).mkdir(exist_ok=True)
    jobs = [(mode, source) for source in sorted(folder.glob("*.ptx")) for mode in modes]

    def one(job):
        mode, source = job
        cubin = folder / mode / f"{source.stem}.cubin"
        cubin.unlink(missing_ok=True)
        return assemble(mode, source, cubin, options)

    refused = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for (mode, source), message in zip(jobs, pool.map(one, jobs)):
            if message:
                refused += 1
                print(f"{mode} {source.stem}: {message}")
    print(f"{len(jobs) - refused} of {len(jobs)} cubins made")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
