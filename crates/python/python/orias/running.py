"""Kernels on the CPU: PTX in the interpreter, finished code in the emulator."""

from __future__ import annotations

import ctypes
import re
import struct
from dataclasses import dataclass
from typing import Any, Optional, Sequence, Union

from . import _orias, errors
from .compiler import Cubin, Ptx, _module, compile

Dimensions = Union[int, Sequence[int]]


@dataclass(frozen=True)
class Finished:
    """What a run left, besides what is in the arrays."""

    #: What the kernel printed.
    printed: str
    #: Instructions executed, of all threads together.
    steps: int
    #: What the emulator found suspicious, where it was asked to look.
    findings: tuple[str, ...]
    #: The table of issues and cycles, where it was asked for.
    cycles: Optional[str]


def _dimensions(name: str, value: Dimensions) -> tuple[int, int, int]:
    numbers = (value,) if isinstance(value, int) else tuple(value)
    if not 1 <= len(numbers) <= 3 or not all(isinstance(n, int) and 0 < n < 1 << 32 for n in numbers):
        raise ValueError(f"{name} is one to three positive numbers, not {value!r}")
    x, y, z = (*numbers, 1, 1)[:3]
    return x, y, z


class _Buffer:
    """An object whose memory the kernel gets, and where what the kernel left goes back to."""

    def __init__(self, value: Any) -> None:
        # A tensor of torch in the CPU's memory is an array of NumPy, too.
        if not hasattr(value, "__array_interface__") and hasattr(value, "numpy"):
            value = value.detach().numpy()
        try:
            self.view = memoryview(value)
        except TypeError:
            raise TypeError(
                f"an argument is an array, a buffer or a number, not {type(value).__name__}"
            ) from None
        except ValueError:
            # Types that memory views do not know, as half precision's brothers in other packages.
            self.view = memoryview(value.view("u1"))
        if not self.view.c_contiguous:
            raise ValueError("an array must be contiguous: a kernel sees memory, not strides")
        self.bytes = self.view.tobytes()

    def put_back(self, data: bytes) -> None:
        if data == self.bytes:
            return
        if self.view.readonly:
            raise errors.RunError("the kernel wrote to a buffer that may not be written")
        if self.view.nbytes:
            self.view.cast("B")[:] = data


_FLOATS = {"f16": "<e", "f32": "<f", "f64": "<d"}
_BY_SIZE = {2: "<e", 4: "<f", 8: "<d"}


def _scalar(value: Any, kind: str, size: int, place: int) -> bytes:
    """A number as the bytes of a parameter."""
    if isinstance(value, bool):
        value = int(value)
    if isinstance(value, int) and kind not in _FLOATS:
        if not -(1 << (8 * size - 1)) <= value < 1 << (8 * size):
            raise ValueError(f"argument {place}: {value} does not fit {size} bytes")
        return (value & ((1 << (8 * size)) - 1)).to_bytes(size, "little")
    form = _FLOATS.get(kind) or (_BY_SIZE.get(size) if kind.startswith("b") else None)
    if form is None:
        raise TypeError(f"argument {place}: the parameter is .{kind}, not a floating-point number")
    return struct.pack(form, value)


def _arguments(code: bytes, source: Optional[bytes], kernel: Optional[str], values: Sequence[Any]) -> list:
    known = dict(_orias.parameters(source if source is not None else code))
    if kernel is None:
        if len(known) != 1:
            names = ", ".join(known) or "no kernel"
            raise ValueError(f"which kernel? there is {names}")
        (kernel,) = known
    if kernel not in known:
        raise ValueError(f"no kernel is named {kernel!r}: there is {', '.join(known) or 'none'}")
    parameters = known[kernel]
    if len(values) != len(parameters):
        raise TypeError(f"{kernel} takes {len(parameters)} arguments, not {len(values)}")
    made: list[Union[_Buffer, bytes]] = []
    for place, (value, (kind, size)) in enumerate(zip(values, parameters)):
        if isinstance(value, (bool, int, float)):
            made.append(_scalar(value, kind, size, place))
        elif _is_numpy_scalar(value) or _is_ctypes(value):
            data = value.tobytes() if hasattr(value, "tobytes") else bytes(value)
            if len(data) != size:
                raise ValueError(f"argument {place}: {len(data)} bytes for a parameter of {size}")
            made.append(data)
        elif isinstance(value, bytes) and size != 8:
            if len(value) != size:
                raise ValueError(f"argument {place}: {len(value)} bytes for a parameter of {size}")
            made.append(value)
        else:
            if size != 8:
                raise TypeError(f"argument {place}: the parameter has {size} bytes, and an address has 8")
            made.append(_Buffer(value))
    return made


def _is_numpy_scalar(value: Any) -> bool:
    return type(value).__module__ == "numpy" and not hasattr(value, "__setitem__") and hasattr(value, "tobytes")


def _is_ctypes(value: Any) -> bool:
    return isinstance(value, (ctypes._SimpleCData, ctypes.Structure))


def run(
    code: Union[Cubin, Ptx],
    *arguments: Any,
    kernel: Optional[str] = None,
    grid: Dimensions = 1,
    block: Dimensions = 1,
    cluster: Optional[Dimensions] = None,
    dynamic_shared: int = 0,
    interpret: bool = False,
    opt_level: int = 3,
    max_steps: Optional[int] = None,
    check: bool = False,
    check_uninitialised: bool = False,
    timing: str = "off",
    schedule: str = "in-order",
    cycles: bool = False,
) -> Finished:
    """Runs a kernel on the CPU. Arrays among the arguments are the kernel's memory, and change in place.

    Args:
        code: A cubin, or PTX, which is compiled first.
        arguments: One for each parameter. Arrays (NumPy's, `bytearray`, anything with a buffer) for pointers; numbers for the rest, as the
            parameter's type wants them. A cubin of another compiler does not tell types: give it NumPy's numbers (`numpy.float32(2)`).
        kernel: Its name; may be left out where there is only one.
        grid: Blocks in each dimension.
        block: Threads of a block in each dimension.
        cluster: Blocks of a cluster, where the launch and not the kernel says so.
        dynamic_shared: Bytes of dynamic shared memory.
        interpret: Execute PTX by its definition instead of compiling it.
        opt_level: The level at which PTX is compiled.
        max_steps: Stop after so many instructions of all threads together.
        check: Look for races, hazards and reads of what was never written; they are in `findings`.
        check_uninitialised: Stop where registers, shared or local memory are read that were never written.
        timing: When results of finished code become visible: `off`, `strict`, or `random:SEED`.
        schedule: In what order lanes and warps go on: `in-order`, `random:SEED`, or `adversarial`.
        cycles: Count issues and cycles.

    Raises:
        RunError: The kernel did something wrong; the arrays hold what it had written by then.
        CompileError: PTX that is not compiled.
    """
    source: Optional[bytes] = None
    if isinstance(code, Cubin):
        if interpret and code._ptx is None:
            raise errors.RunError("a cubin runs in the emulator; the interpreter takes PTX")
        source = code._ptx
        image = source if interpret and source is not None else code.data
    else:
        name, image = _module(code, None)
        if not image.startswith(b"\x7fELF"):
            source = image
            if not interpret:
                image = compile(image, _target(image), opt_level, name=name).data
    values = _arguments(image, source, kernel, arguments)
    try:
        buffers, printed, steps, fault, findings, table = _orias.run(
            image,
            interpret=interpret,
            kernel=kernel,
            grid=_dimensions("grid", grid),
            block=_dimensions("block", block),
            cluster=None if cluster is None else _dimensions("cluster", cluster),
            dynamic_shared=dynamic_shared,
            arguments=[
                (True, value.bytes) if isinstance(value, _Buffer) else (False, value) for value in values
            ],
            max_steps=max_steps,
            check=check,
            check_uninitialised=check_uninitialised,
            timing=timing,
            schedule=schedule,
            cycles=cycles,
        )
    except _orias.Refused as error:
        raise errors.RunError(str(error)) from None
    for value, data in zip(values, buffers):
        if isinstance(value, _Buffer) and data is not None:
            value.put_back(data)
    if fault is not None:
        raise errors.RunError(fault)
    return Finished(printed.decode(errors="replace"), steps, tuple(findings), table)


def _target(ptx: bytes) -> str:
    """The target a module names, if it is one that code is made for."""
    named = re.search(rb"^\s*\.target\s+(sm_90a?)\b", ptx, re.MULTILINE)
    return named.group(1).decode() if named else "sm_90a"
