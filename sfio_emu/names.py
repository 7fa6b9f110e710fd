"""The global name of a striped file: "host/path;host/path;", one part per subfile, in order.

There is no metafile. The name and the stripe unit are all that a program must know of a file
(Gabrielyan 2007, appendix A.1).
"""

from collections import Counter
from dataclasses import dataclass

from sfio_emu.errors import UsageError
from sfio_emu.message_bodies import MAX_PATH_BYTES, encode_path

# The longest name between two slashes. Linux file systems accept no longer one.
MAX_PIECE_BYTES = 255

# The maximum number of subfiles on one host: a listener lets a client open no more at once.
MAX_SUBFILES = 4096


@dataclass(frozen=True, kw_only=True, order=True)
class SubfileName:
    """The name of a subfile.

    Attributes:
        host: The name of the I/O node.
        path: The path below the root directory of its listener, without a leading slash.
    """

    host: str
    path: str

    def __str__(self) -> str:
        return f"{self.host}/{self.path}"


def parse_file_name(name: str) -> tuple[SubfileName, ...]:
    """Return the subfiles of "host/path;host/path;"; the last semicolon is optional.

    Raises:
        UsageError: The name is malformed. The message says which part is wrong.

    >>> [str(part) for part in parse_file_name("p1/tmp/a.txt;p2/tmp/a.txt;")]
    ['p1/tmp/a.txt', 'p2/tmp/a.txt']
    """
    if not isinstance(name, str):
        raise UsageError(
            "the name of a striped file is a str like 'p1/a.dat;p2/a.dat;', "
            f"not {type(name).__name__}"
        )
    parts = name.split(";")
    if parts and parts[-1] == "":
        parts.pop()
    if not parts:
        raise UsageError(
            "the name of the striped file is empty: write it as 'host/path;host/path;'"
        )
    subfiles = tuple(_parse_part(number, part) for number, part in enumerate(parts, 1))
    _check_numbers(subfiles)
    return subfiles


def _check_numbers(subfiles: tuple[SubfileName, ...]) -> None:
    """Check that a subfile occurs once, and that no host has too many."""
    subfiles_per_host = Counter(subfile.host for subfile in subfiles)
    host, count = subfiles_per_host.most_common(1)[0]
    if count > MAX_SUBFILES:
        raise UsageError(
            f"the file name has {count} subfiles on the host {host!r}: give at most {MAX_SUBFILES}"
        )
    earlier: set[SubfileName] = set()
    for number, subfile in enumerate(subfiles, 1):
        if subfile in earlier:
            raise UsageError(
                f"part {number} of the file name, {str(subfile)!r}, is given twice: "
                "give each subfile once"
            )
        earlier.add(subfile)


def _parse_part(number: int, part: str) -> SubfileName:
    """Parse "host/path".

    Args:
        number: The position of the part in the file name, from 1, for error messages.
        part: The text.
    """
    host, slash, path = part.partition("/")
    where = f"part {number} of the file name, {part!r},"
    if not part:
        raise UsageError(
            f"part {number} of the file name is empty: write 'host/path' between the semicolons"
        )
    pieces = [piece for piece in path.split("/") if piece not in ("", ".")]
    if not slash or not pieces:
        raise UsageError(f"{where} has no path: write 'host/path'")
    if not host:
        raise UsageError(f"{where} has no host: write 'host/path' without a leading slash")
    if host != host.strip() or any(character.isspace() for character in host):
        raise UsageError(f"{where} has a host with blanks: write 'host/path' without them")
    try:
        part.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise UsageError(
            f"{where} holds half of a character (a lone surrogate): write it whole"
        ) from None
    if "\0" in part:
        raise UsageError(f"{where} holds a zero byte: leave it out")
    if ".." in pieces:
        raise UsageError(f"{where} leaves the root of its I/O node: write a path without '..'")
    clean_path = "/".join(pieces)
    _check_lengths(number, clean_path, pieces)
    return SubfileName(host=host, path=clean_path)


def _check_lengths(number: int, path: str, pieces: list[str]) -> None:
    """Check the length of a path and of the names in it."""
    if len(encode_path(path)) > MAX_PATH_BYTES:
        raise UsageError(
            f"part {number} of the file name is longer than {MAX_PATH_BYTES} bytes: "
            "shorten its path"
        )
    if any(len(encode_path(piece)) > MAX_PIECE_BYTES for piece in pieces):
        raise UsageError(
            f"part {number} of the file name has a name longer than {MAX_PIECE_BYTES} bytes: "
            "shorten it"
        )
