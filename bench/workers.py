"""Processes that run programs on the GPU and may be lost: a kernel that faults or never ends takes its process with it.

A worker answers a request with messages: `("doing", what)` before each thing that may end it, `("answer", what, value)` after it, and
`("end",)`. When it dies, or is silent for too long, the parent knows what it was doing.
"""

import multiprocessing
import os
import time
import traceback
from multiprocessing.connection import wait


def serve(pipe, variables, folder, open_device):
    """The worker's side: answers requests until its pipe closes."""
    os.environ.update(variables)
    log = os.open(folder / f"worker-{os.getpid()}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    device = open_device()
    while True:
        try:
            verb, *arguments = pipe.recv()
        except EOFError:
            return
        try:
            for message in getattr(device, verb)(*arguments):
                pipe.send(message)
        except Exception as error:
            traceback.print_exc()
            pipe.send(("failed", reason(error)))
            if not device.usable():
                # A fault on the device is final for the process.
                os._exit(1)
        else:
            pipe.send(("end",))


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
    """The parent's side of a worker. `request` is what it works on, `doing` the part of that which it named last."""

    def __init__(self, variables, folder, open_device, patience):
        self.start_with = (variables, folder, open_device)
        self.patience = patience
        self.process = self.request = self.doing = None

    def alive(self):
        return self.process is not None and self.process.is_alive()

    def ask(self, *request):
        extra = 0
        if not self.alive():
            context = multiprocessing.get_context("fork")
            self.pipe, other = context.Pipe()
            self.process = context.Process(target=serve, args=(other, *self.start_with), daemon=True)
            self.process.start()
            other.close()
            # A worker that starts also opens the device.
            extra = 30
        self.request, self.doing = request, None
        self.deadline = time.monotonic() + self.patience + extra
        try:
            self.pipe.send(request)
        except OSError:
            # It has just ended; `message` finds that out.
            pass

    def message(self):
        """The next message, after `ready` named this worker; `("failed", why)` if it ended or is late."""
        self.deadline = max(self.deadline, time.monotonic() + self.patience)
        try:
            message = self.pipe.recv()
        except (EOFError, OSError):
            self.stop()
            return ("failed", "the process ended")
        if message[0] == "doing":
            self.doing = message[1]
        if message[0] in ("end", "failed"):
            self.request = None
        return message

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.join(5)
            self.pipe.close()
        self.process = self.request = None


def ready(workers, end):
    """Messages of busy workers as (worker, request, what it was doing, message); waits for at least one, or for the end."""
    busy = [worker for worker in workers if worker.request]
    until = min([end, *(worker.deadline for worker in busy)])
    pipes = wait([worker.pipe for worker in busy], timeout=max(0.0, until - time.monotonic()))
    now = time.monotonic()
    out = []
    for worker in busy:
        request = worker.request
        if worker.pipe in pipes:
            message = worker.message()
            out.append((worker, request, worker.doing, message))
        elif now >= min(worker.deadline, end):
            late = "hangs" if now >= worker.deadline else "no time left"
            doing = worker.doing
            worker.stop()
            out.append((worker, request, doing, ("failed", late)))
    return out
