"""Files of a run that may lie packed: ``points.jsonl`` as ``points.jsonl.gz``, ``measurements.jsonl`` and ``figure-NAME.svg`` likewise.

Runs are written plain. ``pack_run`` packs one that is whole; whoever reads asks for the plain name and gets the text of either.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Container
from pathlib import Path

from testbed.errors import InputError
from topologies.files.formats import write_whole

PACKED = ".gz"
POINTS, MEASUREMENTS = "points.jsonl", "measurements.jsonl"
DRAWINGS = "figure-*.svg"


def is_there(path: Path) -> bool:
    """Whether the file is there, plain or packed."""
    return path.is_file() or _packed(path).is_file()


def read_packed(path: Path) -> str:
    """The text of the file of that plain name; bytes that are no UTF-8 are replaced.

    Raises InputError where the packed file is damaged, FileNotFoundError where there is neither.
    """
    if path.is_file():
        return path.read_text(encoding="utf-8", errors="replace")
    packed = _packed(path)
    try:
        return gzip.decompress(packed.read_bytes()).decode("utf-8", errors="replace")
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{packed}: {error}; the packed file is damaged, restore it or run the study again") from None


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
        plain = path.read_bytes()
        packed = gzip.compress(plain, 9, mtime=0)
        if path.name in leave or len(packed) >= len(plain):
            continue
        write_whole(_packed(path), packed)
        path.unlink()
        saved += len(plain) - len(packed)
    return saved


def forget_packed(path: Path) -> None:
    """Remove the packed form of a file that is written anew."""
    _packed(path).unlink(missing_ok=True)


def _packed(path: Path) -> Path:
    return path.with_name(path.name + PACKED)
