"""Paths of striped files in fsspec: names with ";", and the targets of copies."""

import errno
import os
import re
from collections.abc import Callable

from fsspec.core import has_magic
from fsspec.utils import other_paths

from sfio_emu.message_bodies import MAX_PATH_BYTES, encode_path
from sfio_emu.names import MAX_PIECE_BYTES


def targets(
    source: str | list[str],
    expanded: list[str],
    target: str | list[str],
    isdir: Callable[[str], bool],
    *,
    literal: bool,
) -> list[str]:
    """Return the path to which each file is copied, by the rules of fsspec.

    fsspec's own function mistakes a name without a slash for the folder that contains the file.
    This function therefore puts a slash in front of every name.

    Args:
        source: The path or pattern to copy, or a list of these.
        expanded: The files and folders that the source names, after patterns are expanded.
        target: The path to copy to, or a list of these.
        isdir: Returns whether a target is a folder.
        literal: Whether "*", "?" and "[" in the source are ordinary characters.
    """
    if not expanded:
        return []
    if isinstance(target, list):
        return list(target)
    into_folder = False
    if isinstance(source, str) and has_magic(source) and not literal:
        into_folder = len(expanded) == 1
    elif isinstance(source, str):
        into_folder = (target.endswith("/") or isdir(target)) and not source.endswith("/")
    target_paths = other_paths(
        [f"/{name}" for name in expanded],
        target,
        exists=into_folder,
        flatten=isinstance(source, list),
    )
    return list(target_paths)


def check_path(path: str) -> None:
    """Raise the OSError of the operating system if no file can have this path."""
    try:
        pieces = [encode_path(piece) for piece in path.split("/")]
    except UnicodeEncodeError:
        # The path has a lone surrogate. It is refused like a path with a zero byte.
        pieces = [b"\0"]
    number = 0
    if b".." in pieces:
        number = errno.EACCES
    elif any(b"\0" in piece for piece in pieces):
        number = errno.EINVAL
    elif len(b"/".join(pieces)) > MAX_PATH_BYTES or max(map(len, pieces)) > MAX_PIECE_BYTES:
        number = errno.ENAMETOOLONG
    if number:
        raise OSError(number, os.strerror(number), path)


def escape(path: str) -> str:
    """Replace ";", which separates the subfiles of a name, by "%3B".

    Names that contain "%3B" themselves get "%253B" instead of it.

    >>> escape("50%;a"), unescape(escape("%3B;")), escape("%3B")
    ('50%%3Ba', '%3B;', '%253B')
    """
    return re.sub(r"%((?:25)*3B)", r"%25\1", path).replace(";", "%3B")


def unescape(name: str) -> str:
    """Undo `escape`."""

    def original(match: re.Match[str]) -> str:
        return f"%{match[1]}" if match[1] else ";"

    return re.sub(r"%25((?:25)*3B)|%3B", original, name)
