"""Paths of striped files as fsspec has them: names with ";", and where what is copied goes."""

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
    found: list[str],
    target: str | list[str],
    isdir: Callable[[str], bool],
    *,
    literal: bool,
) -> list[str]:
    """Where what was found of `source` goes, as fsspec has it, but that it takes names at the top, which have no slash,
    for the folder they are in. `literal`: the source is no pattern."""
    if isinstance(target, list) or not found:
        return list(target) if found else []
    into = False
    if isinstance(source, str) and has_magic(source) and not literal:
        into = len(found) == 1
    elif isinstance(source, str):
        into = (target.endswith("/") or isdir(target)) and not source.endswith("/")
    named = other_paths(
        [f"/{name}" for name in found], target, exists=into, flatten=isinstance(source, list)
    )
    return list(named)


def check_path(path: str) -> None:
    """Raises `OSError` for what no file can be called, as the operating system has it."""
    try:
        pieces = [encode_path(piece) for piece in path.split("/")]
    except UnicodeEncodeError:  # half of a character
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
    """The path without ";", which parts the subfiles of a name: it becomes "%3B" (and what looks so, "%253B").

    >>> escape("50%;a"), unescape(escape("%3B;")), escape("%3B")
    ('50%%3Ba', '%3B;', '%253B')
    """
    return re.sub(r"%((?:25)*3B)", r"%25\1", path).replace(";", "%3B")


def unescape(name: str) -> str:
    return re.sub(r"%25((?:25)*3B)|%3B", lambda found: f"%{found[1]}" if found[1] else ";", name)
