"""``testbed python SCRIPT``: runs an unchanged Mininet script in a sandbox.

The testbed creates the script's networks in batches.
"""

import argparse
import os
import sys
from pathlib import Path

from testbed.errors import InputError

_MODULE = "testbed.emulation.network.mininet_network."


DESCRIPTION = (
    "Run a Python script that uses Mininet, unchanged and without root. Its networks are built "
    "in a sandbox, which ends with the script. The script gets the terminal, pipes and signals "
    "of this command, and its exit code is returned."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "--mn",
        action="store_true",
        help="print the path of the file for mn --custom, and exit",
    )
    parser.add_argument(
        "-m",
        dest="module",
        action="store_true",
        help="run the module that SCRIPT names, as python -m does",
    )
    parser.add_argument(
        "script",
        metavar="SCRIPT",
        nargs="?",
        help="Python file that uses Mininet",
    )
    parser.add_argument(
        "words",
        metavar="ARGUMENT",
        nargs=argparse.REMAINDER,
        help="arguments of the script",
    )


def run(args: argparse.Namespace) -> int:
    """Become the script, whose exit code is that of the command.

    Raises:
        InputError: There is no such script.
    """
    from testbed.emulation.sandbox.sandbox import sandbox_command

    if args.mn:
        print(Path(__file__).parents[2] / "emulation/network/mininet_network/for_mn.py")
        return 0
    if args.script is None or not (args.module or Path(args.script).is_file()):
        raise InputError(
            f"{args.script or 'SCRIPT'}: no such file; give a Python file that uses Mininet"
        )
    script = ["-m", args.script] if args.module else [args.script]
    command = sandbox_command(
        [sys.executable, "-P", "-m", _MODULE + "script", *script, *args.words]
    )
    # The buffered output would be lost.
    sys.stdout.flush()
    os.execv(command[0], command)
    return 0  # os.execv does not return
