"""Triton and torch.compile programs with fixed inputs, to run the same code through different assemblers.

A program is a function that makes its inputs and returns `run`: a function without arguments that launches the kernels and returns
the tensors they wrote. `run` may be called any number of times and always starts from the same state, so that two calls leave the
same bits. Nothing a program returns may depend on the order in which threads run.
"""

from dataclasses import dataclass
from typing import Callable

import torch


@dataclass(frozen=True)
class Program:
    """One program: its name, what it uses, and the function that prepares it."""

    name: str
    tags: frozenset
    prepare: Callable


#: All programs, by name, in the order of their definition.
PROGRAMS: dict[str, Program] = {}


def program(*tags, name=None, **arguments):
    """Adds the decorated function to the programs; with `arguments`, under `name` and called with them."""

    def add(function):
        label = name or function.__name__
        if label in PROGRAMS:
            raise ValueError(f"two programs are called {label}")
        PROGRAMS[label] = Program(label, frozenset(tags), lambda data: function(data, **arguments))
        return function

    return add


class Data:
    """Makes the inputs of one program, the same ones every time."""

    def __init__(self, device, shrink=1):
        self.device = device
        self.shrink = shrink
        self.generator = torch.Generator(device=device)
        self.generator.manual_seed(0x0A5A5)

    def rows(self, n):
        """A count of rows or elements, divided by `shrink` where programs run without a GPU."""
        return max(1, n // self.shrink)

    def normal(self, *shape, dtype=torch.float32, scale=1.0):
        wide = torch.float64 if dtype == torch.float64 else torch.float32
        x = torch.randn(*shape, generator=self.generator, device=self.device, dtype=wide)
        return (x * scale).to(dtype)

    def uniform(self, *shape, dtype=torch.float32, low=0.0, high=1.0):
        wide = torch.float64 if dtype == torch.float64 else torch.float32
        x = torch.rand(*shape, generator=self.generator, device=self.device, dtype=wide)
        return (x * (high - low) + low).to(dtype)

    def integers(self, *shape, low, high, dtype=torch.int32):
        return torch.randint(low, high, shape, generator=self.generator, device=self.device, dtype=dtype)

    def bits(self, *shape, dtype=torch.int32):
        """Any bits of an integer type."""
        info = torch.iinfo(dtype)
        x = torch.randint(-(2**62), 2**62, shape, generator=self.generator, device=self.device, dtype=torch.int64)
        x = x ^ (x >> 29)
        return x.to(dtype) if info.bits < 64 else x

    def floats(self, *shape):
        """Single-precision numbers of every exponent, with zeros, infinities, NaNs and subnormals among them."""
        x = self.bits(*shape).view(torch.float32)
        special = torch.tensor(
            [0.0, -0.0, float("inf"), -float("inf"), float("nan"), 1e-45, -1e-40, 1.0, -1.0, 3.4e38], device=self.device
        )
        x.view(-1)[: special.numel()] = special
        return x

    def like(self, x, dtype=None):
        return self.empty(*x.shape, dtype=dtype or x.dtype)

    def empty(self, *shape, dtype=torch.float32):
        """An output: every byte is 0xa5, so that what a kernel leaves out shows."""
        x = torch.empty(*shape, dtype=dtype, device=self.device)
        x.flatten().view(torch.uint8).fill_(0xA5)
        return x

    def zeros(self, *shape, dtype=torch.float32):
        return torch.zeros(*shape, dtype=dtype, device=self.device)


def load(families=("elementwise", "reductions", "scans", "integers", "memory", "training", "compiled", "matrix", "large")):
    """Imports the modules that define the programs."""
    import importlib

    for family in families:
        importlib.import_module(f"programs.{family}")
    return PROGRAMS


def select(text, tags):
    """The names of the loaded programs that contain one of the words of `text` and have one of `tags`, both lists with commas.

    Programs tagged `large` are taken only where `tags` names them.
    """
    wanted = [word for word in (text or "").split(",") if word]
    return [
        name
        for name, p in PROGRAMS.items()
        if (not wanted or any(word in name for word in wanted)) and (p.tags & set(tags.split(",")) if tags else "large" not in p.tags)
    ]
