"""What a run was made with and on: versions of the software, the machine, its memory and kernel; where its
programs lie."""

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from testbed.emulation.sandbox.sandbox import in_sandbox
from testbed.model.run_records import Manifest
from topologies.text.json_types import Json, JsonObject

SYSTEM_PATH = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"


def find_program(name: str) -> str | None:
    """Full path of a program, system directories included even where an ordinary user's PATH leaves them out."""
    return shutil.which(name) or shutil.which(name, path=SYSTEM_PATH)


@cache
def refusal(commands: str) -> str | None:
    """Why the shell's commands do not work in a network namespace of their own (a sandbox is one), None where they
    do."""
    apart = [] if in_sandbox() else ["unshare", "-rn"]
    path = {**os.environ, "PATH": f"{os.environ.get('PATH', '')}:{SYSTEM_PATH}"}
    words = [*apart, "sh", "-c", commands]
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=10, check=False, env=path
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{words[0]}: {error}"
    return (done.stderr.strip().splitlines() or ["refused"])[0] if done.returncode else None


def version_line(name: str) -> str:
    """The first line of what a program says of its version, without its own name; "" where it does not say."""
    try:
        words = [find_program(name) or name, "--version"]
        said = subprocess.run(words, capture_output=True, text=True, timeout=5, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return re.sub(r"^\S+ ", "", said.splitlines()[0]) if said else ""


PACKAGES = (
    "parallel-communications-testbed",
    "mininet",
    "networkx",
    "numba",
    "numpy",
    "os-ken",
    "scapy",
    "scipy",
)


def describe_run(*, command: str, seed: int = 1, plans: Sequence[Json] = ()) -> Manifest:
    """The manifest of a run that starts now on this machine; the result store adds name, run id and times."""
    return Manifest(
        command=command,
        seed=seed,
        versions=software_versions(),
        machine=describe_machine(),
        plans=tuple(plans),
    )


def software_versions() -> dict[str, str]:
    """Package -> version, for those that are installed; ``openvswitch`` and ``python`` among them."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    switch = version_line("ovs-vswitchd").split()
    return found | ({"openvswitch": switch[-1]} if switch else {})


def describe_machine() -> JsonObject:
    """Cores this process may use, memory in bytes, kernel, architecture, Python."""
    pages, page_bytes = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return {
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": pages * page_bytes,
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "system": _system_name(),
        "python": platform.python_version(),
    }


def _system_name() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    except OSError:
        return platform.system()
