"""Runs that lie packed: the files of a whole run ``NAME/RUN/`` in one archive next to it, ``NAME/RUN.zip``.

Runs are written plain. ``pack_run`` packs one that is whole; whoever reads asks for the plain name in the run's folder
and gets the content of either. Runs of version 0.2 were packed by file (``points.jsonl.gz``); they are read as well.
"""

import contextlib
import io
import lzma
import re
import zipfile
import zlib
from collections.abc import Container, Iterator, Sequence
from pathlib import Path

from testbed.errors import InputError
from testbed.model.json_values import from_json, parse_json
from testbed.model.run_records import Manifest, manifest_from_json
from testbed.model.verdict import Verdict
from testbed.results import run_folder
from testbed.results.run_folder import bounded, open_plain, read_plain, read_unpacked, write_below
from topologies.files.formats import shortened
from topologies.text.text_file import reason

ARCHIVE, GZIP = ".zip", ".gz"
MANIFEST, VERDICT, PAGE = "manifest.json", "verdict.json", "page.html"
#: The digests of the other files of a run (testbed/results/digests.py).
SUMS = "SHA256SUMS"
POINTS, MEASUREMENTS = "points.jsonl", "measurements.jsonl"
DRAWINGS = "figure-*.svg"
MOST_OF_A_LINE = 32 << 20
"""Characters: what JSON makes of a line takes some thirty times its memory."""
MOST_OF_AN_ARCHIVE = 16 << 20
"""Bytes: the list of what an archive holds may take some twenty times its size in memory."""
# Far more files than any study has drawings.
_MAX_MEMBERS = 1000
# The memory that the values of a file may take. The largest run that is stored takes 15 MB.
_MAX_VALUES_BYTES = 512 << 20
# What Python needs for a value of JSON, by the sign that stands before it.
_BYTES_OF_VALUE = {"[": 88, "{": 232, ",": 40}


def is_there(path: Path) -> bool:
    """Whether the run has the file of that plain name, plain or packed."""
    return any(
        run_folder.is_there(place) for place in (path, _zipped(path))
    ) or path.name in _archived(path.parent)


def read_bytes(path: Path) -> bytes:
    """What the run's file of that plain name holds. Raises as ``read_plain``, and InputError where what holds it is
    damaged."""
    if run_folder.is_there(path):
        return read_plain(path)
    if path.name not in _archived(path.parent):
        return read_unpacked(_zipped(path))
    with _opened(_archive_of(path.parent)) as archive, archive.open(path.name) as file:
        return bounded(file, path)


def read_packed(path: Path) -> str:
    """``read_bytes`` as text; bytes that are no UTF-8 are replaced."""
    return read_bytes(path).decode("utf-8", errors="replace")


def read_lines(path: Path) -> list[str]:
    """Return the lines of a run's file without their ends, and what follows the last end.

    Raises:
        InputError: A line is longer than MOST_OF_A_LINE, or the values of the file would take more
            memory than the file of any run.
    """
    lines = read_packed(path).split("\n")
    values_bytes = 0
    for number, line in enumerate(lines, start=1):
        if len(line) > MOST_OF_A_LINE:
            raise InputError(
                f"{path}:{number}: a line of {len(line)} characters, which no run writes; leave it out"
            )
        values_bytes += _values_bytes(line)
        _refuse_beyond_limit(values_bytes, f"{path}:{number}")
    return lines


def _values_bytes(text: str) -> int:
    """Return an estimate of the memory that the values of a JSON text take in Python."""
    return sum(text.count(sign) * size for sign, size in _BYTES_OF_VALUE.items())


def _refuse_beyond_limit(values_bytes: int, where: str) -> None:
    if values_bytes > _MAX_VALUES_BYTES:
        raise InputError(
            f"{where}: its values take more than {_MAX_VALUES_BYTES >> 20} MiB of memory, "
            "as those of no run do; leave the file out"
        )


def read_json(path: Path, hint: str) -> object:
    """The JSON value of the file. InputError, which ends with ``mend``, where there is none."""
    try:
        content = read_bytes(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({reason(error)}); {hint}") from None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not text in UTF-8 (byte {error.start}); {hint}") from None
    _refuse_beyond_limit(_values_bytes(text), str(path))
    return parse_json(text, str(path), hint=hint)


def read_manifest(place: Path, hint: str) -> Manifest:
    """Of a run; InputError as ``read_json``, and for another format."""
    return manifest_from_json(read_json(place / MANIFEST, hint), str(place / MANIFEST))


def read_verdict(place: Path, hint: str) -> Verdict | None:
    """Of a run; None where it has none. InputError as ``read_json``."""
    file = place / VERDICT
    return from_json(Verdict, read_json(file, hint), str(file)) if is_there(file) else None


def drawings_of(place: Path) -> tuple[str, ...]:
    """The plain names of the drawings of a run, sorted."""
    comparison = {
        path.name.removesuffix(GZIP) for kind in ("", GZIP) for path in place.glob(DRAWINGS + kind)
    }
    return tuple(
        sorted(comparison | {name for name in _archived(place) if Path(name).match(DRAWINGS)})
    )


def runs_in(folder: Path) -> list[Path]:
    """Where the runs ``folder/RUN`` lie, or would if they were not packed, by name."""
    packed = {path.with_suffix("") for path in folder.glob("*" + ARCHIVE)}
    return sorted(
        {path.parent for path in folder.glob(f"*/{MANIFEST}")}
        | {p for p in packed if is_there(p / MANIFEST)}
    )


def named_run(path: Path) -> Path:
    """The folder of a run that is named by its archive; every other path as it is."""
    return path.with_suffix("") if path.suffix == ARCHIVE and run_folder.is_there(path) else path


def pack_run(place: Path, leave: Container[str] = ()) -> int:
    """Pack the files of a whole run but its page and the plain names in ``leave``; returns the bytes saved, 0 where it
    stays as it is.

    The same text gives the same bytes. A file is removed when the archive is on the disk, the folder when nothing is
    left in it.
    """
    every = (MANIFEST, VERDICT, POINTS, MEASUREMENTS, SUMS, *drawings_of(place))
    names = [name for name in every if name not in leave and is_there(place / name)]
    files = [
        path
        for name in names
        for path in (place / name, _zipped(place / name))
        if run_folder.is_there(path)
    ]
    target, content = _archive_of(place), io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name in names:
            archive.writestr(
                zipfile.ZipInfo(name), read_bytes(place / name), zipfile.ZIP_DEFLATED, 9
            )
    if not files or len(content.getvalue()) > MOST_OF_AN_ARCHIVE:
        return 0
    before = sum(path.lstat().st_size for path in (*files, target) if run_folder.is_there(path))
    write_below(target.parent, target.name, content.getvalue())
    for path in files:
        path.unlink()
    with contextlib.suppress(OSError):
        place.rmdir()
    return before - len(content.getvalue())


def _archive_of(place: Path) -> Path:
    return place.parent / (place.name + ARCHIVE)


def _zipped(path: Path) -> Path:
    return path.with_name(path.name + GZIP)


def _archived(place: Path) -> list[str]:
    """The names of what the run's archive holds; none where there is no archive."""
    if not place.name or not run_folder.is_there(_archive_of(place)):
        return []
    with _opened(_archive_of(place)) as archive:
        names = archive.namelist()
    _check_names(names, _archive_of(place))
    return names


def _check_names(names: Sequence[str], path: Path) -> None:
    """Raise InputError unless the names are plain file names, each once, and not too many.

    A name with a slash would lead out of the run's folder; of two files with one name, readers of
    archives disagree on which one counts.
    """
    if len(names) > _MAX_MEMBERS:
        raise InputError(f"{path}: {len(names)} files in it; the archive of a run has fewer")
    for name in names:
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,254}", name):
            raise InputError(
                f"{path}: a file in it is called {shortened(ascii(name))}; "
                "the archive of a run holds plain file names only"
            )
        if names.count(name) > 1:
            raise InputError(f"{path}: it holds {name} twice; pack the run again")


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    """The archive, to be read. InputError where it is none, is damaged, or is larger than one that ``pack_run``
    writes."""
    with open_plain(path) as file:
        if file.seek(0, io.SEEK_END) > MOST_OF_AN_ARCHIVE:
            raise InputError(
                f"{path}: an archive of more than {MOST_OF_AN_ARCHIVE >> 20} MiB, which no run is packed to"
            )
        try:
            with zipfile.ZipFile(file) as archive:
                yield archive
        except InputError:
            raise
        except (
            zipfile.BadZipFile,
            zlib.error,
            lzma.LZMAError,
            EOFError,
            OSError,
            RuntimeError,
            ValueError,
        ) as error:
            raise InputError(f"{path}: {error}; the archive is damaged, restore it") from None
