"""`torch.compile` with Orias: inductor's kernels are Triton's, so this is Triton's switch, and inductor's own cache.

    >>> with orias.torch.enable() as switch:
    ...     model = torch.compile(model)
    ...     model(x)
    >>> print(switch.count)

Workers that inductor has started keep the environment they were started with: switch before the first compilation.
"""

from __future__ import annotations

import os
from typing import Mapping, Optional

from . import triton
from .clients import Fallback, Stack, Switch

_switches = Stack()


def _environment(folder: str) -> Mapping[str, Optional[str]]:
    variables = dict(triton._environment(folder))
    # Inductor's cache does not know the assembler: what ptxas made must not be taken for Orias's.
    variables["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(folder, "inductor")
    variables["TRITON_CACHE_DIR"] = os.path.join(folder, "triton")
    return variables


def enable(fallback: Fallback = False) -> Switch:
    """Lets `torch.compile` compile with Orias, in this process and in workers that are started from now on.

    Compiled graphs are kept apart from those made with ptxas, in folders that live as long as the switch.

    Args:
        fallback: As in `orias.triton.enable`.
    """
    return _switches.push(Switch("torch", _environment, triton._own_ptxas, triton._refresh, fallback))


def disable() -> None:
    """Undoes the latest `enable`."""
    _switches.pop()


def enabled() -> bool:
    """Whether torch compiles with Orias by a switch of this module."""
    return _switches.enabled
