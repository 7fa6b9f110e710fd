"""What a command has started: its processes, and the namespaces that they live in."""

from __future__ import annotations

import os
from pathlib import Path

KINDS = ("net", "time", "mnt", "pid")


def descendants(pid: int) -> dict[int, str]:
    """Process -> its words, of all that came from that process."""
    parents, words = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                parents[int(entry.name)] = int(
                    (entry / "stat").read_text().rpartition(")")[2].split()[1]
                )
                words[int(entry.name)] = (
                    (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                )
            except (OSError, IndexError):
                continue
    found, new = set[int](), {pid}
    while new:
        found |= new
        new = {child for child, parent in parents.items() if parent in new} - found
    return {one: words.get(one, "") for one in found}


def namespaces(pids: dict[int, str]) -> set[str]:
    """Network, time, mount and process namespaces of the processes."""
    found = set()
    for pid in pids:
        for kind in KINDS:
            try:
                found.add(str(Path(f"/proc/{pid}/ns/{kind}").readlink()))
            except OSError:
                continue
    return found


def kept_namespaces(pids: dict[int, str], own: int) -> dict[str, int]:
    """Namespace -> an open file of it, of those of the processes that ``own`` is not in, for ``left_of``, which closes
    the files.

    While it is open no other namespace gets its number; otherwise a test beside this one would be taken for what is
    left.
    """
    found: dict[str, int] = {}
    others = namespaces({own: ""})
    for pid in pids:
        for kind in KINDS:
            try:
                file = os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY)
            except OSError:
                continue
            name = str(Path(f"/proc/self/fd/{file}").readlink())
            if name in others or name in found:
                os.close(file)
            else:
                found[name] = file
    return found


def machine_worker(there: dict[int, str], machine: str) -> int:
    """The Dask worker of that machine, of ``descendants``."""
    (worker,) = [
        pid
        for pid, words in there.items()
        if "local_worker" in words and f"{machine} " in words and "sandbox" not in words
    ]
    return worker


def left_of(there: dict[int, str], made: dict[str, int], own: int) -> tuple[list[int], set[str]]:
    """Processes of ``there`` that still are, but for our ``own``, and namespaces of ``made`` that some process still
    has."""
    everybody = {int(p.name): "" for p in Path("/proc").iterdir() if p.name.isdecimal()}
    left = made.keys() & namespaces(everybody)
    for file in made.values():
        os.close(file)
    return [pid for pid in there if Path(f"/proc/{pid}").exists() and pid != own], left
