"""What this machine can do for an emulated network: each ability tried out, never assumed, each lack with its mend.

The trials that need a network of their own run in a throw-away sandbox.
"""

from __future__ import annotations

import importlib.util
import shutil

from testbed.adapters.sandbox import in_sandbox, probe_sandbox
from testbed.adapters.switches import tun_obstacle

PROGRAMS = ("ovs-vswitchd", "ovsdb-server", "ovsdb-tool")
_SYSTEM_PATH = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"


def emulation_obstacle() -> str | None:
    """None where emulated networks can be run here, else what is missing and how to mend it, in one line.

    Takes about a tenth of a second; inside a sandbox it is always None.
    """
    if in_sandbox():
        return None
    missing = [name for name in PROGRAMS if find_program(name) is None]
    if missing:
        return f"Open vSwitch is not installed ({missing[0]} is missing); sudo apt-get install openvswitch-switch"
    if find_program("mnexec") is None:
        return "mnexec is not installed; sudo apt-get install mininet"
    if importlib.util.find_spec("mininet") is None:
        return "the Python package mininet is not installed; pip install mininet"
    refused = probe_sandbox()
    if refused is not None:
        return refused
    if not shutil.which("ovs-dpctl", path=_SYSTEM_PATH) or not _kernel_module_loaded():
        return tun_obstacle()
    return None


def find_program(name: str) -> str | None:
    """Full path of a program, system directories included even where an ordinary user's PATH leaves them out."""
    return shutil.which(name) or shutil.which(name, path=_SYSTEM_PATH)


def _kernel_module_loaded() -> bool:
    from pathlib import Path

    return Path("/sys/module/openvswitch").is_dir()
