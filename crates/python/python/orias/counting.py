"""Who compiled what: the command writes a line for each compilation to the file that `ORIAS_LOG` names, in whatever process it runs."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import Optional, Union


@dataclass
class Count:
    """Compilations by who did them."""

    #: By Orias.
    orias: int = 0
    #: By the ptxas that was asked where Orias could not.
    ptxas: int = 0
    #: Failures of whoever had the last word.
    failed: int = 0
    #: Why Orias refused, and how often.
    refusals: dict[str, int] = field(default_factory=dict)
    #: Seconds that compilations took.
    seconds: float = 0.0

    @property
    def total(self) -> int:
        """All compilations."""
        return self.orias + self.ptxas + self.failed

    def __str__(self) -> str:
        lines = [f"{self.orias} compiled by Orias, {self.ptxas} by ptxas, {self.failed} by nobody; {self.seconds:.3f} s"]
        lines += [f"  {times} x {why}" for why, times in sorted(self.refusals.items())]
        return "\n".join(lines)


def read(path: Union[str, "os.PathLike[str]"], start: int = 0) -> Count:
    """What a log says from a place on."""
    found = Count()
    try:
        with open(path, "rb") as file:
            file.seek(start)
            lines = file.read().splitlines()
    except FileNotFoundError:
        return found
    for line in lines:
        entry = json.loads(line)
        found.seconds += entry["seconds"]
        if entry["code"] != 0:
            found.failed += 1
        elif entry["by"] == "orias":
            found.orias += 1
        else:
            found.ptxas += 1
        refusal: Optional[str] = entry["refusal"]
        if refusal is not None:
            found.refusals[refusal] = found.refusals.get(refusal, 0) + 1
    return found


def count() -> Count:
    """What was compiled by whom since a client was switched to Orias, in this process and all below it.

    It reads the file that `ORIAS_LOG` names; `orias.triton.enable()` and its like set it.
    """
    path = os.environ.get("ORIAS_LOG")
    return read(path) if path else Count()
