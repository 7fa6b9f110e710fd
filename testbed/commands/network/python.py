"""``testbed python SCRIPT``: a Mininet script as it is, on the testbed's batches in a sandbox of its own."""

import argparse
import os
import sys
from pathlib import Path

from testbed.errors import InputError

_MODULE = "testbed.emulation.network.mininet_network."


DESCRIPTION = (
    "Run a Python script that uses Mininet, unchanged and without root: its networks are built in "
    "batches in a sandbox that goes with it. Terminal, pipes, signals and exit code are the script's."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Those of the command."""
    parser.add_argument("--mn", action="store_true", help="print the file for mn --custom, and end")
    parser.add_argument(
        "-m", dest="module", action="store_true", help="SCRIPT is the name of a module"
    )
    parser.add_argument("script", metavar="SCRIPT", nargs="?", help="a Python file")
    parser.add_argument(
        "words", metavar="ARGUMENT", nargs=argparse.REMAINDER, help="the script's own arguments"
    )


def run(args: argparse.Namespace) -> int:
    """Exit code: the script's; 2 where there is none."""
    from testbed.emulation.sandbox.sandbox import sandbox_command

    if args.mn:
        print(Path(__file__).parents[2] / "emulation/network/mininet_network/for_mn.py")
        return 0
    if args.script is None or not (args.module or Path(args.script).is_file()):
        raise InputError(
            f"{args.script or 'SCRIPT'}: no such file; give a Python file that uses Mininet"
        )
    words = ["-m"] * args.module + [args.script, *args.words]
    command = sandbox_command([sys.executable, "-P", "-m", _MODULE + "script", *words])
    sys.stdout.flush()
    os.execv(command[0], command)
