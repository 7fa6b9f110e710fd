"""Completes the command line of ``testbed`` in a shell.

argcomplete asks the parser of the command that is being typed. The values of an option come from
the same place as in the command.
"""

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from pkgutil import resolve_name

ONE_PATH = ("topologies.routing_tables:STATIC_ROUTINGS.names",)
ROUTINGS = "testbed.routing.methods:ROUTINGS.names"
# The completions of an option's value. A key is an option or a metavar, such as NETWORK, which may
# follow the name of a command. A value with a colon is the path of a collection of completions, or
# of a function that returns them. Other values are completions themselves.
WORDS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(["NETWORK", "FAMILY"], ("topologies.catalog:FAMILIES.names",)),
    "--routing": (ROUTINGS,),
    "demands --routing": (ROUTINGS, "testbed.routing.demands.methods:DEMAND_ROUTINGS.names"),
    "stream --routing": (ROUTINGS, "ft-drb", "recomputed"),
    **dict.fromkeys(
        [f"{command} --routing" for command in ("schedule", "bulk", "sfio", "run")], ONE_PATH
    ),
    "simulate --routing": (*ONE_PATH, "testbed.interconnect.parameters:ROUTINGS"),
    "--scheduling": ("testbed.scheduling.methods:SCHEDULERS.names",),
    "wavelengths --scheduling": ("liquid", "testbed.wavelengths.greedy:GREEDY"),
    "campaign FILE|NAME": ("testbed.campaigns.loader:shipped_campaigns",),
    **dict.fromkeys(
        ["exec NAME", "attach NAME"], ("testbed.emulation.sandbox.control_socket:network_names",)
    ),
    **dict.fromkeys(
        ["replicate NAME", "experiment NAME"],
        ("testbed.commands.studies.experiment:find_experiments",),
    ),
}
# The metavars whose values may be files.
FILES = frozenset({"NETWORK", "FILE", "DIR", "RUN", "SCRIPT", "RESULTS", "FILE|NAME"})


def complete(parser_of: Callable[[str], argparse.ArgumentParser]) -> None:
    """Answer the shell's request for completions (``COMP_LINE``), and end.

    Args:
        parser_of: Returns the parser of a command, or of all commands for another word.
    """
    command = [*os.environ["COMP_LINE"].split(), ""][1]
    autocomplete = resolve_name("argcomplete:autocomplete")
    autocomplete(
        parser_of(command), "long", default_completer=lambda **request: values(command, **request)
    )


def values(
    command: str, action: argparse.Action, prefix: str, parsed_args: object, **_: object
) -> list[str]:
    """Return the possible values of an option: names, or files where a file may stand.

    Args:
        command: The command that is being typed.
        action: The option, or the positional argument.
        prefix: The part of the value that is typed already.
        parsed_args: The options that were parsed so far.
    """
    metavar = str(action.metavar or action.dest.upper())
    names = [*action.option_strings, metavar]
    # A source of this command goes before one of all commands.
    keys = [f"{command} {name}" for name in names] + names
    completions: list[str] = []
    for source in next((WORDS[key] for key in keys if key in WORDS), ()):
        if ":" not in source:
            completions.append(source)
            continue
        listed = resolve_name(source)
        if callable(listed):
            listed = listed()
        completions += listed
    if metavar == "NETWORK" and prefix.startswith("topohub:"):
        topohub_keys = resolve_name("topologies.files.formats:topohub_keys")
        completions = [f"topohub:{key}" for key in topohub_keys()]
    if metavar == "NODE":
        network = getattr(parsed_args, "network", None)
        # A network in a Python file would run the file.
        if network and ".py:" not in network:
            load_network = resolve_name("topologies:load_network")
            completions = [node.id for node in load_network(network).nodes]
    if metavar in ("DIR", "RUN") and command in ("report", "compare"):
        completions = [str(path.parent) for path in Path().glob("results/*/*/manifest.json")]
    if metavar in FILES:
        completions += resolve_name("argcomplete.completers:FilesCompleter")()(prefix)
    return completions
