"""What completes the words of ``testbed`` in a shell: argcomplete asks the parser of the command that is being typed,
and a value's words are looked up where the command looks for them."""

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from pkgutil import resolve_name

ONE_PATH = ("topologies.routing_tables:STATIC_ROUTINGS.names",)
ROUTINGS = "testbed.routing.methods:ROUTINGS.names"
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
"""What stands for a value on a help page, or its option, of a command or of all -> the words, or where they are."""
FILES = frozenset({"NETWORK", "FILE", "DIR", "RUN", "SCRIPT", "RESULTS", "FILE|NAME"})
"""Values for which a file may stand."""


def complete(parser_of: Callable[[str], argparse.ArgumentParser]) -> None:
    """Answer the shell that asks (``COMP_LINE``), and end. ``parser_of``: of a command, or of all where it is none."""
    command = [*os.environ["COMP_LINE"].split(), ""][1]
    autocomplete = resolve_name("argcomplete:autocomplete")
    autocomplete(
        parser_of(command), "long", default_completer=lambda **asked: values(command, **asked)
    )


def values(
    command: str, action: argparse.Action, prefix: str, parsed_args: object, **_: object
) -> list[str]:
    """What may stand for that value of the command: names where it is one, files where it may be one."""
    kind, found = str(action.metavar or action.dest.upper()), list[str]()
    named = [*action.option_strings, kind]
    for source in next(
        (WORDS[key] for key in [*(f"{command} {one}" for one in named), *named] if key in WORDS), ()
    ):
        words = resolve_name(source) if ":" in source else [source]
        found += words() if callable(words) else words
    if kind == "NETWORK" and prefix.startswith("topohub:"):
        found = [
            f"topohub:{key}" for key in resolve_name("topologies.files.formats:topohub_keys")()
        ]
    if kind == "NODE" and ".py:" not in (
        network := getattr(parsed_args, "network", None) or ".py:"
    ):  # runs nothing
        found = [node.id for node in resolve_name("topologies:load_network")(network).nodes]
    if kind in ("DIR", "RUN") and command in ("report", "compare"):
        found = [str(path.parent) for path in Path().glob("results/*/*/manifest.json")]
    return found + (
        resolve_name("argcomplete.completers:FilesCompleter")()(prefix) if kind in FILES else []
    )
