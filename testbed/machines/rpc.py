"""What a coordinator asks of a machine and what it answers, as values and bytes; no input or output.

A request names a function that both sides can import; it is called with the machine's state and the arguments. Lanes
are the threads of a machine: requests of one lane are answered in order, those of two at the same time.
"""

import pickle
import traceback
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, TypeVar

from testbed import errors
from testbed.errors import TestbedError

T = TypeVar("T")
MAIN = "main"
"""The lane of the machine's first thread: what is begun there may fork, and lives as long as the machine."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """``function``: importable by name, called as ``function(machine, *args)``."""

    function: Callable[..., object]
    args: tuple[object, ...] = ()
    lane: str = MAIN


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A value, or the kind and words of an error."""

    value: object = None
    error: tuple[str, str] | None = None

    def unwrap(self, machine: str) -> object:
        """The value; the error, of its own kind, with the machine's name before its words."""
        if self.error is None:
            return self.value
        kind, words = self.error
        found = getattr(errors, kind, None)
        if isinstance(found, type) and issubclass(found, TestbedError):
            raise found(f"{machine}: {words}")
        raise RuntimeError(f"{machine}: {kind}: {words}")


@dataclass
class MachineState:
    """What one machine holds from the first request to the last. ``kept``: by names that the functions choose."""

    name: str
    objects: dict[Any, Any] = field(default_factory=dict)
    stack: ExitStack = field(default_factory=ExitStack)

    def perform(self, request: Request) -> Answer:
        """Carry a request out; whatever goes wrong is the answer."""
        try:
            return Answer(value=request.function(self, *request.args))
        except TestbedError as error:
            return Answer(error=(type(error).__name__, str(error)))
        except Exception as error:  # noqa: BLE001 - whoever asked has to be told
            where = traceback.extract_tb(error.__traceback__)[-1]
            words = f"{error} ({where.filename.rpartition('/')[2]}:{where.lineno})"
            return Answer(error=(type(error).__name__, words))


def serialise(message: Request | Answer) -> bytes:
    """Both sides are one installation of this package; nobody else has the key to their link."""
    return pickle.dumps(message)


def deserialise(data: bytes, kind: type[T]) -> T:
    """The request or the answer."""
    found = pickle.loads(data)
    assert isinstance(found, kind)
    return found
