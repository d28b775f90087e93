"""CUDA programs of our own by nvcc: with the toolkit itself, and with its shadow."""

import shutil
import subprocess
import tempfile
from pathlib import Path

import toolkits
from gpu import lacks_hopper

PACKAGES = ("numpy",)
SOURCE = Path(__file__).with_name("programs.cu")
ptxas = toolkits.ptxas
NAMES = ("scan", "transpose", "nbody", "sort", "strings")


def lacks():
    return "nvcc" if shutil.which("nvcc") is None else lacks_hopper()


def switch(fallback):
    return toolkits.switch("nvcc", fallback)


def nvcc(*words):
    done = subprocess.run(["nvcc", "-arch=sm_90", "-std=c++17", *words], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError((done.stderr or done.stdout).strip())


def compiled():
    def make():
        with tempfile.TemporaryDirectory() as folder:
            cubin = Path(folder) / "programs.cubin"
            nvcc("-cubin", SOURCE, "-o", cubin)
            return [cubin.read_bytes()]

    return {"programs": make}


def programs():
    import numpy

    folder = Path(tempfile.mkdtemp(prefix="orias-cuda-"))
    program = folder / "programs"

    def one(name):
        def make():
            said = []

            def run():
                if not program.exists():
                    nvcc(SOURCE, "-o", program)
                # A process of its own: it times its launches itself.
                done = subprocess.run([program, name, folder / name], check=True, capture_output=True, text=True)
                said.extend(float(word) for word in done.stdout.split())

            return run, lambda: [numpy.fromfile(folder / name, "u4")], lambda: said

        return make

    return {name: one(name) for name in NAMES}
