"""Files of a run that may lie packed: ``points.jsonl`` as ``points.jsonl.gz``, ``measurements.jsonl`` and ``figure-NAME.svg`` likewise.

Runs are written plain. ``pack_run`` packs one that is whole; whoever reads asks for the plain name and gets the text of either.
"""

from __future__ import annotations

import gzip
from collections.abc import Container
from pathlib import Path

from testbed.errors import InputError
from testbed.results import run_folder
from testbed.results.run_folder import read_plain, read_unpacked, write_below

PACKED = ".gz"
POINTS, MEASUREMENTS = "points.jsonl", "measurements.jsonl"
DRAWINGS = "figure-*.svg"
MOST_OF_A_LINE = 32 << 20
"""Characters: what JSON makes of a line takes some thirty times its memory."""


def is_there(path: Path) -> bool:
    """Whether the file is there, plain or packed."""
    return run_folder.is_there(path) or run_folder.is_there(_packed(path))


def read_packed(path: Path) -> str:
    """The text of the file of that plain name; bytes that are no UTF-8 are replaced.

    Raises as ``read_plain``, and InputError where the packed file is damaged.
    """
    content = read_plain(path) if run_folder.is_there(path) else read_unpacked(_packed(path))
    return content.decode("utf-8", errors="replace")


def read_lines(path: Path) -> list[str]:
    """``read_packed`` by lines, without their ends; the last is what follows the last end. InputError for a line beyond MOST_OF_A_LINE."""
    lines = read_packed(path).split("\n")
    for number, line in enumerate(lines, start=1):
        if len(line) > MOST_OF_A_LINE:
            raise InputError(f"{path}:{number}: a line of {len(line)} characters, which no run writes; leave it out")
    return lines


def drawings_of(place: Path) -> tuple[str, ...]:
    """The plain names of the drawings of a run, sorted."""
    found = {path.name.removesuffix(PACKED) for kind in ("", PACKED) for path in place.glob(DRAWINGS + kind)}
    return tuple(sorted(found))


def pack_run(place: Path, leave: Container[str] = ()) -> int:
    """Pack points or measurements and drawings of a whole run, but for the plain names in ``leave``; returns the bytes saved.

    The same text gives the same bytes. A file is removed when its packed form is on the disk.
    """
    saved = 0
    for path in [*place.glob(POINTS), *place.glob(MEASUREMENTS), *sorted(place.glob(DRAWINGS))]:
        plain = read_plain(path)
        packed = gzip.compress(plain, 9, mtime=0)
        if path.name in leave or len(packed) >= len(plain):
            continue
        write_below(place, _packed(path).name, packed)
        path.unlink()
        saved += len(plain) - len(packed)
    return saved


def forget_packed(path: Path) -> None:
    """Remove the packed form of a file that is written anew."""
    _packed(path).unlink(missing_ok=True)


def _packed(path: Path) -> Path:
    return path.with_name(path.name + PACKED)
