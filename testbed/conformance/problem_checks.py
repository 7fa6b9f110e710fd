"""One finding of a suite: what must hold, and why it does not."""

from collections.abc import Callable

from testbed.model.verdict import Check
from topologies.network import Link, Network, Node


def finding(name: str, reason: Callable[[], str | None]) -> Check:
    """Holds where ``reason`` returns None; else its words say what is wrong. Whatever it raises is wrong as well."""
    try:
        wrong = reason()
    except Exception as error:  # noqa: BLE001 - another's code may raise anything
        wrong = f"{type(error).__name__}: {error}"
    return Check(name=name, passed=wrong is None, detail=" ".join((wrong or "").split()))


def must_raise(kinds: tuple[type[Exception], ...], action: Callable[[], object]) -> str | None:
    """Why not, where the action does not raise one of these."""
    names = " or ".join(kind.__name__ for kind in kinds)
    try:
        action()
    except kinds:
        return None
    except Exception as error:  # noqa: BLE001 - another's code may raise anything
        return f"it raises {type(error).__name__} ({error}) instead of {names}"
    return f"it raises nothing; it must raise {names}"


def apart() -> Network:
    """Switches a and b are joined, and nothing leads to c."""
    return Network(
        name="apart",
        nodes=tuple(Node(id=node, kind="switch") for node in "abc"),
        links=(Link(source="a", target="b"), Link(source="b", target="a")),
    )
