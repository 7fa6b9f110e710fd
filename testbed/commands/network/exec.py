"""``testbed exec RUN HOST -- CMD``: runs a program in a host of a network of another process."""

import argparse
from contextlib import suppress

from testbed.errors import InputError
from testbed.model.naming.names import read_node
from topologies import Json, Network, Node

DESCRIPTION = (
    "Run a program in a host of a network that is running in testbed up, testbed run or a "
    "Python session. The program gets the terminal, pipes and signals of this command, and its "
    "exit code is returned. In a switch, the program runs where ovs-ofctl works."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "name",
        metavar="NAME",
        help="name of a running network (testbed attach lists them)",
    )
    parser.add_argument(
        "host",
        metavar="HOST",
        help="name of a host or switch of the network",
    )
    parser.add_argument(
        "words",
        metavar="-- CMD",
        nargs=argparse.REMAINDER,
        help="program to run, and its arguments",
    )


def run(args: argparse.Namespace) -> int:
    """Become the program, whose exit code is that of the command.

    Raises:
        InputError: There is no such network, or no program is named.
    """
    from testbed.emulation.attach.client import exec_program, send_request

    argv = args.words[1:] if args.words[:1] == ["--"] else args.words
    if not argv:
        raise InputError("say what to run: testbed exec RUN HOST -- CMD")
    # This request reports a network that is not up.
    description = send_request(args.name, {"do": "describe"}).header
    exec_program(args.name, resolve_host(args.host, description), argv)
    return 0


def resolve_host(text: str, described: Json) -> str:
    """Return the host or switch that a text names, or the text if it names none or several.

    Args:
        text: The name, as a user writes it.
        described: The description of a running network.
    """
    devices = [*described["hosts"], *described["switches"]]
    names = [device["name"] for device in devices]
    nodes = tuple(Node(id=name, kind="host") for name in names)
    with suppress(InputError):
        return read_node(text, Network(name=described["network"], nodes=nodes, links=()))
    return text
