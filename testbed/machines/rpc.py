"""What a coordinator asks of a machine and what it answers, as values and bytes; no input or output.

Both are pickled on their way: both sides are one installation of this package, and nobody else has the key to their
link. A request names a function that both sides can import; it is called with the machine's state and the arguments.
Lanes are the threads of a machine: requests of one lane are answered in order, those of two at the same time.
"""

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


Request = tuple[Callable[..., object], tuple[object, ...], str]
"""A function that is importable by name, called as ``function(machine, *args)``; its arguments; the lane."""
Answer = tuple[object, tuple[str, str] | None]
"""A value, or None and the kind and words of an error."""


def unwrap(answer: Answer, machine: str) -> object:
    """The value; the error, of its own kind, with the machine's name before its words."""
    value, error = answer
    if error is None:
        return value
    kind, words = error
    found = getattr(errors, kind, None)
    if isinstance(found, type) and issubclass(found, TestbedError):
        raise found(f"{machine}: {words}")
    raise RuntimeError(f"{machine}: {kind}: {words}")


@dataclass
class MachineState:
    """What one machine holds from the first request to the last. ``kept``: by names that the functions choose."""

    name: str
    objects: dict[object, Any] = field(default_factory=dict)
    stack: ExitStack = field(default_factory=ExitStack)

    def held(self, name: object, kind: type[T]) -> T:
        """The object of that name, which is of that kind."""
        found = self.objects[name]
        assert isinstance(found, kind)
        return found

    def perform(self, request: Request) -> Answer:
        """Carry a request out; whatever goes wrong is the answer."""
        function, args, _ = request
        try:
            return function(self, *args), None
        except TestbedError as error:
            return None, (type(error).__name__, str(error))
        except Exception as error:  # noqa: BLE001 - whoever asked has to be told
            where = traceback.extract_tb(error.__traceback__)[-1]
            words = f"{error} ({where.filename.rpartition('/')[2]}:{where.lineno})"
            return None, (type(error).__name__, words)
