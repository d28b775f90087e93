#!/usr/bin/env python3
"""Runs Triton and torch.compile programs with several assemblers and compares what they compute and how long they take.

    triton_programs.py list
    triton_programs.py run [--modes ptxas,orias] [--filter TEXT,...] [--runs 100] [--out FOLDER]
    triton_programs.py table FOLDER/results.json    (a campaign's results in one table)
    triton_programs.py compile --mode orias         (no GPU needed; torch.compile programs are left out)
    triton_programs.py record FOLDER [--shrink 64]  (no GPU needed: PTX, inputs and a manifest of launches for `xtask gpu launches`)

`run` works in two steps. First every program runs in every mode, many programs at a time, each in a process that is ended when a
kernel hangs; all outputs are kept and compared bit for bit with those of the first mode, and repeated runs with the first run. Then
the programs that agree are timed, one at a time, the modes taking turns: the median over CUDA graphs of many launches, inputs warm in
L2 where they fit. Each mode has caches of its own that start empty. A program that an assembler refuses is listed with the message.

    ORIAS     the orias command (default: target/release/orias of this repository)
    PTXAS     NVIDIA's ptxas, the reference (default: the one on the PATH)
"""

import argparse
import hashlib
import json
import math
import multiprocessing
import os
import shutil
import statistics
import sys
import time
import traceback
from multiprocessing.connection import wait
from pathlib import Path

BENCH = Path(__file__).resolve().parent
sys.path.insert(0, str(BENCH))

#: What each mode names as the assembler, and what it sets in the environment.
MODES = {
    "ptxas": (None, {}),
    # The same once more: how far two measurements of the same code lie apart.
    "ptxas-again": (None, {}),
    "orias": ("orias-ptxas.sh", {}),
    "orias-O0": ("orias-ptxas.sh", {"ORIAS_FLAGS": "-O0"}),
    "orias-O1": ("orias-ptxas.sh", {"ORIAS_FLAGS": "-O1"}),
    "orias-unscheduled": ("orias-ptxas.sh", {"ORIAS_FLAGS": "--knob ScheduleInstructions=off"}),
    "control": ("reschedule-ptxas.sh", {"ORIAS_RESCHEDULE": "--control-only"}),
    "schedule": ("reschedule-ptxas.sh", {"ORIAS_RESCHEDULE": ""}),
    "shuffle": ("reschedule-ptxas.sh", {"ORIAS_RESCHEDULE": "--shuffle 1"}),
}

#: Where the assemblers differ in which products and sums they fuse, results differ in their last bits: off on request.
FUSION = "TRITON_DEFAULT_FP_FUSION"


def environment(mode, folder, fusion):
    """What a process of one mode finds in its environment."""
    ptxas = os.environ.get("PTXAS") or shutil.which("ptxas")
    if not ptxas:
        sys.exit("no ptxas: name it in PTXAS")
    orias = os.environ.get("ORIAS") or str(BENCH.parent / "target/release/orias")
    script, more = MODES[mode]
    return {
        "TRITON_PTXAS_PATH": str(BENCH / script) if script else ptxas,
        "TRITON_CACHE_DIR": str(folder / mode / "triton"),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / mode / "inductor"),
        FUSION: "1" if fusion else "0",
        "ORIAS": orias,
        "ORIAS_PTXAS": ptxas,
        "ORIAS_LOG": str(folder / mode / "assembler.log"),
        **more,
    }


def settings():
    """torch.compile's settings: one process, and no choice that depends on measured time."""
    import torch._inductor.config as inductor

    inductor.compile_threads = 1
    wanted = {"deterministic": True, "dynamic_scale_rblock": False, "max_autotune": False, "coordinate_descent_tuning": False}
    for name, value in wanted.items():
        if hasattr(inductor, name):
            setattr(inductor, name, value)
    # Persistent reductions still have several variants, of which the fastest is taken: leave only the first.
    from torch._inductor.runtime import triton_heuristics as heuristics

    if not hasattr(heuristics, "all_variants"):
        heuristics.all_variants = heuristics.cached_autotune
        heuristics.cached_autotune = lambda hints, configs, *rest, **more: heuristics.all_variants(hints, configs[:1], *rest, **more)


def as_bytes(tensor):
    import torch

    return tensor.detach().contiguous().flatten().view(torch.uint8)


class Device:
    """The side of a worker that runs programs on the GPU."""

    def __init__(self, folder):
        import torch
        from programs import PROGRAMS, Data

        self.torch, self.programs, self.data = torch, PROGRAMS, Data
        self.folder = folder
        self.prepared = (None, None)
        self.graph = (None, None, 0)
        self.kernels = set()
        import triton

        triton.knobs.compilation.listener = self.compiled
        torch.cuda.init()

    def compiled(self, *, metadata_group, **_):
        """Notes which PTX a program's kernels have, without places in source files."""
        for name, path in metadata_group.items():
            if name.endswith(".ptx"):
                text = Path(path).read_text().split("\n\t.file", 1)[0]
                lines = [line for line in text.splitlines() if not line.lstrip().startswith((".loc", "//"))]
                digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]
                self.kernels.add(f"{name[:-4]} {digest}")

    def program(self, name):
        if self.prepared[0] != name:
            self.prepared = (None, None)
            self.graph = (None, None, 0)
            self.prepared = (name, self.programs[name].prepare(self.data("cuda")))
        return self.prepared[1]

    def check(self, name, runs):
        """Runs a program often, keeps its outputs, and says how many runs differ from the first."""
        torch = self.torch
        self.kernels.clear()
        run = self.program(name)
        for output in run():
            as_bytes(output).fill_(0xA5)
        torch.cuda.synchronize()
        first = [output.clone() for output in run()]
        different = torch.zeros((), dtype=torch.int64, device="cuda")
        for _ in range(runs - 1):
            outputs = run()
            wrong = torch.zeros((), dtype=torch.bool, device="cuda")
            for output, expected in zip(outputs, first):
                wrong |= (as_bytes(output) != as_bytes(expected)).any()
            different += wrong
        unstable = int(different.item())
        torch.save([output.cpu() for output in first], self.folder / f"{name}.pt")
        return {"unstable": unstable, "kernels": sorted(self.kernels)}

    def time(self, name, samples):
        """Microseconds of one run of a program, measured several times."""
        torch = self.torch
        run = self.program(name)

        def measure(launch, count):
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            launch()
            end.record()
            end.synchronize()
            return start.elapsed_time(end) * 1000 / count

        def capture(count):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                for _ in range(count):
                    run()
            graph.replay()
            torch.cuda.synchronize()
            return graph

        if self.graph[0] != name:
            for _ in range(3):
                run()
            torch.cuda.synchronize()
            single = capture(1)
            count = max(1, min(100, int(600 / max(min(measure(single.replay, 1) for _ in range(5)), 1))))
            self.graph = (name, capture(count), count)
        _, graph, count = self.graph
        # The clocks rise while the device works.
        end = time.monotonic() + (0.015 if samples else 0)
        while time.monotonic() < end:
            graph.replay()
            torch.cuda.synchronize()
        return {"us": [measure(graph.replay, count) for _ in range(samples)]}


def serve(pipe, variables, folder):
    """A worker: answers requests until its pipe closes."""
    os.environ.update(variables)
    log = os.open(folder / f"worker-{os.getpid()}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    settings()
    device = Device(folder)
    while True:
        try:
            verb, *arguments = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send(getattr(device, verb)(*arguments))
        except Exception as error:
            traceback.print_exc()
            pipe.send({"error": reason(error)})
            try:
                device.torch.cuda.synchronize()
            except Exception:
                # A fault on the device is final for the process.
                os._exit(1)


def reason(error):
    """The line of an exception that says why: the assembler's message if there is one."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    for line in lines:
        if line.startswith(("ptxas fatal", "ptxas error")) or "; error" in line:
            return line[:300]
    for mark in ("stderr", "CUDA error", "Error"):
        for at, line in enumerate(lines):
            if mark in line:
                return (lines[at + 1] if mark == "stderr" and at + 1 < len(lines) else line)[:300]
    return f"{type(error).__name__}: {lines[0][:280] if lines else ''}"


class Worker:
    """The parent's side of a worker."""

    def __init__(self, mode, variables, folder):
        self.mode, self.variables, self.folder = mode, variables, folder
        self.process = self.job = None

    def start(self):
        context = multiprocessing.get_context("fork")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=serve, args=(other, self.variables, self.folder), daemon=True)
        self.process.start()
        other.close()

    def ask(self, request, patience):
        if self.process is None or not self.process.is_alive():
            self.start()
        self.job, self.deadline = request, time.monotonic() + patience
        try:
            self.pipe.send(request)
        except OSError:
            # It has just ended; `answer` finds that out.
            pass

    def answer(self):
        """The answer, after `wait` said there is one."""
        self.job = None
        try:
            return self.pipe.recv()
        except (EOFError, OSError):
            self.stop()
            return {"error": "the process ended"}

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.join(5)
            self.pipe.close()
        self.process = self.job = None

    def answer_within(self):
        """The answer, waiting for it until the deadline."""
        if not self.pipe.poll(max(0.0, self.deadline - time.monotonic())):
            self.stop()
            return {"error": "hangs"}
        return self.answer()


def check_all(modes, names, arguments, folder, variables):
    """Every program in every mode; returns answers by mode and name."""
    queues = {mode: list(names) for mode in modes}
    answers = {mode: {} for mode in modes}
    slots = [Worker(mode, variables[mode], folder / mode) for _ in range(arguments.workers) for mode in modes]
    end = time.monotonic() + arguments.time_limit
    while True:
        for slot in slots:
            if slot.job is None and queues[slot.mode]:
                # A worker that starts also imports and opens the device: the first program gets more time.
                patience = arguments.patience + (0 if slot.process else 30)
                slot.ask(("check", queues[slot.mode].pop(0), arguments.runs), patience)
        busy = [slot for slot in slots if slot.job]
        if not busy:
            break
        now = time.monotonic()
        ready = wait([slot.pipe for slot in busy], timeout=max(0.0, min(s.deadline for s in busy) - now))
        now = time.monotonic()
        for slot in busy:
            name = slot.job[1]
            if slot.pipe in ready:
                answers[slot.mode][name] = slot.answer()
            elif now > min(slot.deadline, end):
                slot.stop()
                answers[slot.mode][name] = {"error": "hangs" if now > slot.deadline else "no time left"}
        if now > end:
            for mode in modes:
                answers[mode].update((name, {"error": "no time left"}) for name in queues[mode])
                queues[mode].clear()
    for slot in slots:
        slot.stop()
    return answers


def compare(modes, answers, folder):
    """Adds to each answer how it compares with the first mode's."""
    import torch

    for name, expected in answers[modes[0]].items():
        reference = None if "error" in expected else torch.load(folder / modes[0] / f"{name}.pt")
        for mode in modes[1:]:
            answer = answers[mode][name]
            if "error" in answer or reference is None:
                continue
            outputs = torch.load(folder / mode / f"{name}.pt")
            wrong = []
            for at, (output, wanted) in enumerate(zip(outputs, reference, strict=True)):
                differs = as_bytes(output) != as_bytes(wanted)
                if differs.any():
                    size = output.element_size()
                    elements = differs.view(-1, size).any(dim=1)
                    first = int(elements.nonzero()[0])
                    pair = (output.flatten()[first].item(), wanted.flatten()[first].item())
                    wrong.append(f"output {at}: {int(elements.sum())} of {elements.numel()} differ, first at {first}: {pair[0]}, not {pair[1]}")
            answer["different"] = wrong
            # Equal PTX is the condition for equal results. Kernels that an earlier program of the process had are not noted again.
            both = set(answer["kernels"]) ^ set(expected["kernels"])
            names = {kernel.split()[0] for kernel in answer["kernels"]} & {kernel.split()[0] for kernel in expected["kernels"]}
            answer["other_ptx"] = sorted(name for name in names if any(kernel.split()[0] == name for kernel in both))


def time_all(modes, answers, arguments, folder, variables):
    """Times the programs that agree, the modes in turns."""
    slots = {mode: Worker(mode, variables[mode], folder / mode) for mode in modes}
    end = time.monotonic() + arguments.time_limit
    for name in answers[modes[0]]:
        good = [m for m in modes if "error" not in answers[m][name] and not answers[m][name].get("different") and not answers[m][name]["unstable"]]
        if modes[0] not in good or len(good) < 2 or time.monotonic() > end:
            continue
        # All modes get ready at once; only then is anything measured.
        for mode in good:
            slots[mode].ask(("time", name, 0), arguments.patience + 30)
        for mode in list(good):
            answer = slots[mode].answer_within()
            if "error" in answer:
                answers[mode][name]["timing_error"] = answer["error"]
                good.remove(mode)
        if modes[0] not in good:
            continue
        times = {mode: [] for mode in good}
        for _ in range(arguments.rounds):
            for mode in good:
                slots[mode].ask(("time", name, arguments.samples), arguments.patience)
                answer = slots[mode].answer_within()
                times[mode] += answer.get("us", [])
                if "error" in answer:
                    answers[mode][name]["timing_error"] = answer["error"]
        for mode in good:
            if times[mode]:
                answers[mode][name]["us"] = statistics.median(times[mode])
    for slot in slots.values():
        slot.stop()


def variants(answer):
    """The kernels of which a program compiled several variants, to take the one that was faster."""
    names = [kernel.split()[0] for kernel in answer.get("kernels", ())]
    return sorted({name for name in names if name.startswith("triton_") and names.count(name) > 1})


def verdict(answer):
    if "error" in answer:
        return answer["error"]
    if answer["unstable"]:
        return f"UNSTABLE: {answer['unstable']} runs"
    if answer.get("different") and answer.get("other_ptx"):
        return "not comparable: other PTX than the reference for " + ", ".join(answer["other_ptx"])
    if answer.get("different") and variants(answer):
        return "not comparable: torch.compile takes the faster variant of " + ", ".join(variants(answer))
    if answer.get("different"):
        return "DIFFERENT: " + "; ".join(answer["different"])
    return "equal"


def report(modes, answers, programs):
    """The tables."""
    reference = modes[0]
    for mode in modes[1:]:
        print(f"\n### {mode} against {reference}\n")
        for scope in ("scalar", "matrix"):
            mine = [name for name in answers[mode] if scope in programs[name].tags]
            if not mine:
                continue
            verdicts = {name: verdict(answers[mode][name]) for name in mine}
            equal = [name for name in mine if verdicts[name] == "equal" and "error" not in answers[reference][name]]
            ratios = {
                name: answers[mode][name]["us"] / answers[reference][name]["us"]
                for name in equal
                if "us" in answers[mode][name] and "us" in answers[reference][name]
            }
            print(f"{scope}: {len(equal)} of {len(mine)} programs equal", end="")
            if ratios:
                mean = math.exp(statistics.fmean(math.log(r) for r in ratios.values()))
                slow = sum(r > 1.05 for r in ratios.values())
                print(f"; time ratio over {len(ratios)}: geometric mean {mean:.4f}, largest {max(ratios.values()):.3f}, {slow} above 1.05", end="")
            print("\n\n| program | result | us | ratio |\n| --- | --- | --- | --- |")
            order = sorted(mine, key=lambda n: (verdicts[n] == "equal", -ratios.get(n, 0)))
            for name in order:
                us = answers[mode][name].get("us")
                ratio = ratios.get(name)
                print(f"| {name} | {verdicts[name]} | {'' if us is None else f'{us:.2f}'} | {'' if ratio is None else f'{ratio:.3f}'} |")
            print()


def table(arguments):
    """One table of a campaign: a row for each program, with the time of the reference and the ratio of each other mode."""
    import programs as package

    programs = package.load()
    answers = json.loads(Path(arguments.results).read_text())
    modes = sorted(answers, key=lambda mode: list(MODES).index(mode))
    reference, others = modes[0], modes[1:]
    names = [name for name in programs if name in answers[reference]]
    print(f"| program | kind | {reference}, us | " + " | ".join(others) + " |")
    print("| --- " * (3 + len(others)) + "|")
    ratios = {mode: {"scalar": [], "matrix": []} for mode in others}
    for name in names:
        base = answers[reference][name].get("us")
        kind = "matrix" if "matrix" in programs[name].tags else "scalar"
        cells = []
        for mode in others:
            answer = answers[mode][name]
            words = verdict(answer)
            if words == "equal" and base and "us" in answer:
                ratios[mode][kind].append(answer["us"] / base)
                words = f"{answer['us'] / base:.3f}"
            elif "not supported yet: " in words.lower():
                words = "not supported yet: " + words.split("upported yet: ", 1)[1].split()[0].split(".sync")[0]
            elif words != "equal":
                words = words.split(":")[0].lower()
            cells.append(words)
        if "error" in answers[reference][name]:
            continue
        print(f"| {name} | {kind} | {'' if base is None else f'{base:.2f}'} | " + " | ".join(cells) + " |")
    for kind in ("scalar", "matrix"):
        means = [statistics.geometric_mean(ratios[mode][kind]) if ratios[mode][kind] else None for mode in others]
        cells = [f"**{mean:.4f}** ({len(ratios[mode][kind])})" if mean else "" for mode, mean in zip(others, means)]
        print(f"| **geometric mean, {kind}** (programs) | | | " + " | ".join(cells) + " |")
    return 0


def select(programs, text, tags):
    wanted = [word for word in (text or "").split(",") if word]
    return [
        name
        for name, p in programs.items()
        if (not wanted or any(word in name for word in wanted)) and (not tags or p.tags & set(tags.split(",")))
    ]


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

    programs = package.load()
    settings()
    modes = arguments.modes.split(",")
    folder = Path(arguments.out).resolve()
    for mode in modes:
        shutil.rmtree(folder / mode, ignore_errors=True)
        (folder / mode).mkdir(parents=True)
    variables = {mode: environment(mode, folder, arguments.fusion) for mode in modes}
    # Those that compile longest come first.
    names = sorted(select(programs, arguments.filter, arguments.tags), key=lambda name: "compile" not in programs[name].tags)
    print(f"{len(names)} programs, modes {modes}, imported after {time.monotonic() - started:.1f} s", flush=True)
    answers = check_all(modes, names, arguments, folder, variables)
    print(f"checked after {time.monotonic() - started:.1f} s", flush=True)
    compare(modes, answers, folder)
    if arguments.samples:
        time_all(modes, answers, arguments, folder, variables)
    print(f"timed after {time.monotonic() - started:.1f} s", flush=True)
    for mode in modes:
        log = folder / mode / "assembler.log"
        if log.exists():
            lines = log.read_text().splitlines()
            print(f"{mode}: {len(lines)} modules assembled by us, {sum(not l.startswith('0') for l in lines)} of them refused")
    report(modes, answers, programs)
    (folder / "results.json").write_text(json.dumps(answers, indent=1, sort_keys=True))
    bad = sum(verdict(answers[m][n]) != "equal" for m in modes for n in names)
    return 1 if bad else 0


class CompileOnly:
    """Stands for the GPU's driver where there is none: kernels are compiled, launches are handed to `launched`."""

    class utils:
        @staticmethod
        def get_device_properties(_device):
            return {"max_shared_mem": 232448, "multiprocessor_count": 132}

        @staticmethod
        def load_binary(_name, _kernel, _shared, _device):
            return object(), 0, 0, 0, 1024

    def __init__(self, launched):
        self.launched = launched

    def launcher_cls(self, source, metadata):
        return lambda *words: self.launched(source, metadata, words)

    def get_current_target(self):
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", 90, 32)

    def get_current_device(self):
        return 0

    def get_current_stream(self, _device):
        return 0


def without_gpu(arguments, names, programs, launched):
    """Prepares and runs each program with nothing behind the launches; returns the errors by name."""
    import triton
    from programs import Data

    errors = {}
    for name in names:
        triton.runtime.driver.set_active(CompileOnly(lambda *words, name=name: launched(name, *words)))
        try:
            programs[name].prepare(Data("cpu", shrink=arguments.shrink))()
        except Exception as error:
            errors[name] = reason(error)
            if os.environ.get("TRACEBACK"):
                traceback.print_exc()
    return errors


def eager_families():
    import programs as package

    return package.load(("elementwise", "reductions", "scans", "integers", "memory", "training", "matrix"))


def compile_only(arguments):
    """Compiles every Triton program and lists those that are refused."""
    programs = eager_families()
    folder = Path(arguments.out).resolve()
    shutil.rmtree(folder / arguments.mode, ignore_errors=True)
    (folder / arguments.mode).mkdir(parents=True)
    os.environ.update(environment(arguments.mode, folder, True))
    names = select(programs, arguments.filter, arguments.tags)
    sys.stdout, out = open(os.devnull, "w"), sys.stdout
    errors = without_gpu(arguments, names, programs, lambda *_: None)
    sys.stdout = out
    for name, error in errors.items():
        print(f"{name}: {error}")
    print(f"{len(names) - len(errors)} of {len(names)} programs compile")
    return 1 if errors else 0


SCALARS = {"i1": "i32", "i8": "i32", "i16": "i32", "i32": "i32", "u32": "u32", "i64": "i64", "u64": "u64", "fp32": "f32", "fp64": "f64"}


def record(arguments):
    """Writes each launch down: its PTX, its inputs, and a manifest that says how to launch it."""
    programs = eager_families()
    folder = Path(arguments.folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    os.environ.update(environment("ptxas", folder / "caches", True))
    tests, counts = [], {}

    def launched(name, source, metadata, words):
        import triton

        at = counts[name] = counts.get(name, -1) + 1
        label = f"{name}{at or ''}"
        grid, values = words[:3], words[9:]
        kernels = triton.runtime.cache.get_cache_manager(metadata.hash)
        group = kernels.get_group(f"{metadata.name}.json")
        ptx = next(Path(p).read_text() for n, p in group.items() if n.endswith(".ptx"))
        (folder / f"{label}.ptx").write_text(ptx)
        parameters = []
        for (parameter, kind), value in zip(source.signature.items(), values, strict=True):
            if kind == "constexpr":
                continue
            if kind.startswith("*"):
                data = as_bytes(value).numpy().tobytes()
                digest = hashlib.sha256(data).hexdigest()[:16]
                (folder / f"{digest}.bin").write_bytes(data)
                parameters.append({"file": f"{digest}.bin"})
            else:
                parameters.append({SCALARS[kind]: value})
        parameters += [{"u64": 0}, {"u64": 0}]
        tests.append(
            {
                "name": label,
                "ptx": f"{label}.ptx",
                "kernel": metadata.name,
                "grid": [int(n) for n in grid],
                "block": [32 * metadata.num_warps, 1, 1],
                "smem": metadata.shared,
                "args": parameters,
                "tags": sorted(programs[name].tags),
            }
        )

    names = select(programs, arguments.filter, arguments.tags)
    errors = without_gpu(arguments, names, programs, launched)
    for name, error in errors.items():
        print(f"{name}: {error}")
    (folder / "manifest.json").write_text("{\"tests\":[\n" + ",\n".join(json.dumps(test) for test in tests) + "\n]}\n")
    print(f"{len(tests)} launches of {len(names) - len(errors)} programs recorded")
    return 1 if errors else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--filter", help="only programs whose name contains one of these words")
    common.add_argument("--tags", help="only programs with one of these tags")
    common.add_argument("--out", default="target/bench/triton", help="where outputs, caches and results go")
    commands.add_parser("list", parents=[common])
    p = commands.add_parser("run", parents=[common])
    p.add_argument("--modes", default="ptxas,orias,control", help=f"the first is the reference; any of {', '.join(MODES)}")
    p.add_argument("--runs", type=int, default=100, help="how often each program runs for its results")
    p.add_argument("--samples", type=int, default=10, help="timed graphs in each round; 0: no timing")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--workers", type=int, default=5, help="processes for each mode")
    p.add_argument("--patience", type=float, default=60, help="seconds a program may take, its compilation included, before it counts as hanging")
    p.add_argument("--time-limit", type=float, default=300, help="seconds for each of the two steps")
    p.add_argument("--no-fusion", dest="fusion", action="store_false", help="assemble with --fmad=false")
    p = commands.add_parser("compile", parents=[common])
    p.add_argument("--mode", default="orias", choices=MODES)
    p.add_argument("--shrink", type=int, default=64)
    p = commands.add_parser("record", parents=[common])
    p.add_argument("folder")
    commands.add_parser("table").add_argument("results")
    p.add_argument("--shrink", type=int, default=64, help="divide the number of rows by this")
    arguments = parser.parse_args()
    if arguments.command == "list":
        import programs as package

        programs = package.load()
        for name in select(programs, arguments.filter, arguments.tags):
            print(name, " ".join(sorted(programs[name].tags)))
        return 0
    return {"run": run, "compile": compile_only, "record": record, "table": table}[arguments.command](arguments)


if __name__ == "__main__":
    sys.exit(main())
