"""A file of text or bytes, read whole but bounded, or a TopologyError that says why not; knows no network."""

from __future__ import annotations

import gzip
import io
import json
import os
import select
import stat
import zlib
from pathlib import Path

from topologies.errors import TopologyError

MAX_NETWORK_BYTES = 2**26
"""The largest file of a network, also after it is unpacked: 64 MiB."""
MAX_TEXT_BYTES = 2**28
"""The largest file of any other kind: 256 MiB."""
WRITER_MS = 5000
"""How long a pipe is waited for that nobody has opened to write into."""
_CHECK = "check the name and its permissions"


def read_text(path: Path, mend: str = _CHECK) -> str:
    """The text of a file in UTF-8; TopologyError says why there is none, and ``mend`` what to do about a file that is not there."""
    return utf8(read_bytes(path, mend, most=MAX_TEXT_BYTES))


def read_bytes(path: Path, mend: str = _CHECK, *, most: int, below: Path | None = None, plain: bool = False) -> bytes:
    """The content of a regular file or (not ``plain``) of a pipe, at most ``most`` bytes.

    ``below``: the file must lie in that folder or deeper, no symbolic link may lead out of it, and the file may be
    none. Raises TopologyError, whose text holds nothing of the content.
    """
    try:
        if below is not None and not path.resolve().is_relative_to(below.resolve()):
            raise TopologyError("it lies outside the folder of the file that names it; copy it there")
        if below is not None and path.is_symlink():
            raise TopologyError("it is a symbolic link; copy the file itself there")
        guard = os.O_NONBLOCK | (0 if below is None else os.O_NOFOLLOW)
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | guard)) as file:
            mode = os.fstat(file.fileno()).st_mode
            if not (stat.S_ISREG(mode) or (stat.S_ISFIFO(mode) and not plain)):
                raise TopologyError("it is no plain file; copy what it holds into one")
            first = _first_byte(file.fileno()) if stat.S_ISFIFO(mode) else b""
            content = first + file.read(most + 1)
    except (OSError, ValueError) as error:  # ValueError: a name with a zero byte
        if isinstance(error, TopologyError):
            raise
        raise TopologyError(f"cannot be read ({reason(error)}); {mend}") from error
    if len(content) > most:
        raise TopologyError(f"it is longer than {most} bytes; make it smaller")
    return content


def _first_byte(pipe: int) -> bytes:
    """The first byte of a pipe, none where its writer has not said one yet; from now on reading waits for the writer.
    TopologyError where there is no writer, or it said nothing."""
    waiting = select.poll()
    waiting.register(pipe, select.POLLIN)
    waiting.poll(WRITER_MS)
    try:
        first = os.read(pipe, 1)
        if not first:
            raise TopologyError("nothing comes out of this pipe; start what writes into it, or name a plain file")
    except BlockingIOError:
        first = b""
    os.set_blocking(pipe, True)
    return first


def unpacked(content: bytes) -> bytes:
    """What gzip packed, at most MAX_NETWORK_BYTES of it; other content as it is. TopologyError where it is damaged or
    too long."""
    if not content.startswith(b"\x1f\x8b"):
        return content
    try:
        found = gzip.GzipFile(fileobj=io.BytesIO(content)).read(MAX_NETWORK_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise TopologyError(f"damaged gzip file ({error}); pack it again") from error
    if len(found) > MAX_NETWORK_BYTES:
        raise TopologyError(f"it is longer than {MAX_NETWORK_BYTES} bytes when unpacked; make it smaller")
    return found


def text_of(content: bytes) -> str | None:
    """The text of content in UTF-8, UTF-16 or UTF-32; None where it is none of them."""
    try:
        return content.decode(json.detect_encoding(content))
    except UnicodeDecodeError:
        return None


def utf8(content: bytes) -> str:
    """The text of bytes in UTF-8, without its byte order mark."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TopologyError(f"not text in UTF-8 (byte {error.start}); save it as UTF-8") from error


def reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
