"""The command `orias`, which is a `ptxas`, too: where it is, and how to start it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import NoReturn

from .errors import OriasError

_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cuda")


def ptxas_path() -> str:
    """The path of Orias as a `ptxas`, for clients that run one.

    It is part of the wheel. Where the package was built without it, an `orias` on the path is taken.

    Raises:
        OriasError: There is none.
    """
    path = os.path.join(_FOLDER, "bin", "ptxas.exe" if os.name == "nt" else "ptxas")
    if os.path.isfile(path):
        return path
    # The script of this package would find nothing else than this function does.
    found = os.environ.get("ORIAS_COMMAND") or _other_command()
    if found is None:
        raise OriasError("this build of the package has no command: `cargo xtask dist wheel` makes one that has")
    return found


def _other_command() -> str | None:
    own = os.path.dirname(os.path.realpath(sys.argv[0])) if sys.argv and sys.argv[0] else ""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    scripts = os.path.dirname(os.path.realpath(sys.executable))
    path = os.pathsep.join(folder for folder in folders if os.path.realpath(folder) not in (own, scripts))
    return shutil.which("orias", path=path)


def main() -> NoReturn:
    """The command: it takes the place of this process, under the name `orias`."""
    path, arguments = ptxas_path(), ["orias", *sys.argv[1:]]
    if os.name == "posix":
        os.execv(path, arguments)
    sys.exit(subprocess.run(arguments, executable=path).returncode)
