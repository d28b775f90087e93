"""What looks into finished cubins, ours and NVIDIA's: disassembler, judge, scheduler, timeline."""

from __future__ import annotations

import json
from dataclasses import dataclass
from html import escape
from typing import Any, Callable, Mapping, Optional, TypeVar, Union

from . import _orias, errors
from .compiler import Cubin

Code = Union[Cubin, bytes]
T = TypeVar("T")


def _bytes(cubin: Code) -> bytes:
    if isinstance(cubin, Cubin):
        return cubin.data
    if isinstance(cubin, (bytes, bytearray, memoryview)):
        return bytes(cubin)
    raise TypeError(f"a cubin is a Cubin or bytes, not {type(cubin).__name__}")


def _asked(function: Callable[..., T], *arguments: Any, **keywords: Any) -> T:
    try:
        return function(*arguments, **keywords)
    except _orias.Refused as error:
        raise errors.CubinError(str(error)) from None


def disassemble(cubin: Code, *, control: bool = False) -> str:
    """The code of a cubin as `nvdisasm -c` prints it; with `control`, each instruction's control field before it, as `assemble` reads it."""
    return _asked(_orias.disassemble, _bytes(cubin), control)


def instructions(cubin: Code) -> dict:
    """The code as data: the functions, and each instruction with address, word, text, control field, and the registers it reads and writes."""
    return json.loads(_asked(_orias.disassemble_json, _bytes(cubin)))


def assemble(listing: str, arch: str = "sm_90a") -> Cubin:
    """A SASS listing as a cubin; `arch` counts where the listing names no target.

    Raises:
        AssembleError: The listing is wrong; `line` and `column` say where.
    """
    data, wrong = _asked(_orias.assemble, listing, arch)
    if wrong:
        raise errors.AssembleError(wrong)
    return Cubin(data)


@dataclass(frozen=True)
class Finding:
    """Something that the judge found."""

    #: Which check found it.
    check: str
    #: The function.
    function: str
    #: Where the later instruction is, in bytes from the function's start.
    offset: int
    #: The later instruction.
    instruction: str
    #: Offset and text of the earlier instruction.
    earlier: Optional[tuple[int, str]]
    #: The register they meet in.
    register: Optional[str]
    #: What is needed.
    needed: str
    #: What is there.
    found: str
    #: All of it in words.
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Verdict:
    """What `verify` says of a cubin. It is true where nothing was found."""

    #: How many functions were judged.
    functions: int
    #: How many instructions.
    instructions: int
    #: What was found.
    findings: tuple[Finding, ...]

    def __bool__(self) -> bool:
        return not self.findings

    def __str__(self) -> str:
        lines = [str(finding) for finding in self.findings]
        lines.append(f"{self.functions} functions, {self.instructions} instructions: {len(lines)} findings")
        return "\n".join(lines)


def verify(cubin: Code) -> Verdict:
    """Proves from a cubin's bytes that no instruction reads a value too early or overwrites one too early, or says which does."""
    functions, instructions, findings = _asked(_orias.verify, _bytes(cubin))
    return Verdict(functions, instructions, tuple(Finding(*finding) for finding in findings))


@dataclass(frozen=True)
class Rescheduled:
    """A cubin in a new order, and what changed."""

    #: The cubin.
    cubin: Cubin
    #: What changed, block by block.
    report: str
    #: By function: estimated cycles before and after, loops counted more often. Empty if only control words were computed.
    cycles: dict[str, tuple[float, float]]


def reschedule(
    cubin: Code,
    *,
    knobs: Optional[Mapping[str, object]] = None,
    shuffle: Optional[int] = None,
    control_only: bool = False,
) -> Rescheduled:
    """Computes the order of instructions within blocks, and all control words, anew.

    Args:
        cubin: The cubin, of any compiler.
        knobs: Knobs of the scheduler.
        shuffle: Start from a random legal order that this number chooses.
        control_only: Keep the order, and compute the control words.
    """
    if control_only and shuffle is not None:
        raise ValueError("control_only keeps the order: there is nothing to shuffle")
    words = [f"{knob}={int(value) if isinstance(value, bool) else value}" for knob, value in (knobs or {}).items()]
    data, report, functions = _asked(_orias.reschedule, _bytes(cubin), words, shuffle, control_only)
    cycles = {name: (before, after) for name, before, after in functions}
    return Rescheduled(Cubin(data), report, cycles)


class Timeline:
    """When every instruction of a cubin issues, and what it waits for. `functions` is the data; `text` and `html` show it."""

    def __init__(self, cubin: Code) -> None:
        self._data = _bytes(cubin)
        #: By function its blocks, and by block its lines: text, issue, idle, cause, pipe, latency, live registers, critical.
        self.functions: list[dict] = json.loads(_asked(_orias.timeline, self._data, "json"))

    @property
    def text(self) -> str:
        """As lines of text."""
        return _asked(_orias.timeline, self._data, "text")

    @property
    def html(self) -> str:
        """As one page for a browser."""
        return _asked(_orias.timeline, self._data, "html")

    @property
    def cycles(self) -> int:
        """Cycles of all blocks together, each counted once."""
        return sum(block["cycles"] for function in self.functions for block in function["blocks"])

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<Timeline of {len(self.functions)} functions, {self.cycles} cycles>"

    def _repr_html_(self) -> str:
        """For notebooks: the page, in a frame of its own so that styles do not meet."""
        return (
            '<details><summary>schedule</summary><iframe title="schedule" sandbox="" '
            f'style="width:100%;height:32em;border:1px solid #999" srcdoc="{escape(self.html)}"></iframe></details>'
        )


def timeline(cubin: Code) -> Timeline:
    """When every instruction of a cubin issues by the scheduler's model, why not earlier, and the longest chain of each block."""
    return Timeline(cubin)
