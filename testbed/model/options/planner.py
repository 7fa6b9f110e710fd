"""Makes the functions ``testbed.NAME_plan`` from options classes.

A type checker knows their arguments, although none of them is written out.
"""

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

    def make_plan(*args: P.args, **kwargs: P.kwargs) -> L:
        spellings = _spellings(kind)
        for argument in kwargs:
            if argument not in spellings or spellings[argument] != argument:
                raise wrong_argument(name, argument, spellings)
        try:
            bound = _bound(name, signature, args, kwargs)
            required = [option.name for option in options_of(kind) if option.required]
            missing = [option_name for option_name in required if option_name not in bound]
            if missing:
                raise UsageError(f"{name}: give {' and '.join(missing)}")
            return plan(build(kind, bound))
        except TestbedError:
            raise
        except (TypeError, AttributeError, ArithmeticError) as error:
            raise UsageError(f"{name}: an argument is of the wrong kind: {error}") from error

    make_plan.__name__ = name
    make_plan.__qualname__ = name
    signature = inspect.signature(options).replace(
        return_annotation=plan_type or inspect.Signature.empty
    )
    make_plan.__doc__ = _docstring(says, kind, signature)
    # mypy rejects an assignment to this attribute of a function.
    setattr(make_plan, "__signature__", signature)  # noqa: B010
    return make_plan


def _bound(
    name: str, signature: inspect.Signature, args: Sequence[object], kwargs: Json
) -> JsonObject:
    """Return the arguments of a call by name.

    Raises:
        UsageError: There are too many arguments, or one is given twice.
    """
    try:
        return signature.bind_partial(*args, **kwargs).arguments
    except TypeError as error:
        positional = [
            parameter.name
            for parameter in signature.parameters.values()
            if parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
        ]
        raise UsageError(
            f"{name}: {error}; without a name give only {', '.join(positional)}"
        ) from None


def _docstring(says: str, kind: type, signature: inspect.Signature) -> str:
    """Return a docstring with all arguments, in the order of the signature."""
    descriptions: dict[str, list[str]] = {}
    for option in options_of(kind):
        argument, _, inner = option.name.partition(".")
        text = option.words
        if inner:
            text = f"{inner}: {text}"
        descriptions.setdefault(argument, []).append(text or option.metavar or "")
    lines = [says, "", "Args:"]
    for argument in signature.parameters:
        text = "; ".join(descriptions.get(argument, []))
        if text:
            lines.append(f"    {argument}: {text[:1].upper()}{text[1:]}.")
        else:
            lines.append(f"    {argument}:")
    return "\n".join(lines)


def _spellings(kind: type) -> dict[str, str]:
    """Return the argument for each of its spellings, including those of the command line."""
    names = {field.name: field.name for field in fields(kind) if field.init}
    for option in options_of(kind):
        argument = option.name.partition(".")[0]
        if option.flag:
            names.setdefault(option.flag.lstrip("-").replace("-", "_"), argument)
    return names
