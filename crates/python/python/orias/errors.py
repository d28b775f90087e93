"""What can go wrong, by whose problem it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional, Sequence

if TYPE_CHECKING:
    from .compiler import Message


class OriasError(Exception):
    """Every error of this package."""


class CompileError(OriasError):
    """A module was not compiled.

    `messages` holds all that was said about it, warnings too. `file`, `line` and `column` are those of the first error that has a place;
    lines and columns count from 1, and 0 means that there is none.
    """

    messages: Sequence[Message]
    file: Optional[str]
    line: int
    column: int

    def __init__(self, messages: Sequence[Message]) -> None:
        self.messages = tuple(messages)
        errors = [message for message in self.messages if message.is_error]
        placed = next((message for message in errors if message.line), None)
        self.file = placed.file if placed else None
        self.line = placed.line if placed else 0
        self.column = placed.column if placed else 0
        super().__init__("\n".join(str(message) for message in errors) or "compilation failed")

    def __reduce__(self) -> tuple:
        return type(self), (self.messages,)


class PtxError(CompileError, ValueError):
    """The PTX or the options are wrong: whoever wrote them can fix it."""


class UnsupportedError(CompileError, NotImplementedError):
    """The PTX is right, and Orias cannot compile it yet; the text names what is missing."""


class InternalError(CompileError, RuntimeError):
    """A bug of Orias, whatever the input was."""


class Cancelled(CompileError):
    """Somebody called `Cancel.cancel`."""


class MemoryLimitError(CompileError, MemoryError):
    """The compilation took more memory than it may."""


class CubinError(OriasError, ValueError):
    """Bytes that are no cubin, or one that an instrument cannot take."""


class AssembleError(OriasError, ValueError):
    """A SASS listing is wrong. `errors` holds message, line and column of each error; `line` and `column` are the first one's."""

    def __init__(self, errors: Sequence[tuple[str, int, int]]) -> None:
        self.errors = tuple(errors)
        self.line, self.column = (self.errors[0][1], self.errors[0][2]) if self.errors else (0, 0)
        super().__init__("\n".join(f"{line}:{column}: {message}" for message, line, column in self.errors))

    def __reduce__(self) -> tuple:
        return type(self), (self.errors,)


class RunError(OriasError, RuntimeError):
    """A kernel did something wrong while it ran, or could not be run."""
