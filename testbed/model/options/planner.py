"""``testbed.NAME_plan`` of an options class: a function of its fields that a type checker knows, without a line of its
own."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, ParamSpec, TypeVar

from testbed.errors import TestbedError, UsageError
from testbed.model.options.arguments import wrong_argument
from testbed.model.options.option import build, options_of
from topologies.text.json_types import Json, JsonObject

P = ParamSpec("P")
O = TypeVar("O")  # noqa: E741 - options
L = TypeVar("L")


def planner(
    name: str,
    says: str,
    options: Callable[P, O],
    plan: Callable[[O], L],
    plan_type: type[L] | None = None,
) -> Callable[P, L]:
    """Return the function of the library that makes a plan of an options class.

    The function raises what ``plan`` and the options class raise, and UsageError for an argument
    that is unknown or missing.

    Args:
        name: Name of the function.
        says: First line of its docstring, to which the arguments are added.
        options: The options class, whose fields are its arguments.
        plan: Makes the plan of the options.
        plan_type: The class of the plan, which the signature shows as the result.
    """
    kind: Any = options

    def made(*words: P.args, **named: P.kwargs) -> L:
        spellings = _spellings(kind)
        for argument in named:
            if argument not in spellings or spellings[argument] != argument:
                raise wrong_argument(name, argument, spellings)
        try:
            bound = _bound(name, signature, words, named)
            missing = [
                each.name for each in options_of(kind) if each.required and each.name not in bound
            ]
            if missing:
                raise UsageError(f"{name}: give {' and '.join(missing)}")
            return plan(build(kind, bound))
        except TestbedError:
            raise
        except (TypeError, AttributeError, ArithmeticError) as error:
            raise UsageError(f"{name}: an argument is of the wrong kind: {error}") from error

    made.__name__ = name
    made.__qualname__ = name
    signature = inspect.signature(options).replace(
        return_annotation=plan_type or inspect.Signature.empty
    )
    made.__doc__ = _docstring(says, kind, signature)
    setattr(made, "__signature__", signature)  # noqa: B010 - mypy knows no such name of a function
    return made


def _bound(
    name: str, signature: inspect.Signature, words: Sequence[object], named: Json
) -> JsonObject:
    """Return the arguments by name; UsageError for too many, or one that is given twice."""
    try:
        return signature.bind_partial(*words, **named).arguments
    except TypeError as error:
        by_place = [
            each.name
            for each in signature.parameters.values()
            if each.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
        ]
        raise UsageError(
            f"{name}: {error}; without a name give only {', '.join(by_place)}"
        ) from None


def _docstring(says: str, kind: type, signature: inspect.Signature) -> str:
    """Return a docstring with all arguments, in the order of the signature."""
    described: dict[str, list[str]] = {}
    for each in options_of(kind):
        argument, _, inner = each.name.partition(".")
        text = f"{inner}: {each.words}" if inner else each.words
        described.setdefault(argument, []).append(text or each.metavar or "")
    lines = [says, "", "Args:"]
    for argument in signature.parameters:
        text = "; ".join(described.get(argument, []))
        lines.append(
            f"    {argument}: {text[:1].upper()}{text[1:]}." if text else f"    {argument}:"
        )
    return "\n".join(lines)


def _spellings(kind: type) -> dict[str, str]:
    """Return every spelling of an argument, also that of the command line, with its name."""
    names = {field.name: field.name for field in fields(kind) if field.init}
    for each in options_of(kind):
        argument = each.name.partition(".")[0]
        if each.flag:
            names.setdefault(each.flag.lstrip("-").replace("-", "_"), argument)
    return names
