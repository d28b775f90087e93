"""Orias, an open ptxas: PTX in, a cubin that NVIDIA's driver loads out.

    >>> import orias
    >>> cubin = orias.compile(ptx, arch="sm_90a")
    >>> cubin.kernels[0].registers
    12

`compile` makes cubins, `run` runs kernels on the CPU, `disassemble`, `verify`, `reschedule` and `timeline` look into them.
`orias.triton`, `orias.torch` and `orias.jax` let those packages compile with Orias. All of it may be called from any number of threads:
the interpreter's lock is released while something is computed.
"""

from . import jax, torch, triton
from ._orias import PTXAS_VERSION, Cancel, __version__
from .command import ptxas_path
from .compiler import Cubin, Kernel, Message, compile
from .counting import Count, count
from .errors import (
    AssembleError,
    Cancelled,
    CompileError,
    CubinError,
    InternalError,
    MemoryLimitError,
    OriasError,
    PtxError,
    RunError,
    UnsupportedError,
)
from .instruments import (
    Finding,
    Rescheduled,
    Timeline,
    Verdict,
    assemble,
    disassemble,
    reschedule,
    timeline,
    verify,
)
from .running import Finished, run

__all__ = [
    "PTXAS_VERSION",
    "AssembleError",
    "Cancel",
    "Cancelled",
    "CompileError",
    "Count",
    "Cubin",
    "CubinError",
    "Finding",
    "Finished",
    "InternalError",
    "Kernel",
    "MemoryLimitError",
    "Message",
    "OriasError",
    "PtxError",
    "Rescheduled",
    "RunError",
    "Timeline",
    "UnsupportedError",
    "Verdict",
    "__version__",
    "assemble",
    "compile",
    "count",
    "disassemble",
    "jax",
    "ptxas_path",
    "reschedule",
    "run",
    "timeline",
    "torch",
    "triton",
    "verify",
]
