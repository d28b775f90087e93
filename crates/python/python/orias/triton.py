"""Triton with Orias instead of ptxas.

    >>> orias.triton.enable()                 # from here on
    >>> with orias.triton.enable() as switch: # for a while
    ...     kernel[grid](x, y)
    >>> print(switch.count)

Kernels that Triton holds in memory or in its cache on disk are not compiled again: the cache knows the assembler, the memory does not.
"""

from __future__ import annotations

import sys
from typing import Callable, Mapping, Optional

from .clients import Fallback, Stack, Switch, orias_ptxas
from .errors import OriasError

_switches = Stack()
_KNOBS = ("ptxas", "ptxas_blackwell")


def _environment(_folder: str) -> Mapping[str, Optional[str]]:
    path = orias_ptxas()
    return {"TRITON_PTXAS_PATH": path, "TRITON_PTXAS_BLACKWELL_PATH": path}


def _own_ptxas() -> Optional[str]:
    """What this Triton takes for sm_90. It has two: from 3.9 on the one that is named after Blackwell."""
    import triton  # type: ignore[import-not-found]
    from triton.backends.nvidia import compiler  # type: ignore[import-not-found]

    try:
        tool = compiler.get_ptxas(90)
    except (AttributeError, TypeError):
        tool = triton.knobs.nvidia.ptxas
    return tool.path


def _forget() -> None:
    """Triton asks for the version of its assembler once; who changes the assembler lets it ask again."""
    compiler = sys.modules.get("triton.backends.nvidia.compiler")
    for name in ("get_ptxas", "get_ptxas_version", "get_features", "get_ptx_version_from_options"):
        clear = getattr(getattr(compiler, name, None), "cache_clear", None)
        if clear is not None:
            clear()


def _refresh() -> Callable[[], None]:
    """Lets a Triton that is loaded follow; says how it goes back. One that is not loaded yet reads the environment when it is."""
    triton = sys.modules.get("triton")
    if triton is None:
        return _forget
    knobs = getattr(triton, "knobs", None)
    if knobs is None:
        raise OriasError("this Triton has no knobs (3.4 and later do): set TRITON_PTXAS_PATH before it is loaded")
    nvidia = knobs.nvidia
    # What was set in Python goes before the environment.
    set_in_python = {name: nvidia.__dict__.pop(name) for name in _KNOBS if name in nvidia.__dict__}

    def undo() -> None:
        nvidia.__dict__.update(set_in_python)
        _forget()

    _forget()
    found, wanted = nvidia.ptxas.path, orias_ptxas()
    if found != wanted:
        undo()
        raise OriasError(f"Triton takes {found}: {wanted} does not run here")
    return undo


def enable(fallback: Fallback = False) -> Switch:
    """Lets Triton compile with Orias, in this process and in those it starts.

    Args:
        fallback: What is not compiled by Orias is an error that names it. With `True`, Triton's own ptxas is asked instead; a path names
            another one. Triton writes PTX for the release of the fallback then, if that is older than the one Orias names.

    Returns:
        The switch: `count` says what was compiled by whom, `disable` switches back, and so does the end of a `with` block.
    """
    return _switches.push(Switch("Triton", _environment, _own_ptxas, _refresh, fallback))


def disable() -> None:
    """Undoes the latest `enable`."""
    _switches.pop()


def enabled() -> bool:
    """Whether Triton compiles with Orias."""
    return _switches.enabled
