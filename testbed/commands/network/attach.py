"""``testbed attach [RUN]``: a prompt on a network that another process holds up; without a name, those that are up."""

import argparse
import json
import signal

from testbed.commands.parsing import Subparsers


def add_parser(subparsers: Subparsers) -> None:
    """Adds the command to the parser."""
    parser = subparsers.add_parser(
        "attach",
        description="The prompt of testbed up on a network that testbed up, testbed run or a Python session holds up; "
        "leaving it leaves the network up. Without NAME: the networks that are up.",
    )
    parser.add_argument("name", metavar="NAME", nargs="?", help="the network's name")
    parser.add_argument("--json", action="store_true", help="without NAME: print one JSON object on stdout")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Exit code 0; 2 where a line from a pipe could not be understood."""
    from testbed.emulation.attach.prompt import give_prompt
    from testbed.emulation.sandbox.control_socket import network_names

    if args.name is None:
        names = network_names()
        print(json.dumps({"networks": names}) if args.json else "\n".join(names) or "no network is up")
        return 0
    signal.signal(signal.SIGINT, signal.default_int_handler)  # the prompt hears Ctrl-C more than once
    return give_prompt(args.name, sign=f"{args.name}> ")
