#!/usr/bin/env python3
"""Runs Triton and torch.compile programs with several assemblers and compares what they compute and how long they take.

    triton_programs.py list
    triton_programs.py run [--modes ptxas,orias] [--filter TEXT,...] [--runs 100] [--in-place] [--out FOLDER]
    triton_programs.py table FOLDER/results.json    (a campaign's results in one table)
    triton_programs.py compile --mode orias         (no GPU needed; torch.compile programs are left out)
    triton_programs.py record FOLDER [--shrink 64]  (no GPU needed: PTX, inputs and a manifest of launches for `xtask gpu launches`)

`run` works in two steps. First every program is compiled with the first mode's assembler and captured in a CUDA graph, many programs at
a time in processes that are ended when a kernel hangs. For each other mode the code of the graph's kernels is exchanged (`graphs`); all
outputs are compared bit for bit with those of the first mode, and repeated runs with the first run. Then the programs that agree are
timed, one at a time, the modes taking turns; those that take more than 1.04 of the first mode's time are loaded and timed once more, in
more rounds, and the second ratio stands in the place of the first. A program that an assembler refuses is listed with the message.

With `--in-place` each mode's assembler is what TRITON_PTXAS_PATH names in processes of its own with empty caches, and nothing is timed.

    MODULES   a folder of PTX modules: their kernels are the programs (see `programs/corpus.py`)
    ORIAS     the orias command (default: target/release/orias of this repository)
    PTXAS     NVIDIA's ptxas, the reference (default: the one on the PATH)
"""

import argparse
import functools
import json
import os
import shutil
import statistics
import sys
import time
from pathlib import Path

BENCH = Path(__file__).resolve().parent
sys.path.insert(0, str(BENCH))

import assemblers
import graphs
from assemblers import MODES
from workers import Worker, ready

#: A ratio from which on a program is timed again, and how many times as many rounds that takes; how much two ratios may differ without
#: a third being asked.
DOUBTFUL, MORE, APART = 1.04, 4, 0.03

#: How Triton calls its assembler.
OPTIONS = ("-lineinfo", "-v", "--gpu-name=sm_90a")


def open_device(*settings):
    from device import Device

    return Device(*settings)


def workers(mode, count, arguments, folder):
    """Processes in which a mode's assembler is Triton's."""
    options = [*OPTIONS, *([] if arguments.fusion else ["--fmad=false"])]
    device = functools.partial(open_device, mode, folder / mode, options, arguments.in_place)
    variables = assemblers.environment(mode, folder, arguments.fusion)
    return [Worker(variables, folder / mode, device, arguments.patience) for _ in range(count)]


def check_all(slots, names, modes, arguments, answers):
    """Every program with the code of every mode, by workers of the first one; returns which worker holds which program."""
    reference = modes[0]
    queue = [(name, list(modes[1:])) for name in names]
    holders = {}
    end = time.monotonic() + arguments.time_limit
    while True:
        for slot in slots:
            if slot.request is None and queue:
                name, rest = queue.pop(0)
                holders[name] = slot
                slot.ask("check", name, rest, arguments.runs)
        if not any(slot.request for slot in slots):
            break
        for slot, (_, name, rest, _), doing, message in ready(slots, end):
            if message[0] == "answer":
                _, mode, answer = message
                answers[mode][name] = answer
            elif message[0] == "failed":
                # The device may be in error, and the process about to end.
                slot.stop()
                mode = doing or reference
                answers[mode][name] = {"error": message[1]}
                # The modes after the one that failed get a new process; without the reference there is nothing to compare.
                left = rest[rest.index(mode) + 1 :] if mode in rest else []
                if mode == reference:
                    for other in rest:
                        answers[other].setdefault(name, {"error": "no reference"})
                elif left:
                    queue.insert(0, (name, left))
        if time.monotonic() > end:
            for name, rest in queue:
                for mode in [reference, *rest]:
                    answers[mode].setdefault(name, {"error": "no time left"})
            queue.clear()
    return holders


def compare_saved(modes, answers, folder):
    """Compares what processes of different modes computed and kept in files."""
    import torch
    from device import differences

    for name, expected in answers[modes[0]].items():
        for mode in modes[1:]:
            answer = answers[mode][name]
            if "error" not in answer and "error" in expected:
                answer["error"] = f"no reference: {expected['error']}"
            if "error" in answer:
                continue
            if answer["kernels"] != expected["kernels"]:
                answer["other_ptx"] = sorted({kernel.split()[0] for kernel in set(answer["kernels"]) ^ set(expected["kernels"])})
            answer["different"] = differences(torch.load(folder / mode / f"{name}.pt"), torch.load(folder / modes[0] / f"{name}.pt"))


def time_all(slots, holders, modes, answers, arguments):
    """Times the programs that agree, one at a time, and then those again that an assembler seems to make slow."""
    end = time.monotonic() + arguments.time_limit
    reference = modes[0]

    def measure(name, chosen, rounds, copy):
        """Median times and ratios of a program by mode; nothing if that failed or no time is left."""
        if time.monotonic() > end:
            return {}
        slot, found = holders[name], {}
        slot.ask("time", name, chosen, rounds, copy)
        while slot.request:
            for _, _, _, message in ready([slot], end):
                if message[0] == "failed":
                    answers[reference][name]["timing_error"] = message[1]
                elif message[0] == "answer":
                    for mode, times in message[2].items():
                        found[mode] = {"us": statistics.median(times), "ratio": graphs.ratio(times, message[2][reference])}
        return found

    for name in answers[reference]:
        good = [mode for mode in modes if verdict(answers[mode][name]) == "equal"]
        if reference in good and len(good) > 1:
            for mode, times in measure(name, good, arguments.rounds, 0).items():
                answers[mode][name].update(times)
    for name in answers[reference]:
        slow = [mode for mode in modes if answers[mode][name].get("ratio", 0) > DOUBTFUL]
        if not slow:
            continue
        second = measure(name, [reference, *slow], MORE * arguments.rounds, 1)
        ratios = {mode: [answers[mode][name]["ratio"], second[mode]["ratio"]] for mode in slow if mode in second}
        apart = [mode for mode, (first, again) in ratios.items() if abs(again - first) > APART]
        third = measure(name, [reference, *apart], MORE * arguments.rounds, 2) if apart else {}
        for mode, found in ratios.items():
            answers[mode][name].update(second[mode], first_ratio=found[0])
            if mode in apart and mode in third:
                found.append(third[mode]["ratio"])
                answers[mode][name]["ratio"] = statistics.median(found)


def verdict(answer):
    if "error" in answer:
        return answer["error"]
    if answer["unstable"]:
        return f"UNSTABLE: {answer['unstable']} runs"
    if answer["different"] and answer.get("other_ptx"):
        return "not comparable: other PTX than the reference for " + ", ".join(answer["other_ptx"])
    if answer["different"]:
        return "DIFFERENT: " + "; ".join(answer["different"])
    return "equal"


def kind(program):
    return "matrix" if program.tags & {"matrix", "large"} else "scalar"


def summary(ratios):
    """One line about the ratios of times of several programs."""
    mean, largest = statistics.geometric_mean(ratios.values()), max(ratios, key=ratios.get)
    slow = sum(ratio > 1.05 for ratio in ratios.values())
    return f"time over {len(ratios)}: geometric mean {mean:.4f}, largest {ratios[largest]:.3f} ({largest}), {slow} above 1.05"


def report(modes, answers, programs):
    """The tables."""
    reference = modes[0]
    lines = []
    for mode in modes[1:]:
        print(f"\n### {mode} against {reference}")
        for scope in ("scalar", "matrix"):
            mine = [name for name in answers[mode] if kind(programs[name]) == scope]
            if not mine:
                continue
            verdicts = {name: verdict(answers[mode][name]) for name in mine}
            equal = [name for name in mine if verdicts[name] == "equal"]
            ratios = {name: answers[mode][name]["ratio"] for name in equal if "ratio" in answers[mode][name]}
            lines.append(f"{mode}, {scope}: {len(equal)} of {len(mine)} equal" + (f"; {summary(ratios)}" if ratios else ""))
            print("\n| program | result | us | ratio | registers |\n| --- | --- | --- | --- | --- |")
            for name in sorted(mine, key=lambda n: (verdicts[n] == "equal", -ratios.get(n, 0))):
                answer, theirs = answers[mode][name], answers[reference][name]
                us = f"{answer['us']:.2f}" if "us" in answer else ""
                ratio = f"{ratios[name]:.3f}" if name in ratios else ""
                if "first_ratio" in answer:
                    ratio += f" (at first {answer['first_ratio']:.3f})"
                registers = ""
                if "registers" in answer and "registers" in theirs:
                    registers = ", ".join(f"{n}/{theirs['registers'].get(k, '?')}" for k, n in sorted(answer["registers"].items()))
                print(f"| {name} | {verdicts[name]} | {us} | {ratio} | {registers} |")
    print()
    print("\n".join(lines))


def table(arguments):
    """One table of a campaign: a row for each program, with the time of the reference and the ratio of each other mode."""
    import programs as package

    programs = package.load(*([("corpus",)] if os.environ.get("MODULES") else []))
    answers = json.loads(Path(arguments.results).read_text())
    modes = sorted(answers, key=assemblers.order)
    reference, others = modes[0], modes[1:]
    names = [name for name in programs if name in answers[reference] and "error" not in answers[reference][name]]
    print(f"| program | kind | {reference}, us | " + " | ".join(others) + " |")
    print("| --- " * (3 + len(others)) + "|")
    ratios = {mode: {"scalar": [], "matrix": []} for mode in others}
    for name in names:
        base = answers[reference][name].get("us")
        cells = []
        for mode in others:
            answer = answers[mode][name]
            words = verdict(answer)
            if words == "equal" and "ratio" in answer:
                ratios[mode][kind(programs[name])].append(answer["ratio"])
                words = f"{answer['ratio']:.3f}"
            elif "not supported yet: " in words.lower():
                words = "not supported yet: " + words.split("upported yet: ", 1)[1].split()[0].split(".sync")[0]
            elif words != "equal":
                words = words.split(":")[0].lower()
            cells.append(words)
        print(f"| {name} | {kind(programs[name])} | {'' if base is None else f'{base:.2f}'} | " + " | ".join(cells) + " |")
    for scope in ("scalar", "matrix"):
        cells = [f"**{statistics.geometric_mean(r):.4f}** ({len(r)})" if (r := ratios[mode][scope]) else "" for mode in others]
        print(f"| **geometric mean, {scope}** (programs) | | | " + " | ".join(cells) + " |")
    return 0


def run(arguments):
    started = time.monotonic()
    # The workers are forked: this process must ask for GPUs without opening the driver.
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
    # How a reduction is divided must not depend on measured times or on the number of registers.
    os.environ["TORCHINDUCTOR_DETERMINISTIC"] = "1"
    os.environ["TORCHINDUCTOR_DYNAMIC_SCALE_RBLOCK"] = "0"
    import torch  # noqa: F401  (imported before the workers fork, so that they start at once)
    import torch._dynamo  # noqa: F401
    import torch._inductor.compile_fx  # noqa: F401
    import torch._inductor.runtime.triton_heuristics  # noqa: F401
    import programs as package

    programs = package.load(*([("corpus",)] if os.environ.get("MODULES") else []))
    modes = arguments.modes
    folder = Path(arguments.out).resolve()
    for mode in modes:
        shutil.rmtree(folder / mode, ignore_errors=True)
        (folder / mode).mkdir(parents=True)
    # Those that compile longest come first.
    names = sorted(package.select(arguments.filter, arguments.tags), key=lambda name: "compile" not in programs[name].tags)
    print(f"{len(names)} programs, modes {modes}, imported after {time.monotonic() - started:.1f} s", flush=True)
    answers = {mode: {} for mode in modes}
    if arguments.in_place:
        for mode in modes:
            slots = workers(mode, arguments.workers, arguments, folder)
            check_all(slots, names, [mode], arguments, answers)
            for slot in slots:
                slot.stop()
            print(f"{mode} done after {time.monotonic() - started:.1f} s", flush=True)
        compare_saved(modes, answers, folder)
    else:
        slots = workers(modes[0], arguments.workers, arguments, folder)
        holders = check_all(slots, names, modes, arguments, answers)
        print(f"checked after {time.monotonic() - started:.1f} s", flush=True)
        if arguments.rounds:
            time_all(slots, holders, modes, answers, arguments)
            print(f"timed after {time.monotonic() - started:.1f} s", flush=True)
        for slot in slots:
            slot.stop()
    for name, answer in answers[modes[0]].items():
        answer["kind"] = kind(programs[name])
    (folder / "results.json").write_text(json.dumps(answers, indent=1, sort_keys=True))
    report(modes, answers, programs)
    bad = sum(verdict(answers[mode][name]) != "equal" for mode in modes for name in names)
    return 1 if bad else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--filter", help="only programs whose name contains one of these words")
    common.add_argument("--tags", help="only programs with one of these tags")
    common.add_argument("--out", default="target/bench/triton", help="where outputs, caches and results go")
    commands.add_parser("list", parents=[common])
    p = commands.add_parser("run", parents=[common])
    p.add_argument("--modes", default="ptxas,orias,control", type=assemblers.mode_list, help=f"the first is the reference; any of {', '.join(MODES)}, or orias+KNOB=VALUE")
    p.add_argument("--runs", type=int, default=100, help="how often each program runs for its results")
    p.add_argument("--rounds", type=int, default=30, help="how often every mode is timed, in turns; 0: no timing")
    p.add_argument("--workers", type=int, default=max(1, min(14, (os.cpu_count() or 2) - 1)), help="processes at a time")
    p.add_argument("--in-place", action="store_true", help="each mode's assembler in TRITON_PTXAS_PATH, in processes of its own")
    p.add_argument("--patience", type=float, default=60, help="seconds a program may take, its compilation included, before it counts as hanging")
    p.add_argument("--time-limit", type=float, default=300, help="seconds for each of the two steps")
    p.add_argument("--no-fusion", dest="fusion", action="store_false", help="assemble with --fmad=false")
    p = commands.add_parser("compile", parents=[common])
    p.add_argument("--mode", default="orias", type=assemblers.mode_name)
    p.add_argument("--shrink", type=int, default=64)
    p = commands.add_parser("record", parents=[common])
    p.add_argument("folder")
    commands.add_parser("table").add_argument("results")
    p.add_argument("--shrink", type=int, default=64, help="divide the number of rows by this")
    arguments = parser.parse_args()
    if arguments.command == "list":
        import programs as package

        programs = package.load()
        for name in package.select(arguments.filter, arguments.tags):
            print(name, " ".join(sorted(programs[name].tags)))
        return 0
    if arguments.command in ("compile", "record"):
        import without_gpu

        return getattr(without_gpu, arguments.command)(arguments)
    return {"run": run, "table": table}[arguments.command](arguments)


if __name__ == "__main__":
    sys.exit(main())
