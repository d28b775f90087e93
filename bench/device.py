"""One process's GPU: runs programs of `programs/`, with the code of their kernels as several assemblers make it."""

import ctypes
import hashlib
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path

import assemblers
import graphs

#: A graph that is timed takes about this many microseconds, and holds at most so many runs of its program.
GRAPH_MICROSECONDS = 600
GRAPH_RUNS = 200


def settings():
    """torch.compile's settings: one process, and no choice that depends on measured time."""
    import torch._inductor.config as inductor

    inductor.compile_threads = 1
    wanted = {"deterministic": True, "dynamic_scale_rblock": False, "max_autotune": False, "coordinate_descent_tuning": False}
    # Kernels are loaded by Triton, which says so by a hook.
    wanted["use_static_cuda_launcher"] = False
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


def differences(outputs, expected):
    """Says which outputs differ and how."""
    wrong = []
    for at, (output, wanted) in enumerate(zip(outputs, expected, strict=True)):
        differs = as_bytes(output) != as_bytes(wanted)
        if differs.any():
            elements = differs.view(-1, output.element_size()).any(dim=1)
            first = int(elements.nonzero()[0])
            pair = (output.flatten()[first].item(), wanted.flatten()[first].item())
            wrong.append(f"output {at}: {int(elements.sum())} of {elements.numel()} differ, first at {first}: {pair[0]}, not {pair[1]}")
    return wrong


@dataclass
class Kernel:
    """A kernel that Triton loaded."""

    name: str
    source: Path
    cubin: bytes
    shared: int
    registers: int

    def digest(self):
        """What tells its PTX from others, without places in source files."""
        text = self.source.read_text().split("\n\t.file", 1)[0]
        lines = [line for line in text.splitlines() if not line.lstrip().startswith((".loc", "//"))]
        digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
        return f"{self.name} {digest[:12]}"


@dataclass
class Captured:
    """A program whose launches are captured: one run of it, and the tensors that the run leaves."""

    run: object
    graph: object
    outputs: tuple


class Device:
    """Answers a worker's requests: see `workers`."""

    def __init__(self, reference, folder, options, keep):
        import torch
        import triton
        from programs import PROGRAMS, Data

        settings()
        self.torch, self.programs, self.data = torch, PROGRAMS, Data
        self.reference, self.folder, self.options, self.keep = reference, folder, options, keep
        self.driver = graphs.Driver()
        #: Kernels by the handle of their function, and functions by mode and source.
        self.kernels, self.loaded = {}, {}
        self.captured = {}
        self.load_binary = triton.runtime.driver.active.utils.load_binary
        triton.knobs.runtime.kernel_load_end_hook.add(self.note)
        torch.cuda.init()

    def note(self, _module, function, name, group, _hash):
        """Keeps which PTX a function comes from."""
        files = {Path(file).suffix: Path(path) for file, path in group.items()}
        shared = json.loads(files[".json"].read_text())["shared"]
        registers = self.attribute(function, 4)
        self.kernels[function] = Kernel(name, files[".ptx"], files[".cubin"].read_bytes(), shared, registers)

    def attribute(self, function, number):
        value = ctypes.c_int()
        self.driver.call("cuFuncGetAttribute", ctypes.byref(value), ctypes.c_int(number), ctypes.c_void_p(function))
        return value.value

    def usable(self):
        try:
            self.torch.cuda.synchronize()
            return True
        except Exception:
            return False

    def capture(self, run, count):
        torch = self.torch
        graph = torch.cuda.CUDAGraph(keep_graph=True)
        with torch.cuda.graph(graph):
            for _ in range(count):
                outputs = run()
        return graph, outputs

    def program(self, name):
        if name not in self.captured:
            run = self.programs[name].prepare(self.data("cuda"))
            for _ in range(2):
                run()
            self.torch.cuda.synchronize()
            if hasattr(run, "reset"):
                # These hold much memory and are prepared at once.
                self.captured.clear()
            self.captured[name] = Captured(run, *self.capture(run, 1))
        return self.captured[name]

    def used(self, graph):
        """The kernels of a graph that come from PTX, by function."""
        functions = self.driver.functions(graph.raw_cuda_graph())
        used = {function: self.kernels[function] for function in functions if function in self.kernels}
        if not used:
            raise RuntimeError("no kernel of the program comes from Triton")
        return used

    def code(self, mode, kernel, copy=0):
        """The function and the number of registers of a kernel as an assembler makes it; raises with its message if it does not.

        Each `copy` is loaded for itself and lies at another place of memory."""
        key = (mode, kernel.source, copy)
        if key not in self.loaded:
            if mode.startswith("ptxas"):
                cubin = kernel.cubin
            else:
                with tempfile.TemporaryDirectory() as scratch:
                    file = Path(scratch) / "code.cubin"
                    message = assemblers.assemble(mode, kernel.source, file, self.options)
                    if message:
                        raise RuntimeError(message)
                    cubin = file.read_bytes()
            _module, function, registers, *_ = self.load_binary(kernel.name, cubin, kernel.shared, 0)
            self.loaded[key] = (function, registers)
        return self.loaded[key]

    def exchanged(self, graph, mode, copy=0):
        """A graph with a mode's code, ready to launch, and the registers of its kernels by name."""
        used = self.used(graph)
        kept = mode == self.reference and copy == 0
        code = {} if kept else {function: self.code(mode, kernel, copy) for function, kernel in used.items()}
        registers = {kernel.name: code[function][1] if code else kernel.registers for function, kernel in used.items()}
        ready = self.driver.exchanged(graph.raw_cuda_graph(), {function: new for function, (new, _) in code.items()})
        return ready, registers

    def launch(self, ready):
        self.driver.launch(ready, self.torch.cuda.current_stream().cuda_stream)

    def check(self, name, modes, runs):
        """Runs a program often with each mode's code, compares with the reference, and says how many runs differ from the first."""
        torch = self.torch
        expected = None
        yield "doing", self.reference
        program = self.program(name)
        kernels = sorted(kernel.digest() for kernel in self.used(program.graph).values())
        for mode in [self.reference, *modes]:
            yield "doing", mode
            try:
                ready, registers = self.exchanged(program.graph, mode)
            except RuntimeError as error:
                if not self.usable():
                    raise
                yield "answer", mode, {"error": str(error)}
                continue
            reset = getattr(program.run, "reset", lambda: None)
            for output in program.outputs:
                as_bytes(output).fill_(0xA5)
            reset()
            self.launch(ready)
            torch.cuda.synchronize()
            first = [output.clone() for output in program.outputs]
            different = torch.zeros((), dtype=torch.int64, device="cuda")
            for _ in range(runs - 1):
                reset()
                self.launch(ready)
                wrong = torch.zeros((), dtype=torch.bool, device="cuda")
                for output, before in zip(program.outputs, first):
                    wrong |= (as_bytes(output) != as_bytes(before)).any()
                different += wrong
            answer = {"unstable": int(different.item()), "kernels": kernels, "registers": registers, "different": []}
            self.driver.release(ready)
            if expected is None:
                expected = first
                if self.keep:
                    torch.save([output.cpu() for output in first], self.folder / f"{name}.pt")
            else:
                answer["different"] = differences(first, expected)
            yield "answer", mode, answer

    def time(self, name, modes, rounds, copy=0):
        """Microseconds of one run of a program with a copy of each mode's code, one number for each round."""
        torch = self.torch
        program = self.program(name)

        def event():
            return torch.cuda.Event(enable_timing=True)

        single, _ = self.exchanged(program.graph, self.reference)
        self.launch(single)
        one = min(graphs.times({"one": lambda: self.launch(single)}, 5, event)["one"]) * 1000
        self.driver.release(single)
        count = max(1, min(GRAPH_RUNS, round(GRAPH_MICROSECONDS / max(one, 1))))
        graph, _ = self.capture(program.run, count)
        ready = {mode: self.exchanged(graph, mode, copy)[0] for mode in modes}
        launches = {mode: lambda exec=exec: self.launch(exec) for mode, exec in ready.items()}
        # The clocks rise while the device works.
        graphs.times(launches, 5, event)
        measured = graphs.times(launches, rounds, event)
        for exec in ready.values():
            self.driver.release(exec)
        yield "answer", name, {mode: [1000 * time / count for time in times] for mode, times in measured.items()}
