"""``testbed plugins [list | check NAME]``: list plug-ins and run their conformance tests."""

import argparse
from functools import partial
from typing import Any

from testbed.commands.answer import Answer
from topologies.registry import Registry
from topologies.text.json_types import JsonObject

DESCRIPTION = (
    "List or check plug-ins: routings, schedulers, codes, static routings, networks and "
    "workloads of the testbed and of installed packages."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    actions = parser.add_subparsers(
        dest="action", metavar="ACTION", required=True, parser_class=type(parser)
    )
    listing = actions.add_parser(
        "list", help="list every plug-in with its package, and the error if it is broken"
    )
    listing.add_argument(
        "--json",
        action="store_true",
        help="print one JSON object on stdout",
    )
    listing.set_defaults(run=run_list)
    checking = actions.add_parser(
        "check", help="run the conformance tests of a plug-in, or of a method of the testbed"
    )
    checking.add_argument(
        "name",
        metavar="NAME",
        help="name of the plug-in, as on the command line",
    )
    checking.add_argument(
        "--group",
        metavar="GROUP",
        help="entry-point group of the plug-in, such as testbed.routings, if several groups "
        "have the name",
    )
    checking.add_argument(
        "--json",
        action="store_true",
        help="print one JSON object on stdout",
    )
    checking.set_defaults(run=run_check)


def run_list(_: argparse.Namespace) -> Answer:
    """Return all plug-ins by group; broken ones do not change the exit code."""
    from testbed.commands.studies.experiment import EXPERIMENTS, find_experiments
    from testbed.conformance import registries

    find_experiments()
    groups = registries() | {EXPERIMENTS.group: EXPERIMENTS}
    document = {"groups": {group: _document(registry) for group, registry in groups.items()}}
    return Answer(document, partial(_print, groups))


def _print(groups: "dict[str, Registry[Any]]") -> None:
    for group, registry in groups.items():
        print(f"{group}\n    ours: {', '.join(registry.builtin_names())}")
        for plugin in registry.plugins():
            line = f"    {plugin.name} (package {plugin.package})"
            if plugin.broken is not None:
                line += f"; BROKEN: {plugin.broken}"
            print(line)


def _document(registry: "Registry[Any]") -> JsonObject:
    listed = [{"name": p.name, "package": p.package, "error": p.broken} for p in registry.plugins()]
    return {"builtin": list(registry.builtin_names()), "plugins": listed}


def run_check(args: argparse.Namespace) -> Answer:
    """Run the conformance tests of one plug-in, and return their verdict."""
    from testbed.commands.answer import check_lines
    from testbed.conformance import check, group_of

    group = args.group or group_of(args.name)
    verdict = check(group, args.name)
    document = {"group": group, "name": args.name, "verdict": verdict.to_json()}
    return Answer(document, partial(check_lines, verdict), verdict.exit_code)
