"""What completes the words of ``testbed`` in a shell: argcomplete asks the parser of the command that is being typed,
and a value's words are looked up where the command looks for them."""

import argparse
import os
from collections.abc import Callable, Iterable
from pathlib import Path

ONE_PATH = ("schedule", "bulk", "sfio", "run", "simulate")
"""Commands whose --routing is a static routing."""
WITH_FILES = frozenset({"NETWORK", "FILE", "DIR", "RUN", "SCRIPT", "RESULTS", "FILE|NAME"})
"""Values for which a file may stand, by what help pages call them."""


def complete(parser_of: Callable[[str], argparse.ArgumentParser]) -> None:
    """Answer the shell that asks (``COMP_LINE``), and end. ``parser_of``: of a command, or of all where it is none."""
    import argcomplete

    words = [*os.environ["COMP_LINE"].split(), "", ""]
    parsers = [parser_of(words[1])]
    for parser in parsers:
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                parsers += action.choices.values()
            elif action.choices is None and action.nargs != 0:
                vars(action)["completer"] = lambda prefix, action, parsed_args, **_: values(
                    words, action, prefix, parsed_args
                )
    argcomplete.autocomplete(parsers[0], "long", default_completer=argcomplete.SuppressCompleter())  # type: ignore[no-untyped-call]


def values(words: list[str], action: argparse.Action, prefix: str, given: argparse.Namespace) -> Iterable[str]:
    """What may stand for that value on the command line ``words``: names where it is one, files where it may be one."""
    kind = str(action.metavar or action.dest.upper())
    found: list[str] = []
    if kind in ("NETWORK", "FAMILY"):
        from topologies.catalog import catalogue
        from topologies.files.formats import topohub_keys

        hub = prefix.startswith("topohub:")
        found += [f"topohub:{key}" for key in topohub_keys()] if hub else [one.name for one in catalogue()]
    elif kind == "METHOD":
        found += _methods(words[1], "--scheduling" in action.option_strings)
    elif kind == "NODE":
        from topologies import load_network

        found += [node.id for node in load_network(getattr(given, "network", None) or given.frames[0]).nodes]
    elif kind in ("DIR", "RUN") and words[1] in ("report", "compare"):
        found += [str(path.parent) for path in Path().glob("results/*/*/manifest.json")]
    elif kind in ("NAME", "FILE|NAME"):
        found += _names(words)
    if kind in WITH_FILES:
        from argcomplete.completers import FilesCompleter

        found += FilesCompleter()(prefix)  # type: ignore[no-untyped-call]
    return found


def _methods(command: str, scheduling: bool) -> Iterable[str]:
    from testbed.interconnect.parameters import ROUTINGS as SIMULATED
    from testbed.routing.demands.methods import DEMAND_ROUTINGS
    from testbed.routing.methods import ROUTINGS
    from testbed.scheduling.methods import SCHEDULERS
    from testbed.wavelengths.greedy import GREEDY
    from topologies.routing_tables import STATIC_ROUTINGS

    if scheduling:
        return ("liquid", *GREEDY) if command == "wavelengths" else SCHEDULERS.names()
    own = {"simulate": SIMULATED, "demands": DEMAND_ROUTINGS.names(), "stream": ("ft-drb", "recomputed")}
    return [*(STATIC_ROUTINGS if command in ONE_PATH else ROUTINGS).names(), *own.get(command, ())]


def _names(words: list[str]) -> Iterable[str]:
    """Networks that are up, campaigns or studies, by the command."""
    from testbed.campaigns.loader import shipped_campaigns
    from testbed.commands.studies.experiment import find_experiments
    from testbed.emulation.sandbox.control_socket import network_names

    if words[1] in ("exec", "attach"):
        return network_names()
    if words[1] == "campaign":
        return shipped_campaigns()
    return find_experiments() if words[1] == "replicate" or words[2] == "run" else ()
