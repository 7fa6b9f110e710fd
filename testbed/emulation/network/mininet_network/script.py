"""Runs a Mininet script as it is, on Mininet's own life cycle with late classes: a program of its own, in the sandbox.

    python -m testbed.emulation.network.mininet_network.script SCRIPT [ARGUMENT...]
    python -m testbed.emulation.network.mininet_network.script -m MODULE [ARGUMENT...]

``mininet.net.Mininet`` is ``TestbedMininet`` before the script's first line; what it derives from Mininet's classes is
made late where the network takes it. /tmp and ~/.ssh/mn are the sandbox's own, because Mininet's clean-up deletes files
there; of the machine's /tmp the folders that the script needs are seen. Where the machine has no reference controller,
ours takes its name.
"""

import os
import runpy
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

from testbed.emulation.network.mininet_network import for_mn
from testbed.emulation.sandbox.sandbox import require_sandbox

_TEMPORARY = Path("/tmp")  # that of Mininet's clean-up
_PROJECT = Path(for_mn.__file__).parents[4]
_CONNECT_S = 5.0
_CONTROLLER = """#!/bin/sh
PYTHONPATH={root} exec {python} -P -m {module} serve "$@"
"""


def main(words: list[str]) -> None:
    """Run the script; what it raises is the caller's."""
    script = None if words[0] == "-m" else Path(words[0]).resolve()
    private = require_sandbox() / "tmp"
    folders = [
        Path(one).absolute()
        for name in ("PATH", "PYTHONPATH")
        for one in os.environ.get(name, "").split(":")
    ]
    folders += [
        Path.cwd(),
        Path(sys.prefix),
        _PROJECT,
        *((script.parent, script) if script else ()),
    ]
    _take_over_temporary_folder(private, sorted(folders))  # a folder before what it contains
    _hide(Path.home() / ".ssh/mn", private / "keys")
    if shutil.which("controller") is None:
        _give_controller(private / "bin")
    _replace_mininet()
    _give_nat_a_file(private / "interfaces")
    if script is None:
        sys.argv, sys.path[:0] = words[1:], [str(Path.cwd())]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv, sys.path[:0] = [words[0], *words[1:]], [str(script.parent)]
        runpy.run_path(str(script), run_name="__main__")


def _take_over_temporary_folder(private: Path, retained: list[Path]) -> None:
    """What is retained of the old folder is seen in the new one, in its place."""
    for path in retained:
        if (
            _TEMPORARY in path.parents
            and path.exists()
            and not (place := private / path.relative_to(_TEMPORARY)).exists()
        ):
            place.parent.mkdir(parents=True, exist_ok=True)
            place.mkdir() if path.is_dir() else place.touch()
            subprocess.run(["mount", "--bind", path, place], check=True)
    here = Path.cwd()
    subprocess.run(["mount", "--rbind", private, _TEMPORARY], check=True)
    os.chdir(here)


def _hide(folder: Path, empty: Path) -> None:
    """What Mininet's clean-up deletes in the machine's folder is not seen here."""
    if folder.is_dir():
        empty.mkdir(exist_ok=True)
        subprocess.run(["mount", "--bind", empty, folder], check=True)


def _give_controller(folder: Path) -> None:
    folder.mkdir()
    program = folder / "controller"
    program.write_text(
        _CONTROLLER.format(root=_PROJECT, python=sys.executable, module=for_mn.__name__)
    )
    program.chmod(0o755)
    os.environ["PATH"] += f":{folder}"


def _give_nat_a_file(interfaces: Path) -> None:
    """Mininet's NAT notes its interface in the machine's /etc/network/interfaces."""
    import mininet.nodelib

    interfaces.touch()
    mininet.nodelib.open = lambda _, mode="r": interfaces.open(mode)


def _replace_mininet() -> None:
    import mininet.clean
    import mininet.cli
    import mininet.net
    from mininet.node import OVSSwitch

    from testbed.emulation.network.mininet_network.net import ScriptedMininet
    from testbed.emulation.network.mininet_network.nodes import LateSwitch
    from testbed.emulation.network.mininet_network.requests import Requests
    from testbed.emulation.network.mininet_network.shell import LateShell

    class Mininet(ScriptedMininet):
        """Mininet as scripts know it."""

        def start(self) -> None:
            """A script that pings at once finds switches that have their rules."""
            super().start()
            if self.controllers and not self.waitConn:
                self.waitConnected(_CONNECT_S)

    class TypedCLI(mininet.cli.CLI):  # type: ignore[misc]
        """The prompt, whose user types what programs read."""

        def __init__(self, network: Mininet, *args: object, **options: object) -> None:
            for node in network.values():
                node.typed = sys.stdin.isatty()
            super().__init__(network, *args, **options)

    TypedCLI.__name__ = "CLI"
    LateShell.returns = True
    LateSwitch.numbered = False
    mininet.clean.Popen = partial(
        subprocess.Popen, stderr=subprocess.DEVNULL
    )  # Open vSwitch need not run
    # Some scripts ask for Open vSwitch before there is any.
    OVSSwitch.setup, OVSSwitch.OVSVersion = classmethod(lambda *_: None), LateSwitch.OVSVersion
    mininet.clean.addCleanupCallback(lambda: Requests.current.close() if Requests.current else None)
    mininet.net.Mininet, mininet.cli.CLI = Mininet, TypedCLI


if __name__ == "__main__":
    main(sys.argv[1:])
