"""What a command's help page says beyond argparse: its options by subject, and one command to begin with.

An option says its heading where it is declared, the same one in every command.
"""

import argparse
from collections.abc import Iterable, Iterator

from testbed.api.workloads import PURPOSES
from testbed.commands.command_list import COMMANDS
from testbed.model.options.option import GROUPS

FEW = 8
"""A command with fewer options than this needs no headings."""


class _OptionLines(argparse.HelpFormatter):
    def _format_action_invocation(self, action: argparse.Action) -> str:
        """What an option takes once, after all its spellings, as Python 3.13 begins to."""
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        takes = self._format_args(action, self._get_default_metavar_for_optional(action))
        return f"{', '.join(action.option_strings)} {takes}"


def by_subject(
    actions: Iterable[argparse.Action],
) -> Iterator[tuple[str | None, list[argparse.Action]]]:
    """(heading, options) in the order of ``GROUPS``, then (None, what stands under none); everything once."""
    left = list(actions)
    if len(left) >= FEW:
        for heading in GROUPS:
            own = [a for a in left if a.option_strings and getattr(a, "group", None) == heading]
            left = [action for action in left if action not in own]
            if own:
                yield heading, own
    yield None, left


def help_text(parser: argparse.ArgumentParser, example: str | None) -> str:
    """The help page of a command."""
    parser.formatter_class = _OptionLines
    page = parser._get_formatter()
    page.add_usage(
        parser.usage or _short_usage(parser), parser._actions, parser._mutually_exclusive_groups
    )
    page.add_text(parser.description)
    listed: list[tuple[str | None, str | None, list[argparse.Action]]] = []
    for group in parser._action_groups:
        if group is parser._optionals:
            listed += [
                (heading or "other options", None, own)
                for heading, own in by_subject(group._group_actions)
            ]
        elif not hasattr(group, "page"):
            listed += _by_purpose(group)
    if not any(heading in GROUPS for heading, _, _ in listed):
        listed = [
            ("options" if heading == "other options" else heading, words, own)
            for heading, words, own in listed
        ]
    for heading, words, own in listed:
        page.start_section(heading)
        page.add_text(words)
        page.add_arguments(own)
        page.end_section()
    page.add_text(parser.epilog)
    return page.format_help() + (f"\nexample: {example}\n" if example else "")


def _by_purpose(
    group: argparse._ArgumentGroup,
) -> Iterator[tuple[str | None, str | None, list[argparse.Action]]]:
    """The group; of one that lists the commands of ``testbed`` the commands by purpose."""
    actions = list(group._group_actions)
    commands = {
        one.dest: one
        for a in actions
        if a.dest == "command"
        for one in getattr(a, "_choices_actions", ())
    }
    if not commands:
        yield group.title, group.description, actions
    for purpose in (*PURPOSES, ""):
        if below := [
            commands[name]
            for name, one in COMMANDS.items()
            if one.purpose == purpose and name in commands
        ]:
            yield purpose or "other commands", None, below


def _short_usage(parser: argparse.ArgumentParser) -> str | None:
    """Return a usage line of the required arguments and ``[OPTION ...]``.

    Return None if there are so few options that argparse's own line is short.
    """
    if len([action for action in parser._actions if action.option_strings]) < FEW:
        return None
    words = [parser.prog]
    for action in parser._actions:
        shown = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
        if not action.option_strings:
            words.append({"?": f"[{shown}]", "+": f"{shown} ..."}.get(str(action.nargs), shown))
        elif action.required:
            count = action.nargs if isinstance(action.nargs, int) else 1
            words.append(" ".join([action.option_strings[0], *[shown] * count]))
    return " ".join((*words, "[OPTION ...]")).replace("%", "%%")
