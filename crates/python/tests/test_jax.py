"""JAX as it is installed: XLA compiles for a chip that is not there, with Orias and with an assembler of its own."""

import glob
import importlib.util
import os
import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("jax")

SCRIPT = pathlib.Path(__file__).with_name("jax_softmax.py")


def toolkit():
    """A toolkit with the bitcode that XLA links, without which it compiles nothing."""
    package = importlib.util.find_spec("nvidia")
    folders = [folder for place in (package.submodule_search_locations or [] if package else []) for folder in glob.glob(f"{place}/cu*")]
    folders += [os.environ.get("CUDA_HOME", ""), "/usr/local/cuda"]
    return next((folder for folder in folders if os.path.exists(f"{folder}/nvvm/libdevice/libdevice.10.bc")), None)


def has_cuda():
    package = importlib.util.find_spec("jax_plugins")
    return any(glob.glob(f"{place}/xla_cuda*") for place in (package.submodule_search_locations if package else []))


pytestmark = [
    pytest.mark.skipif(not has_cuda(), reason="there is no JAX for CUDA"),
    pytest.mark.skipif(toolkit() is None, reason="there is no libdevice"),
]


def who(how):
    environment = {name: value for name, value in os.environ.items() if name not in ("XLA_FLAGS", "CUDA_ROOT")}
    environment["CUDA_HOME"] = toolkit()
    done = subprocess.run([sys.executable, SCRIPT, how], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("how", ["before", "after"])
def test_jax_compiles_with_orias(how):
    assert who(how) == "orias"


def test_jax_that_is_not_switched_does_not():
    assert who("never") == "own"
