"""Requests from the coordinator to a machine, and the answers, as values; no input or output.

Both are pickled for transport. This is safe because both sides are installations of this package,
and no other program has the key of their connection. A request names a function that both sides can
import. The machine calls it with its state and the arguments of the request. A lane is a thread of
the machine: requests in the same lane are answered in order, requests in different lanes
concurrently.
"""

import traceback
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, TypeVar

from testbed import errors
from testbed.errors import TestbedError

T = TypeVar("T")
# The lane of the machine's main thread. Requests in it may fork, and the children live as long as
# the machine.
MAIN = "main"


# A function that can be imported by its name and is called as ``function(machine, *args)``, its
# arguments, and the lane.
Request = tuple[Callable[..., object], tuple[object, ...], str]
# A value and None; or None and the class name and the text of an error.
Answer = tuple[object, tuple[str, str] | None]


def unwrap(answer: Answer, machine: str) -> object:
    """Return the value of an answer, or raise its error.

    Args:
        answer: The answer.
        machine: Name of the machine, which is put before the text of the error.

    Raises:
        TestbedError: The function raised an error of this class or a subclass of it.
        RuntimeError: The function raised another error.
    """
    value, error = answer
    if error is None:
        return value
    class_name, text = error
    error_class = getattr(errors, class_name, None)
    if isinstance(error_class, type) and issubclass(error_class, TestbedError):
        raise error_class(f"{machine}: {text}")
    raise RuntimeError(f"{machine}: {class_name}: {text}")


@dataclass
class MachineState:
    """The state of one machine from the first request to the last.

    Attributes:
        name: Name of the machine.
        objects: Objects that requests leave for later ones, by keys that they choose.
        stack: Closes resources when the machine ends.
    """

    name: str
    objects: dict[object, Any] = field(default_factory=dict)
    stack: ExitStack = field(default_factory=ExitStack)

    def held(self, name: object, kind: type[T]) -> T:
        """Return the object with this key, which has the given class."""
        value = self.objects[name]
        assert isinstance(value, kind)
        return value

    def perform(self, request: Request) -> Answer:
        """Carry out a request. An exception becomes the answer."""
        function, args, _ = request
        try:
            return function(self, *args), None
        except TestbedError as error:
            return None, (type(error).__name__, str(error))
        except Exception as error:  # noqa: BLE001 - the error is sent to the coordinator
            frame = traceback.extract_tb(error.__traceback__)[-1]
            text = f"{error} ({frame.filename.rpartition('/')[2]}:{frame.lineno})"
            return None, (type(error).__name__, text)
