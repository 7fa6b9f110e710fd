"""Packed runs: the files of a complete run ``NAME/RUN/`` in an archive ``NAME/RUN.zip`` beside it.

Runs are written without compression. ``pack_run`` packs a complete run. Readers ask for a plain
name in the run's folder, and get the content from the folder or from the archive. Version 0.2
packed each file by itself (``points.jsonl.gz``); such runs can be read too.
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

ARCHIVE = ".zip"
GZIP = ".gz"

# Names of the files of a run.
MANIFEST = "manifest.json"
VERDICT = "verdict.json"
PAGE = "page.html"
# The digests of the other files (testbed/results/digests.py).
SUMS = "SHA256SUMS"
POINTS = "points.jsonl"
MEASUREMENTS = "measurements.jsonl"
DRAWINGS = "figure-*.svg"

# Largest number of characters of a line. The values of its JSON take some thirty times its memory.
MAX_LINE_BYTES = 32 << 20
# Largest number of bytes of an archive. Its list of files may take some twenty times its size.
MAX_ARCHIVE_BYTES = 16 << 20
# Far more files than any study has drawings.
_MAX_MEMBERS = 1000
# The memory that the values of a file may take. The largest run that is stored takes 15 MB.
_MAX_VALUES_BYTES = 512 << 20
# What Python needs for a value of JSON, by the sign that stands before it.
_BYTES_OF_VALUE = {"[": 88, "{": 232, ",": 40}


def path_exists(path: Path) -> bool:
    """Return whether a run has a file, plain or packed.

    Args:
        path: The plain name of the file in the run's folder.
    """
    if run_folder.path_exists(path) or run_folder.path_exists(_gzipped(path)):
        return True
    return path.name in _archived(path.parent)


def read_bytes(path: Path) -> bytes:
    """Return the content of a run's file, plain or packed.

    Args:
        path: The plain name of the file in the run's folder.

    Raises:
        FileNotFoundError: There is no such file.
        InputError: The file is not a plain file, cannot be read, is too large, or is damaged.
    """
    if run_folder.path_exists(path):
        return read_plain(path)
    if path.name not in _archived(path.parent):
        return read_unpacked(_gzipped(path))
    with _opened(_archive_of(path.parent)) as archive, archive.open(path.name) as file:
        return bounded(file, path)


def read_packed(path: Path) -> str:
    """Return the text of a run's file, plain or packed. Bytes that are not UTF-8 are replaced."""
    return read_bytes(path).decode("utf-8", errors="replace")


def read_lines(path: Path) -> list[str]:
    """Return the lines of a run's file without their ends, and the text after the last end.

    Raises:
        InputError: A line is longer than MAX_LINE_BYTES, or the values of the file would take more
            memory than the file of any run.
    """
    lines = read_packed(path).split("\n")
    values_bytes = 0
    for number, line in enumerate(lines, start=1):
        if len(line) > MAX_LINE_BYTES:
            raise InputError(
                f"{path}:{number}: a line of {len(line)} characters, which no run writes; "
                "leave it out"
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
    """Return the JSON value of a run's file, plain or packed.

    Args:
        path: The plain name of the file in the run's folder.
        hint: How errors end.

    Raises:
        InputError: The file cannot be read or is not JSON.
    """
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


def read_manifest(directory: Path, hint: str) -> Manifest:
    """Return the manifest of a run.

    Args:
        directory: The run's folder.
        hint: How errors end.

    Raises:
        InputError: The manifest cannot be read, or has another format.
    """
    file = directory / MANIFEST
    return manifest_from_json(read_json(file, hint), str(file))


def read_verdict(directory: Path, hint: str) -> Verdict | None:
    """Return the verdict of a run, or None if it has none.

    Args:
        directory: The run's folder.
        hint: How errors end.

    Raises:
        InputError: The verdict cannot be read.
    """
    file = directory / VERDICT
    if not path_exists(file):
        return None
    return from_json(Verdict, read_json(file, hint), str(file))


def drawings_of(directory: Path) -> tuple[str, ...]:
    """Return the plain names of a run's drawings, sorted."""
    paths = [*directory.glob(DRAWINGS), *directory.glob(DRAWINGS + GZIP)]
    names = {path.name.removesuffix(GZIP) for path in paths}
    names.update(name for name in _archived(directory) if Path(name).match(DRAWINGS))
    return tuple(sorted(names))


def runs_in(folder: Path) -> list[Path]:
    """Return the directories of the runs in a folder, sorted. A packed run need not have one."""
    directories = {path.parent for path in folder.glob(f"*/{MANIFEST}")}
    for archive in folder.glob("*" + ARCHIVE):
        directory = archive.with_suffix("")
        if path_exists(directory / MANIFEST):
            directories.add(directory)
    return sorted(directories)


def named_run(path: Path) -> Path:
    """Return the directory of a run that is named by its archive, or any other path unchanged."""
    if path.suffix == ARCHIVE and run_folder.path_exists(path):
        return path.with_suffix("")
    return path


def pack_run(directory: Path, leave: Container[str] = ()) -> int:
    """Pack the files of a complete run, except its page.

    The same texts give the same bytes. The files are removed when the archive is on the disk, and
    the folder if it is empty then.

    Args:
        directory: The run's folder.
        leave: Plain names of files that are not packed.

    Returns:
        The number of bytes saved, or 0 if the run is not packed.
    """
    candidates = (MANIFEST, VERDICT, POINTS, MEASUREMENTS, SUMS, *drawings_of(directory))
    names = [name for name in candidates if name not in leave and path_exists(directory / name)]
    files = []
    for name in names:
        for path in (directory / name, _gzipped(directory / name)):
            if run_folder.path_exists(path):
                files.append(path)
    target = _archive_of(directory)
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name in names:
            archive.writestr(
                zipfile.ZipInfo(name), read_bytes(directory / name), zipfile.ZIP_DEFLATED, 9
            )
    archive_bytes = len(content.getvalue())
    if not files or archive_bytes > MAX_ARCHIVE_BYTES:
        return 0
    replaced = [path for path in (*files, target) if run_folder.path_exists(path)]
    bytes_before = sum(path.lstat().st_size for path in replaced)
    write_below(target.parent, target.name, content.getvalue())
    for path in files:
        path.unlink()
    # The folder stays if it contains a page or other files.
    with contextlib.suppress(OSError):
        directory.rmdir()
    return bytes_before - archive_bytes


def _archive_of(directory: Path) -> Path:
    return directory.parent / (directory.name + ARCHIVE)


def _gzipped(path: Path) -> Path:
    return path.with_name(path.name + GZIP)


def _archived(directory: Path) -> list[str]:
    """Return the names of the files in a run's archive, or none if there is no archive."""
    path = _archive_of(directory)
    if not directory.name or not run_folder.path_exists(path):
        return []
    with _opened(path) as archive:
        names = archive.namelist()
    _check_names(names, path)
    return names


def _check_names(names: Sequence[str], path: Path) -> None:
    """Raise InputError unless the names are plain file names, each once, and not too many.

    A name with a slash could lead out of the run's folder. If two files have the same name, readers
    of archives disagree on which one counts.
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
    """Open an archive for reading.

    Raises:
        InputError: The file is not an archive, is damaged, or is larger than ``pack_run`` writes.
    """
    with open_plain(path) as file:
        if file.seek(0, io.SEEK_END) > MAX_ARCHIVE_BYTES:
            raise InputError(
                f"{path}: an archive of more than {MAX_ARCHIVE_BYTES >> 20} MiB, "
                "which no run is packed to"
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
