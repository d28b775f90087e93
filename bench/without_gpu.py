"""Programs of `programs/` where there is no GPU: compiled only, or their launches written down."""

import hashlib
import json
import os
import shutil
import sys
import traceback
from pathlib import Path

from device import as_bytes
from assemblers import environment
from programs import select
from workers import reason


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


def compile(arguments):
    """Compiles every Triton program and lists those that are refused."""
    programs = eager_families()
    folder = Path(arguments.out).resolve()
    shutil.rmtree(folder / arguments.mode, ignore_errors=True)
    (folder / arguments.mode).mkdir(parents=True)
    os.environ.update(environment(arguments.mode, folder, True))
    names = select(arguments.filter, arguments.tags)
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

    names = select(arguments.filter, arguments.tags)
    errors = without_gpu(arguments, names, programs, launched)
    for name, error in errors.items():
        print(f"{name}: {error}")
    (folder / "manifest.json").write_text("{\"tests\":[\n" + ",\n".join(json.dumps(test) for test in tests) + "\n]}\n")
    print(f"{len(tests)} launches of {len(names) - len(errors)} programs recorded")
    return 1 if errors else 0
