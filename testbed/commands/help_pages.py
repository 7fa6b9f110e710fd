"""The help page of a command: its options by subject, and an example.

The heading of an option is part of its declaration, and the same in every command.
"""

import argparse
from collections.abc import Iterable, Iterator

from testbed.api.workloads import PURPOSES
from testbed.commands.command_list import COMMANDS
from testbed.model.options.option import GROUPS

# A command with fewer options has no headings, and its usage line lists all of them.
FEW = 8
# Heading, description and options of a section of a help page.
Section = tuple[str | None, str | None, list[argparse.Action]]


class _OptionLines(argparse.HelpFormatter):
    def _format_action_invocation(self, action: argparse.Action) -> str:
        """Return the spellings of an option with its argument once, as Python 3.13 does."""
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        argument = self._format_args(action, self._get_default_metavar_for_optional(action))
        return f"{', '.join(action.option_strings)} {argument}"


def by_subject(
    actions: Iterable[argparse.Action],
) -> Iterator[tuple[str | None, list[argparse.Action]]]:
    """Yield each heading with its options, in the order of ``GROUPS``, and at last the others.

    The heading of the others is None. If there are few options, all of them are others.
    """
    remaining = list(actions)
    if len(remaining) >= FEW:
        for heading in GROUPS:
            grouped = [
                action
                for action in remaining
                if action.option_strings and getattr(action, "group", None) == heading
            ]
            remaining = [action for action in remaining if action not in grouped]
            if grouped:
                yield heading, grouped
    yield None, remaining


def help_text(parser: argparse.ArgumentParser, example: str | None) -> str:
    """Return the help page of a command.

    Args:
        parser: The parser of the command.
        example: A complete command line, or None.
    """
    parser.formatter_class = _OptionLines
    page = parser._get_formatter()
    page.add_usage(
        parser.usage or _short_usage(parser), parser._actions, parser._mutually_exclusive_groups
    )
    page.add_text(parser.description)
    for heading, description, actions in _sections(parser):
        page.start_section(heading)
        page.add_text(description)
        page.add_arguments(actions)
        page.end_section()
    page.add_text(parser.epilog)
    text = page.format_help()
    return f"{text}\nexample: {example}\n" if example else text


def _sections(parser: argparse.ArgumentParser) -> list[Section]:
    """Return the sections of a help page, without the groups that have a separate page."""
    subjects = list(by_subject(parser._optionals._group_actions))
    has_headings = any(heading in GROUPS for heading, _ in subjects)
    last_heading = "other options" if has_headings else "options"
    sections: list[Section] = []
    for group in parser._action_groups:
        if group is parser._optionals:
            sections += [(heading or last_heading, None, actions) for heading, actions in subjects]
        elif not hasattr(group, "page"):
            sections += _by_purpose(group)
    return sections


def _by_purpose(group: argparse._ArgumentGroup) -> Iterator[Section]:
    """Yield the section of a group, or for the list of commands one section for each purpose."""
    actions = list(group._group_actions)
    commands: dict[str, argparse.Action] = {}
    for action in actions:
        if action.dest == "command":
            for choice in getattr(action, "_choices_actions", ()):
                commands[choice.dest] = choice
    if not commands:
        yield group.title, group.description, actions
        return
    for purpose in (*PURPOSES, ""):
        names = [name for name, command in COMMANDS.items() if command.purpose == purpose]
        listed = [commands[name] for name in names if name in commands]
        if listed:
            yield purpose or "other commands", None, listed


def _short_usage(parser: argparse.ArgumentParser) -> str | None:
    """Return a usage line of the required arguments and ``[OPTION ...]``.

    Return None if there are so few options that argparse's own line is short.
    """
    if len([action for action in parser._actions if action.option_strings]) < FEW:
        return None
    parts = [parser.prog]
    for action in parser._actions:
        metavar = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
        if not action.option_strings:
            forms = {"?": f"[{metavar}]", "+": f"{metavar} ..."}
            parts.append(forms.get(str(action.nargs), metavar))
        elif action.required:
            count = action.nargs if isinstance(action.nargs, int) else 1
            parts += [action.option_strings[0], *[metavar] * count]
    parts.append("[OPTION ...]")
    return " ".join(parts).replace("%", "%%")
