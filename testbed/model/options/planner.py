"""``testbed.NAME_plan`` of an options class: a function of its fields that a type checker knows, without a line of its
own."""

import inspect
import warnings
from collections.abc import Callable
from dataclasses import fields
from typing import Any, ParamSpec, TypeVar

from testbed.errors import TestbedError, UsageError
from testbed.model.options.option import build, options_of
from testbed.renamed import renames
from topologies.text.json_types import Json, JsonObject

P = ParamSpec("P")
O = TypeVar("O")  # noqa: E741 - options
L = TypeVar("L")


def planner(
    name: str, says: str, options: Callable[P, O], plan: Callable[[O], L]
) -> Callable[P, L]:
    """The function that makes a plan of what the options class takes. ``says``: its docstring, to which the options are
    added.

    It raises what ``plan`` and the options class raise; UsageError for an argument that is none of theirs or is left
    out.
    """
    kind: Any = options

    def made(*words: P.args, **named: P.kwargs) -> L:
        given: Any = _present(name, named)
        known = [one.name for one in fields(kind)]
        for wrong in set(given) - set(known):
            raise UsageError(
                f"{name}: there is no argument {wrong!r}; there are {', '.join(known)}"
            )
        try:
            bound = inspect.signature(options).bind_partial(*words, **given).arguments
            if left_out := [
                one.name for one in options_of(kind) if one.required and one.name not in bound
            ]:
                raise UsageError(f"{name}: give {' and '.join(left_out)}")
            return plan(build(kind, bound))
        except TestbedError:
            raise
        except (TypeError, AttributeError, ArithmeticError) as error:
            raise UsageError(f"{name}: an argument is of the wrong kind: {error}") from error

    made.__name__ = made.__qualname__ = name
    made.__doc__ = "\n".join(
        [says, "", *(f"* ``{o.name}``: {o.words or o.metavar or ''}" for o in options_of(kind))]
    )
    setattr(made, "__signature__", inspect.signature(options))  # noqa: B010 - mypy knows no such name of a function
    return made


def _present(function: str, named: Json) -> JsonObject:
    """The keyword arguments under their present names, each of 0.2 with a DeprecationWarning.

    Raises UsageError where a former and its present name are both there, and for a rate in a unit of its own.
    """
    found = dict(named)
    former = renames("Keyword arguments", function)
    if function == "simulation_plan" and found.pop("rate_unit", "") == "packets/s":
        if "rate" not in found:
            raise UsageError("simulation_plan: rate_unit is gone; give packet_rate_pps")
        former["rate"] = "packet_rate_pps"
    for word, present in former.items():
        old, *values = word.split()
        if old not in found or (values and str(found[old]) not in values):
            continue
        if present in found:
            raise UsageError(
                f"{function}: {old} is now {present}, which is there too; give it once"
            )
        said = f"{function}: {old} is now {present}; the old name goes in 0.4"
        warnings.warn(said, DeprecationWarning, stacklevel=4)
        found[present] = found.pop(old)
    return found
