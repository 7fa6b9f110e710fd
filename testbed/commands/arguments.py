"""Options classes on a command line: their fields become arguments of a parser, and its values one of them again; and
those that commands share. An option that has a meaning only next to others is refused, not dropped in silence."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

from testbed.commands.help_pages import FEW
from testbed.commands.parsing import OneLineParser
from testbed.errors import CapabilityError, InputError
from testbed.model.options.option import (
    GROUPS,
    RUN,
    RUNNING,
    Only,
    Option,
    build,
    options,
    options_of,
    running,
)

T = TypeVar("T")
_PAIR = "tuple[str, str]"
_TYPES: dict[str, Any] = {"int": int, "float": float, "Path": Path}
"""Annotation of a field -> what argparse makes of the text; other text stays as it is."""


@options
class ResultsOptions:
    """Where a run is kept."""

    results: Path = running(default=Path("results"), help="directory for results", only=(RUNNING,))


@options
class JsonOptions:
    """For whom a command writes."""

    json: bool = running(default=False, help="print one JSON object on stdout")


@options
class TableOptions(JsonOptions):
    """In which form a command that shows a table writes it."""

    csv: bool = running(
        default=False,
        help="print the table as CSV on stdout",
        only=(Only(when=lambda a: not a.json, needs="output without --json"),),
    )


@options
class LiveOptions:
    """Whether the page is served."""

    live: bool = running(
        default=False,
        help="serve a live web page of the run on localhost (address on stderr)",
        only=(RUNNING,),
    )


def add_options(parser: argparse.ArgumentParser, *kinds: type) -> None:
    """The options of these classes. One that is given twice is refused, unless it is ``many``; so is one without a
    meaning (``Only``)."""
    for kind in kinds:
        for one in options_of(kind):
            if one.trailing:
                assert isinstance(parser, OneLineParser)
                parser.trailing = one.name
            elif one.flag is not None:
                _add(parser, one)
    _fold(parser)


def adder(
    parser: argparse.ArgumentParser, group: str | None = None
) -> Callable[..., argparse.Action]:
    """``add_argument`` for options that a command alone has, under the heading ``group``; ``only`` says when one has a
    meaning."""

    def add(*words: str, only: Only | None = None, **said: object) -> argparse.Action:
        action = parser.add_argument(*words, **cast("dict[str, Any]", said))
        return _describe(action, group, () if only is None else (only,))

    return add


def add_answer_options(parser: argparse.ArgumentParser) -> None:
    """Of a command that only computes: how its answer is written, drawn and kept."""
    add_options(parser, TableOptions)
    add, words = adder(parser, RUN), "keep the answer below DIR, with its tables and a page"
    add("--plot", type=_picture, metavar="FILE", help="draw it (.svg, .png or .pdf)")
    add("--results", type=Path, metavar="DIR", help=words)


def _picture(text: str) -> Path:
    """A file to draw into, which can be refused before anything is computed."""
    path = Path(text)
    if path.suffix.lower() not in (".svg", ".png", ".pdf"):
        raise InputError(f"{text}: give a name that ends in .svg, .png, .pdf")
    if not path.parent.is_dir():
        raise InputError(f"{text}: there is no directory {path.parent}; make it")
    return path


def _describe(
    action: argparse.Action, group: str | None, only: tuple[Only, ...]
) -> argparse.Action:
    """What argparse knows no place for: the help page reads the heading, ``OneLineParser`` the rules."""
    vars(action).update(group=group, only=only)
    return action


def read_options(args: argparse.Namespace, kind: type[T]) -> T:
    """What was given on the command line, as an options class. Raises InputError for a value that it refuses."""
    given = getattr(args, "given", {})
    listed = [
        one
        for one in options_of(kind)
        if (one.flag is not None or one.trailing) and one.name in given
    ]
    return build(kind, {one.name: _value(one, getattr(args, one.name)) for one in listed})


def _value(one: Option, value: object) -> object:
    several = one.many or one.annotation == _PAIR
    return tuple(value) if several and isinstance(value, Iterable) else value


def _add(parser: argparse.ArgumentParser, one: Option) -> None:
    words = _words(one)
    if one.positional:
        action = parser.add_argument(one.name, **words)
    else:
        words |= {"dest": one.name, "required": one.required}
        action = _place(parser, one.group).add_argument(str(one.flag), *one.short, **words)
    _describe(action, one.group, one.only)


def _place(parser: argparse.ArgumentParser, heading: str | None) -> argparse._ActionsContainer:
    """Where an option of that heading goes: the parser itself, which sorts those that all commands share, or a group of
    its own."""
    if heading is None or heading in GROUPS:
        return parser
    made = (group for group in parser._action_groups if group.title == heading)
    return next(made, None) or parser.add_argument_group(heading)


def _fold(parser: argparse.ArgumentParser) -> None:
    """A long family of options has a help page of its own."""
    for group in parser._action_groups[2:]:
        if len(group._group_actions) >= FEW and not hasattr(group, "page"):
            page = f"--help-{str(group.title).split()[-1].strip(')').lower()}"
            said = f"show the options of {group.title} and exit"
            setattr(group, "page", page)  # noqa: B010 - read by the help page
            parser.add_argument(page, action=_HelpOf, help=said).metavar = group.title


class _HelpOf(argparse._HelpAction):
    """Prints the options below one heading, and ends."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object, **__: object) -> None:
        page = parser._get_formatter()
        for group in parser._action_groups:
            if group.title == self.metavar:
                page.start_section(group.title)
                page.add_arguments(group._group_actions)
                page.end_section()
        print(page.format_help(), end="")
        parser.exit()


def _words(one: Option) -> dict[str, Any]:
    """What argparse is told of an option."""
    words: dict[str, Any] = {"help": one.words.replace("%", "%%") or None}
    if not one.required:
        words["default"] = one.default
    if one.annotation == "bool":
        return words | {
            "action": argparse.BooleanOptionalAction if one.default or one.negated else "store_true"
        }
    if one.metavar is not None:
        words["metavar"] = one.metavar
    if one.kind is not None:
        words["type"] = one.kind
    elif (simple := _TYPES.get(one.annotation.partition(" ")[0])) is not None:
        words["type"] = simple
    if one.choices:
        words["choices"] = tuple(one.choices() if callable(one.choices) else one.choices)
    if one.annotation == _PAIR:
        words["nargs"] = 2
    if one.many and one.positional:
        words["nargs"] = "+" if one.required else "*"
    elif one.many:
        assert isinstance(one.default, Sequence)
        words |= {"action": "append", "default": list(one.default)}
    elif one.positional and not one.required:
        words["nargs"] = "?"
    return words


Args = argparse.Namespace


def refuse_meaningless(args: Args) -> None:
    """Raise InputError for the first option given that has no meaning next to the others."""
    for written, only in getattr(args, "ruled", ()):
        if not only.when(args):
            raise InputError(f"{written}: it is for {only.needs}; leave one of the two out")


def require_switches(args: Args, fabric: str, options: Iterable[str]) -> None:
    """Refuse options that only switches can carry out, where the run is on the simulated fabric.

    Raises InputError where the simulator was requested, CapabilityError where this machine has nothing else.
    """
    given: Mapping[str, str] = getattr(
        args, "given", {}
    )  # value's name -> the option as it was written
    named = next((given[name] for name in options if name in given), None)
    if fabric != "emulation" and named is not None:
        kind = InputError if args.fabric == "simulator" else CapabilityError
        raise kind(
            f"{named} needs the emulated fabric: the simulated one has no switches, queues or cables; leave it out"
        )
