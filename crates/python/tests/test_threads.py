"""Threads, the interpreter's lock, cancelling, limits, leaks."""

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import BAD, SAXPY, SHARED, TWO, big, wide

import orias


def test_the_lock_is_released_while_compiling():
    ticks, stop = 0, threading.Event()

    def count():
        nonlocal ticks
        while not stop.is_set():
            ticks += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    try:
        orias.compile(big(20_000))
    finally:
        stop.set()
        thread.join()
    # A lock that is kept would let the other thread go on once or twice.
    assert ticks > 5


def test_a_thousand_compilations_by_eight_threads_are_those_of_one():
    modules = [SAXPY, TWO, SHARED, wide(40), BAD]
    expected = {ptx: None if ptx == BAD else orias.compile(ptx).data for ptx in modules}
    with pytest.raises(orias.PtxError) as caught:
        orias.compile(BAD)
    refusal = str(caught.value)

    def one(number):
        ptx = modules[number % len(modules)]
        try:
            return orias.compile(ptx).data == expected[ptx]
        except orias.PtxError as error:
            return ptx == BAD and str(error) == refusal

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(one, range(1000)))


def test_nothing_leaks():
    """After a warm-up, hundreds of compilations, good and bad, leave the process as large as it was."""
    script = """
import resource, gc, orias, sys
sys.path.insert(0, {tests!r})
from conftest import SAXPY, BAD, SHARED, wide
def work(times):
    for _ in range(times):
        for ptx in (SAXPY, SHARED, wide(60)):
            cubin = orias.compile(ptx)
            orias.verify(cubin); orias.disassemble(cubin); orias.run(cubin, bytearray(128), block=32) if ptx is SHARED else None
        try: orias.compile(BAD)
        except orias.PtxError: pass
        try: orias.compile(wide(60), memory_limit=100_000)
        except orias.MemoryLimitError: pass
    gc.collect()
    with open('/proc/self/statm') as file:
        return int(file.read().split()[1]) * resource.getpagesize()
work(20)
before = work(20)
after = work(100)
print(before, after)
"""
    if not os.path.exists("/proc/self/statm"):
        pytest.skip("no /proc")
    text = script.format(tests=os.path.dirname(__file__))
    said = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True).stdout
    before, after = map(int, said.split())
    # One compilation's memory would be megabytes; a hundred, hundreds.
    assert after - before < 4 << 20, said


def test_a_compilation_can_be_cancelled_before_it_starts():
    cancel = orias.Cancel()
    assert not cancel.cancelled
    cancel.cancel()
    assert cancel.cancelled
    with pytest.raises(orias.Cancelled):
        orias.compile(SAXPY, cancel=cancel)


def test_a_compilation_can_be_cancelled_from_another_thread():
    cancel = orias.Cancel()
    ptx = big(60_000)
    started = time.monotonic()
    timer = threading.Timer(0.05, cancel.cancel)
    timer.start()
    with pytest.raises(orias.Cancelled):
        orias.compile(ptx, cancel=cancel)
    timer.join()
    assert time.monotonic() - started < 60


def test_cancelling_one_leaves_others_alone(saxpy):
    cancel = orias.Cancel()
    cancel.cancel()
    assert orias.compile(SAXPY, cancel=orias.Cancel()) == saxpy


def test_a_memory_limit_is_kept():
    needed = orias.compile(wide(60)).peak_memory
    with pytest.raises(orias.MemoryLimitError, match="memory"):
        orias.compile(wide(60), memory_limit=needed // 2)
    assert orias.compile(wide(60), memory_limit=needed * 4).kernels


@pytest.mark.parametrize("limit", [0, 1, 4096])
def test_tiny_limits(limit):
    with pytest.raises(orias.MemoryLimitError):
        orias.compile(SAXPY, memory_limit=limit)


@pytest.mark.parametrize("limit", [-1, "1", 1 << 70])
def test_what_is_no_limit(limit):
    with pytest.raises((TypeError, OverflowError)):
        orias.compile(SAXPY, memory_limit=limit)


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_control_c_ends_a_compilation():
    script = """
import sys, threading, os, signal, orias
sys.path.insert(0, {tests!r})
from conftest import big
# A shell that starts a command in the background lets it ignore the signal.
signal.signal(signal.SIGINT, signal.default_int_handler)
ptx = big(200_000)
threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    orias.compile(ptx)
except KeyboardInterrupt:
    print("interrupted")
"""
    text = script.format(tests=os.path.dirname(__file__))
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=120)
    assert done.stdout == "interrupted\n", done


def test_instruments_and_runs_from_many_threads():
    cubin = orias.compile(SHARED)
    listing = orias.disassemble(cubin)

    def one(number):
        data = bytearray(range(128))
        orias.run(cubin, data, block=32)
        return data[:4] == bytes(range(124, 128)) and orias.disassemble(cubin) == listing and bool(orias.verify(cubin))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(one, range(64)))


def test_a_forked_child_compiles():
    if not hasattr(os, "fork"):
        pytest.skip("no fork")
    orias.compile(TWO)
    gc.collect()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if orias.compile(TWO).kernels else 1
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert signal.getsignal(signal.SIGINT) is not None
