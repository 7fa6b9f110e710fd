"""Processes that a command has started, and their namespaces."""

from __future__ import annotations

import os
from pathlib import Path

KINDS = ("net", "time", "mnt", "pid")


def descendants(pid: int) -> dict[int, str]:
    """Return the command lines of the process and of all its descendants, by process id."""
    parents: dict[int, int] = {}
    command_lines: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            status = (entry / "stat").read_text().rpartition(")")[2]
            parents[int(entry.name)] = int(status.split()[1])
            argv = (entry / "cmdline").read_bytes()
        except (OSError, IndexError):
            # The process has ended meanwhile.
            continue
        command_lines[int(entry.name)] = argv.replace(b"\0", b" ").decode()
    family: set[int] = set()
    generation = {pid}
    while generation:
        family |= generation
        children = {child for child, parent in parents.items() if parent in generation}
        generation = children - family
    return {member: command_lines.get(member, "") for member in family}


def namespaces(pids: dict[int, str]) -> set[str]:
    """Return the network, time, mount and process namespaces of the processes."""
    names = set()
    for pid in pids:
        for kind in KINDS:
            try:
                names.add(str(Path(f"/proc/{pid}/ns/{kind}").readlink()))
            except OSError:
                continue
    return names


def kept_namespaces(pids: dict[int, str], outside_pid: int) -> dict[str, int]:
    """Open the namespaces of the processes, except those of ``outside_pid``.

    While a file is open, no other namespace gets its number. Otherwise a namespace of another test
    could be taken for a remaining one.

    Returns:
        An open file for each namespace. ``left_of`` closes the files.
    """
    files: dict[str, int] = {}
    outside_names = namespaces({outside_pid: ""})
    for pid in pids:
        for kind in KINDS:
            try:
                file = os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY)
            except OSError:
                continue
            name = str(Path(f"/proc/self/fd/{file}").readlink())
            if name in outside_names or name in files:
                os.close(file)
            else:
                files[name] = file
    return files


def machine_worker(processes: dict[int, str], machine: str) -> int:
    """Return the Dask worker of the machine among the ``descendants``."""
    (worker,) = [
        pid
        for pid, command_line in processes.items()
        if "local_worker" in command_line
        and f"{machine} " in command_line
        and "sandbox" not in command_line
    ]
    return worker


def left_of(
    processes: dict[int, str], namespace_files: dict[str, int], outside_pid: int
) -> tuple[list[int], set[str]]:
    """Return what remains of a command, and close the files of its namespaces.

    Args:
        processes: The processes that the command had.
        namespace_files: The result of ``kept_namespaces``.
        outside_pid: A process among them that may remain.

    Returns:
        The processes that still exist, and the namespaces that some process is still in.
    """
    all_processes = {
        int(path.name): "" for path in Path("/proc").iterdir() if path.name.isdecimal()
    }
    remaining_names = namespace_files.keys() & namespaces(all_processes)
    for file in namespace_files.values():
        os.close(file)
    remaining = [pid for pid in processes if Path(f"/proc/{pid}").exists() and pid != outside_pid]
    return remaining, remaining_names
