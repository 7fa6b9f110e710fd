"""What a command's help page says beyond argparse: its options by subject, and one command to begin with.

An option says its heading where it is declared, the same one in every command.
"""

import argparse
from collections.abc import Iterable, Iterator

HEADINGS = ("network and end points", "what is sent", "routing and schedule", "code", "faults", "the run")
"""In the order of a help page; what stands under none is listed as argparse has it."""
COMMANDS: dict[str, tuple[str, ...]] = {
    "send coded streams and files while links fail": ("demo", "stream", "mobility", "download"),
    "compute routes and compare them": ("route", "ror", "demands", "campaign"),
    "compute schedules and carry them out": ("schedule", "allocate", "bulk", "wavelengths"),
    "stripe files, run programs on the hosts": ("sfio", "run"),
    "simulate routers of an interconnection network": ("simulate",),
    "replicate figures of the papers": ("experiment", "replicate", "report"),
    "inspect a network or the machine, try things by hand": ("topology", "up", "exec", "attach", "doctor"),
}
"""Heading -> commands below it in ``testbed --help``, as in the README; the others come last."""
FEW = 8
"""A command with fewer options than this needs no headings."""

EXAMPLES = {
    "topology": "testbed topology show swiss-t1",
    "route": "testbed route swiss-t1 --from s1 --to s6 --flow s2:s7",
    "ror": "testbed ror swiss-t1 --from s1 --to s6 --routing capillary --routing ecmp",
    "demands": "testbed demands topohub:sndlib/abilene --routing capillary --routing optimum",
    "schedule": "testbed schedule swiss-t1 --pattern t0:r5,t1:r6 --output schedule.json",
    "demo": "testbed demo --quick",
    "experiment": "testbed experiment run liquid_worked_examples --quick",
    "campaign": "testbed campaign --list",
    "replicate": "testbed replicate --quick --chapter 3",
    "report": "testbed report results/stream/RUN",
    "allocate": "testbed allocate swiss-t1 --nodes 8",
    "up": "testbed up swiss-t1 --routing capillary --from s1 --to s6",
    "exec": "testbed exec NAME t0 -- hostname",
    "attach": "testbed attach",
    "run": "testbed run crossbar:4 --compute-nodes 1 --io-nodes 2 -- python examples/hello.py",
    "schema": "testbed schema network",
    "plugins": "testbed plugins list",
    "doctor": "testbed doctor",
}
"""A command to begin with, each."""


def by_subject(actions: Iterable[argparse.Action]) -> Iterator[tuple[str | None, list[argparse.Action]]]:
    """(heading, options) in the order of ``HEADINGS``, then (None, what stands under none); everything once."""
    left = list(actions)
    if len(left) >= FEW:
        for heading in HEADINGS:
            own = [a for a in left if a.option_strings and getattr(a, "group", None) == heading]
            left = [action for action in left if action not in own]
            if own:
                yield heading, own
    yield None, left


def help_text(parser: argparse.ArgumentParser, example: str | None) -> str:
    """The help page of a command."""
    page = parser._get_formatter()
    page.add_usage(parser.usage or _short_usage(parser), parser._actions, parser._mutually_exclusive_groups)
    page.add_text(parser.description)
    listed: list[tuple[str | None, str | None, list[argparse.Action]]] = []
    for group in parser._action_groups:
        if group is parser._optionals:
            listed += [(heading or "other options", None, own) for heading, own in by_subject(group._group_actions)]
        elif not hasattr(group, "page"):
            listed += _by_purpose(group)
    if not any(heading in HEADINGS for heading, _, _ in listed):
        listed = [("options" if heading == "other options" else heading, words, own) for heading, words, own in listed]
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
    commands = {one.dest: one for a in actions if a.dest == "command" for one in getattr(a, "_choices_actions", ())}
    if not commands:
        yield group.title, group.description, actions
    for heading, names in [*COMMANDS.items(), ("other commands", tuple(commands))]:
        if below := [commands.pop(name) for name in names if name in commands]:
            yield heading, None, below


def _short_usage(parser: argparse.ArgumentParser) -> str | None:
    """What must be given, and ``[OPTION ...]``; None where there are so few options that argparse's own line is
    short."""
    if len([action for action in parser._actions if action.option_strings]) < FEW:
        return None
    words = [parser.prog]
    for action in parser._actions:
        shown = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
        if not action.option_strings:
            words.append({"?": f"[{shown}]", "+": f"{shown} ..."}.get(str(action.nargs), shown))
        elif action.required:
            words.append(f"{action.option_strings[0]} {shown}")
    return " ".join((*words, "[OPTION ...]")).replace("%", "%%")
