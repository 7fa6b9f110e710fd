"""Functions that build the checks of a suite, each with the reason why it fails."""

from collections.abc import Callable

from testbed.model.verdict import Check
from topologies.network import Link, Network, Node


def finding(name: str, reason: Callable[[], str | None]) -> Check:
    """Return a check that passes if no problem is found.

    Args:
        name: What must be true.
        reason: Returns None, or a text that says what is wrong. If it raises an error, the check
            fails too.
    """
    try:
        problem = reason()
    except Exception as error:  # noqa: BLE001 - code of a plug-in may raise anything
        problem = f"{type(error).__name__}: {error}"
    return Check(name=name, passed=problem is None, detail=" ".join((problem or "").split()))


def must_raise(kinds: tuple[type[Exception], ...], action: Callable[[], object]) -> str | None:
    """Return None if an action raises one of these errors, else a message about what it did."""
    names = " or ".join(kind.__name__ for kind in kinds)
    try:
        action()
    except kinds:
        return None
    except Exception as error:  # noqa: BLE001 - code of a plug-in may raise anything
        return f"it raises {type(error).__name__} ({error}) instead of {names}"
    return f"it raises nothing; it must raise {names}"


def apart() -> Network:
    """Return a network in which switches a and b are connected, and c is isolated."""
    return Network(
        name="apart",
        nodes=tuple(Node(id=node, kind="switch") for node in "abc"),
        links=(Link(source="a", target="b"), Link(source="b", target="a")),
    )
