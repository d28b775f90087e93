"""The shadow of the installed toolkit, for clients that call nvcc."""

import os
import subprocess
import tempfile

import orias
from orias import clients


def shadow(folder):
    """A shadow of the toolkit that the environment names; its path."""
    path = os.path.join(folder, "toolkit")
    subprocess.run(["orias", "toolkit", path], executable=orias.ptxas_path(), check=True, stdout=subprocess.DEVNULL)
    return path


def switch(client, fallback):
    """Lets nvcc be the shadow's, for the process and those below it."""
    folder = tempfile.mkdtemp(prefix="orias-toolkit-")
    toolkit = shadow(folder)
    real = open(os.path.join(toolkit, "orias-toolkit.txt")).read().strip()
    variables = {"CUDA_PATH": toolkit, "CUDA_HOME": toolkit, "PATH": os.path.join(toolkit, "bin") + os.pathsep + os.environ["PATH"]}
    return clients.Switch(client, lambda _: variables, lambda: os.path.join(real, "bin", "ptxas"), lambda: lambda: None, fallback)
