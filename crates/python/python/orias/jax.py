"""JAX with Orias: XLA runs the `ptxas` of the folder it takes for a CUDA toolkit.

    >>> import orias.jax
    >>> orias.jax.enable()   # before the first computation
    >>> import jax

XLA is told of a toolkit by its flags, and by JAX with each compilation: both name that folder. XLA reads its flags once, when JAX makes
its backend, so the switch must come before the first computation, and nothing switches a process back whose backend exists; processes that
are started later follow.
"""

from __future__ import annotations

import glob
import importlib.util
import mmap
import os
import re
import shutil
import sys
import warnings
from typing import Callable, Mapping, Optional, Sequence

from .clients import Fallback, Stack, Switch, orias_ptxas

_switches = Stack()

#: XLA compiles in its own process where it can; it must not, for Orias to be asked. What the flags are called has changed, and one that
#: XLA does not know ends the process.
_OFF = ("xla_gpu_enable_libnvptxcompiler", "xla_gpu_enable_libnvjitlink")


def _libraries() -> list[str]:
    """The files that XLA is in."""
    found = []
    for package in ("jaxlib", "jax_plugins"):
        spec = importlib.util.find_spec(package)
        for folder in (spec.submodule_search_locations or []) if spec else []:
            found += glob.glob(os.path.join(folder, "**", "*.so"), recursive=True)
    return found


def known_flags(libraries: Sequence[str]) -> list[str]:
    """Those of the flags that are in all of the files that know flags at all; all of them where there is no file."""
    known = list(_OFF)
    for library in libraries:
        with open(library, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
            if text.find(b"xla_gpu_cuda_data_dir\0") >= 0:
                known = [flag for flag in known if text.find(flag.encode() + b"\0") >= 0]
    return known


def _toolkits() -> list[str]:
    """Folders that XLA would look for a toolkit in: what `XLA_FLAGS` and the environment say, NVIDIA's packages, the usual place."""
    found = re.findall(r"--xla_gpu_cuda_data_dir=(\S+)", os.environ.get("XLA_FLAGS", ""))
    found += [os.environ[name] for name in ("CUDA_ROOT", "CUDA_HOME", "CUDA_PATH", "CUDA_DIR") if os.environ.get(name)]
    package = importlib.util.find_spec("nvidia")
    for folder in (package.submodule_search_locations or []) if package else []:
        found += sorted(glob.glob(os.path.join(folder, "cu1*"))) + [os.path.join(folder, "cuda_nvcc")]
    found.append("/usr/local/cuda")
    return [folder for folder in found if os.path.isdir(folder)]


def _own_ptxas() -> Optional[str]:
    places = [os.path.join(folder, "bin", "ptxas") for folder in _toolkits()]
    return next((place for place in places if os.path.isfile(place)), None) or shutil.which("ptxas")


def shadow(folder: str) -> str:
    """A toolkit below `folder` whose `ptxas` is Orias and whose other parts are those of the toolkit XLA would have taken."""
    shadow = os.path.join(folder, "cuda")
    os.makedirs(os.path.join(shadow, "bin"), exist_ok=True)
    for toolkit in reversed(_toolkits()):
        for place in (".", "bin"):
            source = os.path.join(toolkit, place)
            for name in sorted(os.listdir(source)) if os.path.isdir(source) else []:
                target = os.path.join(shadow, place, name)
                if name not in ("bin", "ptxas"):
                    if os.path.lexists(target):
                        os.remove(target)
                    os.symlink(os.path.join(os.path.realpath(source), name), target)
    link = os.path.join(shadow, "bin", "ptxas")
    os.symlink(orias_ptxas(), link)
    return shadow


def flags(before: str, folder: str, known: Sequence[str] = _OFF) -> str:
    """`XLA_FLAGS` with Orias's toolkit, and with what would go past it switched off."""
    ours = {"xla_gpu_cuda_data_dir": folder, **{flag: "false" for flag in known}}
    kept = [flag for flag in before.split() if flag.lstrip("-").partition("=")[0] not in ours]
    return " ".join([*kept, *(f"--{flag}={value}" for flag, value in ours.items())])


def _environment(folder: str) -> Mapping[str, Optional[str]]:
    # The fallback is looked for in what the flags said before.
    toolkit = shadow(folder)
    before = os.environ.get("XLA_FLAGS", "")
    # What JAX keeps on disk was compiled by somebody else.
    known = known_flags(_libraries())
    return {
        "XLA_FLAGS": flags(before, toolkit, known),
        # With each compilation JAX tells XLA a toolkit of its own, which goes before the flags: this one, or NVIDIA's package.
        "CUDA_ROOT": toolkit,
        "JAX_COMPILATION_CACHE_DIR": os.path.join(folder, "cache"),
    }


def _refresh() -> Callable[[], None]:
    """Lets a JAX that is loaded, but has not computed anything, follow; says how it goes back."""
    bridge = sys.modules.get("jax._src.xla_bridge")
    if getattr(bridge, "_backends", None):
        warnings.warn("JAX has made its backend already: only processes that are started from now on use Orias", stacklevel=4)
    library = sys.modules.get("jax._src.lib")
    if not hasattr(library, "cuda_path"):
        return lambda: None
    # It looked for its toolkit when it was loaded.
    before, library.cuda_path = library.cuda_path, os.environ["CUDA_ROOT"]

    def undo() -> None:
        library.cuda_path = before

    return undo


def enable(fallback: Fallback = False) -> Switch:
    """Lets JAX compile with Orias: a toolkit with Orias's `ptxas` is named in `XLA_FLAGS`, and compiling in XLA's own process is off.

    Args:
        fallback: What is not compiled by Orias is an error. With `True`, the toolkit's ptxas is asked instead; a path names another one.
    """
    return _switches.push(Switch("JAX", _environment, _own_ptxas, _refresh, fallback))


def disable() -> None:
    """Undoes the latest `enable`, for processes that are started from now on."""
    _switches.pop()


def enabled() -> bool:
    """Whether JAX was switched to Orias."""
    return _switches.enabled
