"""The shadow of the installed toolkit, for clients that call nvcc."""

import os
import shutil
import subprocess
import tempfile

import orias
from orias import clients


def shadow(folder):
    """A shadow of the toolkit that the environment names; its path."""
    path = os.path.join(folder, "toolkit")
    made = subprocess.run(["orias", "toolkit", path], executable=orias.ptxas_path(), capture_output=True, text=True)
    if made.returncode != 0:
        raise RuntimeError((made.stderr or made.stdout).strip())
    return path


def switch(client, fallback):
    """Lets nvcc be the shadow's, for the process and those below it."""
    folder = tempfile.mkdtemp(prefix="orias-toolkit-")
    toolkit = shadow(folder)
    real = open(os.path.join(toolkit, "orias-toolkit.txt")).read().strip()
    variables = {"CUDA_PATH": toolkit, "CUDA_HOME": toolkit, "PATH": os.path.join(toolkit, "bin") + os.pathsep + os.environ["PATH"]}
    # CuPy looks into NVIDIA's packages before it looks at these.
    variables["NVCC"] = os.path.join(toolkit, "bin", "nvcc")
    return clients.Switch(client, lambda _: variables, lambda: os.path.join(real, "bin", "ptxas"), lambda: lambda: None, fallback)


def ptxas():
    """Which ptxas is compared with: that of the nvcc on the path."""
    nvcc = shutil.which("nvcc")
    # CuPy would take another one.
    os.environ["NVCC"] = nvcc
    return f"nvcc's ptxas {clients.release_of(os.path.join(os.path.dirname(nvcc), 'ptxas'))}"
