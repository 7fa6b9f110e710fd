"""``testbed exec RUN HOST -- CMD``: a program in a host of a network that another process holds up."""

import argparse
from contextlib import suppress

from testbed.errors import InputError
from testbed.model.naming.names import read_node
from topologies import Json, Network, Node

DESCRIPTION = (
    "Run a program in a host of a network that testbed up, testbed run or a Python session holds up. "
    "Terminal, pipes, signals and exit code are the program's; a switch's name runs it where ovs-ofctl works."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Those of the command."""
    parser.add_argument(
        "name", metavar="NAME", help="the network's name (testbed attach lists those that are up)"
    )
    parser.add_argument("host", metavar="HOST", help="a host or switch, as the network calls it")
    parser.add_argument(
        "words", metavar="-- CMD", nargs=argparse.REMAINDER, help="the program and its arguments"
    )


def run(args: argparse.Namespace) -> int:
    """Exit code: the program's; 2 where there is no such network, host or program."""
    from testbed.emulation.attach.client import exec_program, send_request

    words = args.words[1:] if args.words[:1] == ["--"] else args.words
    if not words:
        raise InputError("say what to run: testbed exec RUN HOST -- CMD")
    described = send_request(
        args.name, {"do": "describe"}
    ).header  # a network that is not up is reported in our words
    exec_program(args.name, known_host(args.host, described), words)
    return 0


def known_host(text: str, described: Json) -> str:
    """The host or switch of a network's description that the text names; the text itself where that is none, or not one
    alone."""
    names = [one["name"] for kind in ("hosts", "switches") for one in described[kind]]
    nodes = tuple(Node(id=name, kind="host") for name in names)
    with suppress(InputError):
        return read_node(text, Network(name=described["network"], nodes=nodes, links=()))
    return text
