"""PTX in, cubin out."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from html import escape
from typing import Iterable, Mapping, Optional, Sequence, Union

from . import _orias, errors
from ._orias import Cancel

Ptx = Union[str, bytes, "os.PathLike[str]"]

#: What ptxas calls a module that comes from no file.
IN_MEMORY = "application ptx input"

_VERDICTS = {
    "refused": errors.PtxError,
    "unsupported version": errors.UnsupportedError,
    "unsupported": errors.UnsupportedError,
    "cancelled": errors.Cancelled,
    "out of memory": errors.MemoryLimitError,
    "internal": errors.InternalError,
}


@dataclass(frozen=True)
class Message:
    """One thing that was said about a module."""

    #: `info`, `warning`, `error` or `fatal`.
    severity: str
    #: Whose problem it is: `input`, `unsupported`, `internal` or `stopped`.
    kind: str
    #: One line of text, without severity or place.
    message: str
    #: What would have been right, where that says more.
    hint: Optional[str]
    #: The name of the module.
    file: Optional[str]
    #: The line, from 1; 0 where there is none.
    line: int
    #: The column in characters, from 1; 0 where there is none.
    column: int
    #: All of it, as ptxas writes it.
    text: str

    @property
    def is_error(self) -> bool:
        """Whether it kept the module from being compiled."""
        return self.severity in ("error", "fatal")

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Kernel:
    """What a kernel uses. What a cubin does not say, spills above all, is `None` where it was not compiled here."""

    #: Its name.
    name: str
    #: Registers of a thread.
    registers: Optional[int]
    #: Named barriers.
    barriers: int
    #: Bytes of its stack frame.
    stack: Optional[int]
    #: Bytes of static shared memory, without those the system keeps for itself.
    shared: int
    #: Bytes that stores of spilled values move.
    spill_stores: Optional[int]
    #: Bytes that loads of spilled values move.
    spill_loads: Optional[int]
    #: Instructions, the padding at the end included.
    instructions: int
    #: Bytes of each parameter.
    parameters: tuple[int, ...]
    #: Seconds its pipeline took.
    seconds: Optional[float] = field(default=None, compare=False)

    @property
    def spills(self) -> Optional[int]:
        """Bytes that spilled values move, stores and loads together."""
        if self.spill_stores is None or self.spill_loads is None:
            return None
        return self.spill_stores + self.spill_loads


class Cubin:
    """A finished cubin: give `bytes(cubin)` to `cuModuleLoadData`, or `save` it.

    `Cubin(data)` takes the bytes of any cubin, NVIDIA's too. In a notebook it shows its kernels and its schedule.
    """

    __slots__ = ("_data", "_kernels", "_ptx", "_used", "arch", "messages", "peak_memory")

    #: The target it is for.
    arch: str
    #: What was said while it was compiled: remarks and warnings.
    messages: tuple[Message, ...]
    #: The most memory that the compilation took at a time, in bytes.
    peak_memory: int

    def __init__(self, data: bytes) -> None:
        self._data = bytes(data)
        self._ptx: Optional[bytes] = None
        self._used: dict[str, tuple] = {}
        self._kernels: Optional[tuple[Kernel, ...]] = None
        self.messages = ()
        self.peak_memory = 0
        try:
            self.arch, _ = _orias.kernels(self._data)
        except _orias.Refused as error:
            raise errors.CubinError(str(error)) from None

    @classmethod
    def _compiled(
        cls,
        data: bytes,
        arch: str,
        ptx: Optional[bytes],
        messages: list[tuple],
        used: list[tuple],
        peak: int,
    ) -> Cubin:
        """What `compile` makes: nothing of it is read back before somebody asks."""
        cubin = cls.__new__(cls)
        cubin._data = data
        cubin._ptx = ptx
        cubin._used = {row[0]: row for row in used}
        cubin._kernels = None
        cubin.arch = arch
        cubin.messages = tuple(Message(*message) for message in messages)
        cubin.peak_memory = peak
        return cubin

    @property
    def data(self) -> bytes:
        """The bytes."""
        return self._data

    def __bytes__(self) -> bytes:
        return self._data

    def __len__(self) -> int:
        return len(self._data)

    def __eq__(self, other: object) -> bool:
        return self._data == other._data if isinstance(other, Cubin) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._data)

    def __repr__(self) -> str:
        names = ", ".join(kernel.name for kernel in self.kernels)
        return f"<Cubin for {self.arch}, {len(self._data)} bytes: {names or 'no kernel'}>"

    def __reduce__(self) -> tuple:
        state = (self._data, self.arch, self._ptx, [], list(self._used.values()), self.peak_memory)
        return _unpickled, (state, self.messages)

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """Its kernels, in the order of the file."""
        if self._kernels is None:
            _, rows = _orias.kernels(self._data)
            self._kernels = tuple(self._kernel(*row) for row in rows)
        return self._kernels

    def _kernel(self, name, registers, barriers, stack, shared, size, parameters) -> Kernel:
        stores = loads = seconds = None
        if name in self._used:
            _, registers, barriers, stack, stores, loads, shared, seconds = self._used[name]
        return Kernel(
            name, registers, barriers, stack, shared, stores, loads, size // 16, tuple(parameters), seconds
        )

    def __getitem__(self, name: str) -> Kernel:
        """The kernel of this name."""
        for kernel in self.kernels:
            if kernel.name == name:
                return kernel
        raise KeyError(name)

    def save(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Writes the cubin to a file."""
        with open(path, "wb") as file:
            file.write(self._data)

    def disassemble(self, control: bool = False) -> str:
        """Its code as `orias.disassemble` prints it."""
        from .instruments import disassemble

        return disassemble(self, control=control)

    def timeline(self) -> "object":
        """Its schedule; see `orias.timeline`."""
        from .instruments import timeline

        return timeline(self)

    def _repr_html_(self) -> str:
        """For notebooks: the kernels, and the schedule of each to unfold."""
        from .instruments import timeline

        heads = ("kernel", "registers", "barriers", "shared", "stack", "spills", "instructions")
        rows = [
            (k.name, k.registers, k.barriers, k.shared, k.stack, k.spills, k.instructions)
            for k in self.kernels
        ]
        cell = lambda value: escape("?" if value is None else str(value))
        parts = [f"<p>cubin for {escape(self.arch)}, {len(self._data)} bytes</p><table><thead><tr>"]
        parts += [f"<th>{head}</th>" for head in heads]
        parts.append("</tr></thead><tbody>")
        for row in rows:
            parts.append("<tr>" + "".join(f"<td>{cell(value)}</td>" for value in row) + "</tr>")
        parts.append("</tbody></table>")
        try:
            parts.append(timeline(self)._repr_html_())
        except errors.CubinError as error:
            parts.append(f"<p>no schedule: {escape(str(error))}</p>")
        return "".join(parts)


def _unpickled(state: tuple, messages: tuple[Message, ...]) -> Cubin:
    cubin = Cubin._compiled(*state)
    cubin.messages = messages
    return cubin


def _module(ptx: Ptx, name: Optional[str]) -> tuple[str, bytes]:
    if isinstance(ptx, str):
        return name or IN_MEMORY, ptx.encode()
    if isinstance(ptx, (bytes, bytearray, memoryview)):
        return name or IN_MEMORY, bytes(ptx)
    if isinstance(ptx, os.PathLike):
        with open(ptx, "rb") as file:
            return name or os.fspath(ptx), file.read()
    raise TypeError(f"PTX is text, bytes or a path, not {type(ptx).__name__}")


def _options(
    arch: str,
    opt_level: int,
    line_info: bool,
    max_registers: Optional[int],
    entries: Optional[Iterable[str]],
    knobs: Optional[Mapping[str, object]],
    threads: int,
    options: Sequence[str],
) -> list[str]:
    words = [f"--gpu-name={arch}", f"--split-compile={threads}"]
    if opt_level != 3:
        words.append(f"--opt-level={opt_level}")
    if line_info:
        words.append("--generate-line-info")
    if max_registers is not None:
        words.append(f"--maxrregcount={max_registers}")
    if entries is not None:
        words.append("--entry=" + ",".join(entries))
    for knob, value in (knobs or {}).items():
        value = {True: "1", False: "0"}.get(value, value) if isinstance(value, bool) else value
        words.append(f"--knob={knob}={value}")
    if isinstance(options, str):
        raise TypeError("options is a sequence of words, not one text")
    words.extend(options)
    return words


def compile(
    ptx: Union[Ptx, Sequence[Ptx]],
    arch: str = "sm_90a",
    opt_level: int = 3,
    *,
    name: Optional[str] = None,
    line_info: bool = False,
    max_registers: Optional[int] = None,
    entries: Optional[Iterable[str]] = None,
    knobs: Optional[Mapping[str, object]] = None,
    threads: int = 0,
    memory_limit: Optional[int] = None,
    cancel: Optional[Cancel] = None,
    options: Sequence[str] = (),
) -> Cubin:
    """Compiles PTX.

    The cubin is the same to the byte as that of the command with the same options.

    Args:
        ptx: The module: text, bytes, or a path to a file. Several modules, as a list, become one cubin.
        arch: The target.
        opt_level: How much to optimise, 0 to 3.
        name: What messages call the module.
        line_info: Line tables even where the PTX names no source lines.
        max_registers: The most registers a thread may have, where the source does not ask for fewer.
        entries: The kernels to compile; all of them if nothing is said.
        knobs: What steers single decisions of single phases; `orias knobs` lists them.
        threads: How many threads compile the kernels of a module; 0 means as many as there are processors. The cubin does not depend on it.
        memory_limit: Bytes that the compilation may take. It is compared between phases, and makes the compilation use one thread.
        cancel: Its `cancel` ends the compilation from another thread.
        options: More options, as the command takes them: `["--fmad=false"]`.

    Raises:
        PtxError: The PTX or an option is wrong; `line` and `column` say where.
        UnsupportedError: The PTX is right, and Orias cannot compile it yet.
        Cancelled: `cancel` was called.
        MemoryLimitError: More memory than `memory_limit` was needed.
        InternalError: A bug of Orias.
    """
    if isinstance(ptx, (list, tuple)):
        modules = [_module(module, name) for module in ptx]
    else:
        modules = [_module(ptx, name)]
    words = _options(arch, opt_level, line_info, max_registers, entries, knobs, threads, options)
    verdict, data, messages, used, peak = _orias.compile(modules, words, memory_limit, cancel)
    if verdict != "compiled":
        error = _VERDICTS[verdict]([Message(*message) for message in messages])
        raise error
    if not data:
        raise errors.PtxError(
            [Message("fatal", "input", f"{arch} is a virtual target: there is no code for it", None, None, 0, 0,
                     f"{arch} is a virtual target: there is no code for it")]
        )
    source = modules[0][1] if len(modules) == 1 else None
    return Cubin._compiled(data, arch, source, messages, used, peak)
