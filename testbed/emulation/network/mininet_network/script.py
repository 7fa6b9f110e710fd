"""Runs an unchanged Mininet script with late classes: a program of its own, in the sandbox.

    python -m testbed.emulation.network.mininet_network.script SCRIPT [ARGUMENT...]
    python -m testbed.emulation.network.mininet_network.script -m MODULE [ARGUMENT...]

``mininet.net.Mininet`` is replaced by ``TestbedMininet`` before the first line of the script. A
class that the script derives from Mininet's classes is made late when the network uses it.

/tmp and ~/.ssh/mn are replaced by directories of the sandbox, because Mininet's clean-up deletes
files there. Folders of the machine's /tmp that the script needs stay visible. If the machine has no
reference controller, the testbed's controller takes its name.
"""

import os
import runpy
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import IO

from testbed.emulation.network.mininet_network import for_mn
from testbed.emulation.sandbox.sandbox import require_sandbox

# Mininet's clean-up deletes files in this folder, whatever TMPDIR says.
_TEMPORARY = Path("/tmp")

_PROJECT = Path(for_mn.__file__).parents[4]

# Time for the switches to connect to their controllers.
_CONNECT_S = 5.0

# A program that takes the place of the reference controller.
_CONTROLLER = """#!/bin/sh
PYTHONPATH={root} exec {python} -P -m {module} serve "$@"
"""


def main(arguments: list[str]) -> None:
    """Run the script or module; its exceptions are passed on.

    Args:
        arguments: The script or ``-m MODULE``, and its arguments.
    """
    script = None if arguments[0] == "-m" else Path(arguments[0]).resolve()
    private = require_sandbox() / "tmp"
    # Sorted, so that a folder comes before its contents.
    _take_over_temporary_folder(private, sorted(_needed_paths(script)))
    _hide(Path.home() / ".ssh/mn", private / "keys")
    if shutil.which("controller") is None:
        _add_controller_to_path(private / "bin")
    _replace_mininet()
    _redirect_nat_file(private / "interfaces")
    if script is None:
        sys.argv = arguments[1:]
        sys.path.insert(0, str(Path.cwd()))
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = list(arguments)
        sys.path.insert(0, str(script.parent))
        runpy.run_path(str(script), run_name="__main__")


def _needed_paths(script: Path | None) -> list[Path]:
    """Return the folders and the file that the script needs."""
    paths = []
    for name in ("PATH", "PYTHONPATH"):
        for folder in os.environ.get(name, "").split(":"):
            paths.append(Path(folder).absolute())
    paths += [Path.cwd(), Path(sys.prefix), _PROJECT]
    if script is not None:
        paths += [script.parent, script]
    return paths


def _take_over_temporary_folder(private: Path, retained: list[Path]) -> None:
    """Mount a private folder over /tmp.

    Args:
        private: The private folder.
        retained: Paths in /tmp that stay visible in the private folder.
    """
    for path in retained:
        if _TEMPORARY not in path.parents or not path.exists():
            continue
        mount_point = private / path.relative_to(_TEMPORARY)
        # It exists if a folder that contains it is mounted already.
        if mount_point.exists():
            continue
        mount_point.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            mount_point.mkdir()
        else:
            mount_point.touch()
        subprocess.run(["mount", "--bind", path, mount_point], check=True)
    working_directory = Path.cwd()
    subprocess.run(["mount", "--rbind", private, _TEMPORARY], check=True)
    # The process is still in the old folder, which the mount covers.
    os.chdir(working_directory)


def _hide(folder: Path, empty: Path) -> None:
    """Mount an empty folder over one of the machine, so that Mininet's clean-up deletes nothing."""
    if folder.is_dir():
        empty.mkdir(exist_ok=True)
        subprocess.run(["mount", "--bind", empty, folder], check=True)


def _add_controller_to_path(folder: Path) -> None:
    """Add a program ``controller`` to PATH that runs the testbed's controller."""
    folder.mkdir()
    program = folder / "controller"
    program.write_text(
        _CONTROLLER.format(root=_PROJECT, python=sys.executable, module=for_mn.__name__)
    )
    program.chmod(0o755)
    os.environ["PATH"] += f":{folder}"


def _redirect_nat_file(interfaces: Path) -> None:
    """Let Mininet's NAT write to a private file, and not to /etc/network/interfaces."""
    import mininet.nodelib

    def open_private(_: object, mode: str = "r") -> IO[str]:
        return interfaces.open(mode)

    interfaces.touch()
    mininet.nodelib.open = open_private


def _replace_mininet() -> None:
    """Replace Mininet's network, its prompt, and what does not work in a sandbox."""
    import mininet.clean
    import mininet.cli
    import mininet.net
    from mininet.node import OVSSwitch

    from testbed.emulation.network.mininet_network.net import ScriptedMininet
    from testbed.emulation.network.mininet_network.nodes import LateSwitch
    from testbed.emulation.network.mininet_network.requests import Requests
    from testbed.emulation.network.mininet_network.shell import LateShell

    class Mininet(ScriptedMininet):
        """Mininet as scripts expect it."""

        def start(self) -> None:
            """Wait for the controllers, so that a script may ping at once."""
            super().start()
            if self.controllers and not self.waitConn:
                self.waitConnected(_CONNECT_S)

    class TypedCLI(mininet.cli.CLI):  # type: ignore[misc]
        """The prompt; on a terminal, its user also types the input of programs."""

        def __init__(self, network: Mininet, *args: object, **options: object) -> None:
            for node in network.values():
                node.typed = sys.stdin.isatty()
            super().__init__(network, *args, **options)

    def close_network() -> None:
        if Requests.current is not None:
            Requests.current.close()

    TypedCLI.__name__ = "CLI"
    LateShell.returns = True
    LateSwitch.numbered = False
    # Mininet's clean-up would print errors, because no system-wide Open vSwitch runs.
    mininet.clean.Popen = partial(subprocess.Popen, stderr=subprocess.DEVNULL)
    # Some scripts query Open vSwitch before it runs.
    OVSSwitch.setup = classmethod(lambda *_: None)
    OVSSwitch.OVSVersion = LateSwitch.OVSVersion
    mininet.clean.addCleanupCallback(close_network)
    mininet.net.Mininet = Mininet
    mininet.cli.CLI = TypedCLI


if __name__ == "__main__":
    main(sys.argv[1:])
