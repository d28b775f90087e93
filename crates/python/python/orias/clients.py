"""What switching a client to Orias means: variables of the environment, which processes below inherit, and their way back."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import threading
import weakref
from typing import Callable, Mapping, Optional, Union

from . import counting
from .command import ptxas_path
from .errors import OriasError

Fallback = Union[bool, str, "os.PathLike[str]"]

_lock = threading.RLock()


def release_of(ptxas: str) -> str:
    """The release of a ptxas, as `12.8.93`."""
    try:
        environment = {name: value for name, value in os.environ.items() if name != "ORIAS_RELEASE"}
        said = subprocess.run([ptxas, "--version"], capture_output=True, text=True, check=True, env=environment).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise OriasError(f"{ptxas} does not run: {error}") from None
    found = re.search(r"release \d+\.\d+, V(\d+\.\d+\.\d+)", said)
    if found is None:
        raise OriasError(f"{ptxas} --version names no release")
    return found.group(1)


def _older(one: str, other: str) -> str:
    """The older of two releases."""
    return min(one, other, key=lambda release: tuple(map(int, release.split("."))))


class Switch:
    """A client that compiles with Orias until `disable`, or until the end of a `with` block.

    Switches nest: what the environment said before comes back, whoever set it.
    """

    def __init__(
        self,
        client: str,
        environment: Callable[[str], Mapping[str, Optional[str]]],
        find_ptxas: Callable[[], Optional[str]],
        refresh: Callable[[], Callable[[], None]],
        fallback: Fallback,
    ) -> None:
        self.client = client
        self._folder = tempfile.mkdtemp(prefix="orias-")
        self._remove = weakref.finalize(self, shutil.rmtree, self._folder, True)
        log = os.path.join(self._folder, "log")
        variables: dict[str, Optional[str]] = dict(environment(self._folder))
        variables["ORIAS_LOG"] = self._log = os.environ.get("ORIAS_LOG") or log
        self._start = os.path.getsize(self._log) if os.path.exists(self._log) else 0
        variables["ORIAS_FALLBACK"] = variables["ORIAS_RELEASE"] = None
        if fallback:
            ptxas = find_ptxas() if fallback is True else os.fspath(fallback)
            if ptxas is None:
                raise OriasError(f"{client} has no ptxas to fall back on: name one")
            # Clients write PTX for the release that is named: for one that both understand.
            release = _older(release_of(ptxas), release_of(orias_ptxas()))
            variables["ORIAS_FALLBACK"], variables["ORIAS_RELEASE"] = ptxas, release
        with _lock:
            self._before = {name: os.environ.get(name) for name in variables}
            self._set(variables)
            try:
                self._undo: Optional[Callable[[], None]] = refresh()
            except BaseException:
                self._set(self._before)
                raise

    @staticmethod
    def _set(variables: Mapping[str, Optional[str]]) -> None:
        for name, value in variables.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

    @property
    def count(self) -> counting.Count:
        """What was compiled by whom since the switch, in this process and all below it."""
        return counting.read(self._log, self._start)

    def disable(self) -> None:
        """Switches the client back; a second call does nothing."""
        with _lock:
            if self._undo is None:
                return
            undo, self._undo = self._undo, None
            self._set(self._before)
            undo()

    @property
    def enabled(self) -> bool:
        """Whether the client compiles with Orias by this switch."""
        return self._undo is not None

    def __enter__(self) -> Switch:
        return self

    def __exit__(self, *_: object) -> None:
        self.disable()

    def __repr__(self) -> str:
        state = "on" if self.enabled else "off"
        return f"<Orias for {self.client}: {state}; {str(self.count).splitlines()[0]}>"


class Stack:
    """The switches of one client, the latest on top: what `enable` and `disable` of its module work on."""

    def __init__(self) -> None:
        self._switches: list[Switch] = []

    def push(self, switch: Switch) -> Switch:
        self._switches.append(switch)
        return switch

    def pop(self) -> None:
        self._switches = [switch for switch in self._switches if switch.enabled]
        if self._switches:
            self._switches.pop().disable()

    @property
    def enabled(self) -> bool:
        return any(switch.enabled for switch in self._switches)


def orias_ptxas() -> str:
    """The path of Orias as a `ptxas`."""
    return ptxas_path()
