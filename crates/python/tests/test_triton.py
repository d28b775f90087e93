"""Triton as it is installed: `triton.compile` without a GPU, with its own ptxas and with Orias. The kernel is of our own."""

import os
import pathlib
import subprocess
import sys

import pytest

import orias

triton = pytest.importorskip("triton")

SCRIPT = pathlib.Path(__file__).with_name("triton_kernel.py")


def compiled(tmp_path, how):
    """What a process prints that compiles a kernel: who made it, and what was counted."""
    environment = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, SCRIPT, how], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.split()


def test_triton_compiles_with_orias_and_back(tmp_path):
    """In one process: its own, Orias, its own again, each with a cubin of its own."""
    assert compiled(tmp_path, "back") == ["own", "orias", "own", "count", "1"]


def test_triton_compiles_with_orias_from_the_start(tmp_path):
    assert compiled(tmp_path, "start") == ["orias", "count", "1"]


def test_the_cubin_runs(tmp_path):
    assert compiled(tmp_path, "run") == ["equal"]


def test_a_knob_set_in_python_is_overridden_and_comes_back(tmp_path):
    assert compiled(tmp_path, "knob") == ["orias", "knob"]


def test_triton_writes_ptx_that_orias_and_the_fallback_understand(tmp_path):
    """Its own ptxas may be older than Orias or newer: Orias compiles the kernel in both cases."""
    assert compiled(tmp_path, "fallback") == ["orias", "count", "1"]
