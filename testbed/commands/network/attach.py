"""``testbed attach [RUN]``: a prompt on a network that another process holds up; without a name, those that are up."""

import argparse
import signal
from functools import partial

from testbed.commands.answer import Answer

DESCRIPTION = (
    "The prompt of testbed up on a network that testbed up, testbed run or a Python session holds up; "
    "leaving it leaves the network up. Without NAME: the networks that are up."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Those of the command."""
    parser.add_argument("name", metavar="NAME", nargs="?", help="the network's name")
    parser.add_argument(
        "--json", action="store_true", help="without NAME: print one JSON object on stdout"
    )


def run(args: argparse.Namespace) -> Answer | int:
    """Exit code 0; 2 where a line from a pipe could not be understood."""
    from testbed.emulation.attach.prompt import give_prompt
    from testbed.emulation.sandbox.control_socket import network_names

    if args.name is None:
        names = network_names()
        return Answer({"networks": names}, partial(print, "\n".join(names) or "no network is up"))
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # the prompt hears Ctrl-C more than once
    return give_prompt(args.name, sign=f"{args.name}> ")
