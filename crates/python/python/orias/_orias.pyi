"""The extension module. Use the package instead: names and defaults are there."""

from typing import Optional, Sequence

__version__: str
PTXAS_VERSION: str

class Refused(ValueError): ...

class Cancel:
    """Ends compilations from another thread: give it to `orias.compile`, and call `cancel`."""

    def __init__(self) -> None: ...
    def cancel(self) -> None:
        """Ends all compilations that were given this object, now and from now on."""
    @property
    def cancelled(self) -> bool:
        """Whether `cancel` was called."""

_Message = tuple[str, str, str, Optional[str], Optional[str], int, int, str]
_Used = tuple[str, int, int, int, int, int, int, float]
_Kernel = tuple[str, Optional[int], int, Optional[int], int, int, list[int]]
_Finding = tuple[str, str, int, str, Optional[tuple[int, str]], Optional[str], str, str, str]

def compile(
    modules: Sequence[tuple[str, bytes]],
    options: Sequence[str],
    memory_limit: Optional[int] = None,
    cancel: Optional[Cancel] = None,
) -> tuple[str, bytes, list[_Message], list[_Used], int]: ...
def disassemble(cubin: bytes, control: bool) -> str: ...
def disassemble_json(cubin: bytes) -> str: ...
def assemble(listing: str, arch: str) -> tuple[bytes, list[tuple[str, int, int]]]: ...
def kernels(cubin: bytes) -> tuple[str, list[_Kernel]]: ...
def verify(cubin: bytes) -> tuple[int, int, list[_Finding]]: ...
def reschedule(
    cubin: bytes, knobs: Sequence[str], shuffle: Optional[int] = None, control_only: bool = False
) -> tuple[bytes, str, list[tuple[str, float, float]]]: ...
def timeline(cubin: bytes, form: str) -> str: ...
def parameters(code: bytes) -> list[tuple[str, list[tuple[str, int]]]]: ...
def run(
    code: bytes,
    *,
    interpret: bool,
    kernel: Optional[str],
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    cluster: Optional[tuple[int, int, int]],
    dynamic_shared: int,
    arguments: Sequence[tuple[bool, bytes]],
    max_steps: Optional[int],
    check: bool,
    check_uninitialised: bool,
    timing: str,
    schedule: str,
    cycles: bool,
) -> tuple[list[Optional[bytes]], bytes, int, Optional[str], list[str], Optional[str]]: ...
