"""Turns options classes into the arguments of a parser, and parsed arguments into options.

The module also contains the options that commands share. An option that needs other options is
refused without them; it is never ignored silently.
"""

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
# The type that argparse gives to a text, for each annotation of a field. Other text stays text.
_TYPES: dict[str, Any] = {"int": int, "float": float, "Path": Path}


@options
class ResultsOptions:
    """The folder in which a run is stored."""

    results: Path = running(default=Path("results"), help="directory for results", only=(RUNNING,))


@options
class JsonOptions:
    """The option of commands that can print a JSON object."""

    json: bool = running(default=False, help="print one JSON object on stdout")


def _prints_no_json(args: argparse.Namespace) -> bool:
    return not args.json


@options
class TableOptions(JsonOptions):
    """The options of commands that can print a table as JSON or CSV."""

    csv: bool = running(
        default=False,
        help="print the table as CSV on stdout",
        only=(Only(when=_prints_no_json, needs="output without --json"),),
    )


@options
class LiveOptions:
    """The option of commands that can serve a live page."""

    live: bool = running(
        default=False,
        help="serve a live web page of the run on localhost, and print its address on stderr",
        only=(RUNNING,),
    )


def add_options(parser: argparse.ArgumentParser, *kinds: type) -> None:
    """Add the options of these classes to a parser.

    The parser refuses an option that is given twice, unless it is ``many``, and an option that
    needs others which are absent (``Only``).
    """
    for kind in kinds:
        for option in options_of(kind):
            if option.trailing:
                assert isinstance(parser, OneLineParser)
                parser.trailing = option.name
            elif option.flag is not None:
                _add(parser, option)
    _fold(parser)


def adder(
    parser: argparse.ArgumentParser, group: str | None = None
) -> Callable[..., argparse.Action]:
    """Return an ``add_argument`` for options that only this command has.

    Its argument ``only`` is the condition on the other options without which the option is refused.

    Args:
        parser: The parser of the command.
        group: The heading below which the help page lists the options.
    """

    def add(*flags: str, only: Only | None = None, **settings: object) -> argparse.Action:
        action = parser.add_argument(*flags, **cast("dict[str, Any]", settings))
        conditions: tuple[Only, ...] = ()
        if only is not None:
            conditions = (only,)
        return _describe(action, group, conditions)

    return add


def add_answer_options(parser: argparse.ArgumentParser) -> None:
    """Add the options by which a command that only computes prints, draws and stores its answer."""
    add_options(parser, TableOptions)
    add = adder(parser, RUN)
    add(
        "--plot",
        type=_picture_path,
        metavar="FILE",
        help="draw the answer in a file (.svg, .png or .pdf)",
    )
    results_help = "store the answer below DIR, with its tables and a page"
    add(
        "--results",
        type=Path,
        metavar="DIR",
        help=results_help,
    )


def _picture_path(text: str) -> Path:
    """Return the path of a picture; refuse it before anything is computed."""
    path = Path(text)
    if path.suffix.lower() not in (".svg", ".png", ".pdf"):
        raise InputError(f"{text}: give a name that ends in .svg, .png, .pdf")
    if not path.parent.is_dir():
        raise InputError(f"{text}: there is no directory {path.parent}; make it")
    return path


def _describe(
    action: argparse.Action, group: str | None, only: tuple[Only, ...]
) -> argparse.Action:
    """Set two attributes that argparse does not have, and return the action.

    The help page reads ``group``, and ``OneLineParser`` reads ``only``.
    """
    vars(action).update(group=group, only=only)
    return action


def read_options(args: argparse.Namespace, kind: type[T]) -> T:
    """Return the options on the command line as a value of an options class.

    Options that were not given keep the defaults of the class.

    Raises:
        InputError: The class refuses a value.
    """
    given_names = getattr(args, "given", {})
    values: dict[str, object] = {}
    for option in options_of(kind):
        on_command_line = option.flag is not None or option.trailing
        if on_command_line and option.name in given_names:
            values[option.name] = _value(option, getattr(args, option.name))
    return build(kind, values)


def _value(option: Option, value: object) -> object:
    """Return a parsed value, as a tuple if the option has several values."""
    several = option.many or option.annotation == _PAIR
    return tuple(value) if several and isinstance(value, Iterable) else value


def _add(parser: argparse.ArgumentParser, option: Option) -> None:
    settings = _argparse_settings(option)
    if option.positional:
        action = parser.add_argument(option.name, **settings)
    else:
        settings |= {"dest": option.name, "required": option.required}
        container = _container(parser, option.group)
        action = container.add_argument(
            str(option.flag),
            *option.short,
            **settings,
        )
    _describe(action, option.group, option.only)


def _container(parser: argparse.ArgumentParser, heading: str | None) -> argparse._ActionsContainer:
    """Return the object to which options below a heading are added.

    It is the parser for the headings that all commands share. For any other heading it is a group,
    which is created if necessary.
    """
    if heading is None or heading in GROUPS:
        return parser
    for group in parser._action_groups:
        if group.title == heading:
            return group
    return parser.add_argument_group(heading)


def _fold(parser: argparse.ArgumentParser) -> None:
    """Move each large group of options to a separate help page (``--help-GROUP``)."""
    # The first two groups are argparse's own: positional arguments and options.
    for group in parser._action_groups[2:]:
        if len(group._group_actions) >= FEW and not hasattr(group, "page"):
            page = f"--help-{str(group.title).split()[-1].strip(')').lower()}"
            page_help = f"show the options of {group.title} and exit"
            setattr(group, "page", page)  # noqa: B010 - read by the help page
            parser.add_argument(
                page,
                action=_HelpOf,
                help=page_help,
            ).metavar = group.title


class _HelpOf(argparse._HelpAction):
    """Prints the options below one heading, and ends the program."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object, **__: object) -> None:
        page = parser._get_formatter()
        for group in parser._action_groups:
            if group.title == self.metavar:
                page.start_section(group.title)
                page.add_arguments(group._group_actions)
                page.end_section()
        print(page.format_help(), end="")
        parser.exit()


def _argparse_settings(option: Option) -> dict[str, Any]:
    """Return the keyword arguments of ``add_argument`` for an option."""
    settings: dict[str, Any] = {"help": option.words.replace("%", "%%") or None}
    if not option.required:
        settings["default"] = option.default
    if option.annotation == "bool":
        has_negative = option.default or option.negated
        settings["action"] = argparse.BooleanOptionalAction if has_negative else "store_true"
        return settings
    if option.metavar is not None:
        settings["metavar"] = option.metavar
    if option.kind is not None:
        settings["type"] = option.kind
    else:
        # The first word of an annotation such as "int | None".
        simple_type = _TYPES.get(option.annotation.partition(" ")[0])
        if simple_type is not None:
            settings["type"] = simple_type
    if option.choices:
        choices = option.choices
        if callable(choices):
            choices = choices()
        settings["choices"] = tuple(choices)
    if option.annotation == _PAIR:
        settings["nargs"] = 2
    if option.many and option.positional:
        settings["nargs"] = "+" if option.required else "*"
    elif option.many:
        assert isinstance(option.default, Sequence)
        settings["action"] = "append"
        settings["default"] = list(option.default)
    elif option.positional and not option.required:
        settings["nargs"] = "?"
    return settings


Args = argparse.Namespace


def refuse_options_without_effect(args: Args) -> None:
    """Raise InputError for the first option that needs other options which are absent."""
    for written, only in getattr(args, "ruled", ()):
        if not only.when(args):
            raise InputError(f"{written}: it is for {only.needs}; leave one of the two out")


def require_switches(args: Args, fabric: str, options: Iterable[str]) -> None:
    """Refuse options that need switches if the run is on the simulator.

    Args:
        args: The options on the command line.
        fabric: The fabric of the run.
        options: The names of the options that need switches.

    Raises:
        InputError: The simulator was requested.
        CapabilityError: This machine supports only the simulator.
    """
    if fabric == "emulation":
        return
    # The spelling on the command line of each option that was given, by name.
    spellings: Mapping[str, str] = getattr(args, "given", {})
    for name in options:
        if name in spellings:
            error_class = InputError if args.fabric == "simulator" else CapabilityError
            raise error_class(
                f"{spellings[name]} needs the emulated fabric: the simulated one has no switches, "
                "queues or cables; leave it out"
            )
