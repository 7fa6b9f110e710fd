"""The digests of a run's files, which reveal damaged files.

``SHA256SUMS`` has the format of the program ``sha256sum``: ``sha256sum -c SHA256SUMS`` in the
folder of a run checks them too. Page and drawings are not listed, because they can be drawn again
from the other files.
"""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from testbed.errors import InputError
from testbed.results.compressed_files import SUMS, path_exists, read_bytes
from testbed.results.run_folder import write_below

_HINT = "restore the file, or run the command again"


def write_digests(directory: Path, names: Iterable[str]) -> None:
    """Write the digests of these files of a run.

    Args:
        directory: The run's folder.
        names: Plain names of the files.
    """
    lines = [f"{_digest(directory / name)}  {name}\n" for name in sorted(names)]
    write_below(directory, SUMS, "".join(lines).encode())


def check_digests(directory: Path) -> None:
    """Compare the files of a finished run with their digests.

    Runs of earlier versions have no digests, and are accepted.

    Raises:
        InputError: A file is missing or damaged, or the list of digests is.
    """
    if not path_exists(directory / SUMS):
        return
    for name, digest in _read_digests(directory).items():
        if not path_exists(directory / name):
            raise InputError(f"{directory / name}: the file is missing; {_HINT}")
        if _digest(directory / name) != digest:
            raise InputError(
                f"{directory / name}: the file is not what the run wrote "
                f"({SUMS} has another digest); "
                f"{_HINT}"
            )


def _read_digests(directory: Path) -> dict[str, str]:
    """Return the digest of each file by its name."""
    digests = {}
    text = read_bytes(directory / SUMS).decode("utf-8", errors="replace")
    for number, line in enumerate(text.splitlines(), start=1):
        digest, separator, name = line.partition("  ")
        if len(digest) != 64 or not separator or not name or "/" in name:
            raise InputError(f"{directory / SUMS}:{number}: not a digest and a file name; {_HINT}")
        digests[name] = digest
    return digests


def _digest(path: Path) -> str:
    return hashlib.sha256(read_bytes(path)).hexdigest()
