"""Describes the machine and the software of a run, and finds programs."""

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

#: Folders of system programs, some of which an ordinary user's PATH may lack.
SYSTEM_PATH = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"

#: Python packages whose versions are recorded.
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

# Time limits of commands.
_COMMANDS_LIMIT_S = 10
_VERSION_LIMIT_S = 5


def find_program(name: str) -> str | None:
    """Return the full path of a program, even in a system folder that PATH lacks, or None."""
    return shutil.which(name) or shutil.which(name, path=SYSTEM_PATH)


@cache
def refusal(commands: str) -> str | None:
    """Return why shell commands fail in a network namespace of their own, or None if they work.

    Inside a sandbox they run in its network namespace. Each result is remembered.
    """
    new_namespace = [] if in_sandbox() else ["unshare", "-rn"]
    environment = {**os.environ, "PATH": f"{os.environ.get('PATH', '')}:{SYSTEM_PATH}"}
    argv = [*new_namespace, "sh", "-c", commands]
    try:
        finished = subprocess.run(
            argv,
            capture_output=True,
            text=True,
            timeout=_COMMANDS_LIMIT_S,
            check=False,
            env=environment,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{argv[0]}: {error}"
    if finished.returncode == 0:
        return None
    lines = finished.stderr.strip().splitlines()
    return lines[0] if lines else "refused"


def version_line(name: str) -> str:
    """Return the first line that a program prints about its version, without its name.

    It is empty if the program prints nothing or is missing.
    """
    argv = [find_program(name) or name, "--version"]
    try:
        finished = subprocess.run(
            argv, capture_output=True, text=True, timeout=_VERSION_LIMIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    if not finished.stdout:
        return ""
    return re.sub(r"^\S+ ", "", finished.stdout.splitlines()[0])


def describe_run(*, command: str, seed: int = 1, plans: Sequence[Json] = ()) -> Manifest:
    """Return the manifest of a run that starts now; the result store adds name, id and times.

    Args:
        command: The command line.
        seed: Seed of the run.
        plans: The plans of the run, as JSON values.
    """
    return Manifest(
        command=command,
        seed=seed,
        versions=software_versions(),
        machine=describe_machine(),
        plans=tuple(plans),
    )


def software_versions() -> dict[str, str]:
    """Return the versions of Python, of Open vSwitch and of ``PACKAGES``, if installed."""
    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        # The package is not installed.
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    switch_fields = version_line("ovs-vswitchd").split()
    if switch_fields:
        versions["openvswitch"] = switch_fields[-1]
    return versions


def describe_machine() -> JsonObject:
    """Return the cores of this process, memory in bytes, kernel, architecture and system."""
    pages = os.sysconf("SC_PHYS_PAGES")
    page_bytes = os.sysconf("SC_PAGE_SIZE")
    return {
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": pages * page_bytes,
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "system": _system_name(),
        "python": platform.python_version(),
    }


def _system_name() -> str:
    """Return the name of the distribution, or that of the operating system."""
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    except OSError:
        return platform.system()
