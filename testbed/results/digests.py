"""The digests of a run's files, by which a damaged file is noticed.

``SHA256SUMS`` has the format of the program ``sha256sum``: ``sha256sum -c SHA256SUMS`` in the
folder of a run checks it as well. Page and drawings are not listed, because they are drawn again
from the other files.
"""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from testbed.errors import InputError
from testbed.results.compressed_files import SUMS, is_there, read_bytes
from testbed.results.run_folder import write_below

_HINT = "restore the file, or run the command again"


def write_digests(place: Path, names: Iterable[str]) -> None:
    """Write the digests of these files of a run."""
    lines = [f"{_digest(place / name)}  {name}\n" for name in sorted(names)]
    write_below(place, SUMS, "".join(lines).encode())


def check_digests(place: Path) -> None:
    """Compare the files of a finished run with their digests.

    A run of an earlier version has no digests, and passes.

    Raises:
        InputError: A file is missing or damaged, or the list of digests is.
    """
    if not is_there(place / SUMS):
        return
    for name, digest in _read_digests(place).items():
        if not is_there(place / name):
            raise InputError(f"{place / name}: the file is missing; {_HINT}")
        if _digest(place / name) != digest:
            raise InputError(
                f"{place / name}: the file is not what the run wrote ({SUMS} has another digest); "
                f"{_HINT}"
            )


def _read_digests(place: Path) -> dict[str, str]:
    digests = {}
    text = read_bytes(place / SUMS).decode("utf-8", errors="replace")
    for number, line in enumerate(text.splitlines(), start=1):
        digest, separator, name = line.partition("  ")
        if len(digest) != 64 or not separator or not name or "/" in name:
            raise InputError(f"{place / SUMS}:{number}: not a digest and a file name; {_HINT}")
        digests[name] = digest
    return digests


def _digest(path: Path) -> str:
    return hashlib.sha256(read_bytes(path)).hexdigest()
