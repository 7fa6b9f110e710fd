"""A file of text or bytes, read whole but bounded, or a TopologyError that says why not, and replaced whole; knows no
network."""

import contextlib
import errno
import gzip
import io
import json
import os
import secrets
import select
import stat
import zlib
from pathlib import Path
from typing import IO

from topologies.errors import TopologyError

MAX_NETWORK_BYTES = 2**26
"""The largest file of a network, also after it is unpacked: 64 MiB."""
MAX_TEXT_BYTES = 2**28
"""The largest file of any other kind: 256 MiB."""
_PART_BYTES = 2**20
WRITER_MS = 5000
"""How long a pipe is waited for that nobody has opened to write into."""
_CHECK = "check the name and its permissions"


def read_text(path: Path, hint: str = _CHECK) -> str:
    """The text of a file in UTF-8, UTF-16 or UTF-32; TopologyError says why there is none, and ``hint`` what to do of a
    file that is not there."""
    content = read_bytes(path, hint, most=MAX_TEXT_BYTES)
    return text_of(content) or utf8(content)


def read_bytes(
    path: Path, hint: str = _CHECK, *, most: int, below: Path | None = None, plain: bool = False
) -> bytes:
    """The content of a regular file or (not ``plain``) of a pipe, at most ``most`` bytes.

    ``below``: the file must lie in that folder or deeper, no symbolic link may lead out of it, and the file may be
    none. Raises TopologyError, whose text holds nothing of the content.
    """
    try:
        if below is not None and not path.resolve().is_relative_to(below.resolve()):
            raise TopologyError("it is outside the folder of the file that names it; copy it there")
        if below is not None and path.is_symlink():
            raise TopologyError("it is a symbolic link; copy the file itself there")
        guard = os.O_NONBLOCK | (0 if below is None else os.O_NOFOLLOW)
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | guard)) as file:
            mode = os.fstat(file.fileno()).st_mode
            if not (stat.S_ISREG(mode) or (stat.S_ISFIFO(mode) and not plain)):
                raise TopologyError("it is no plain file; copy what it holds into one")
            first = _first_byte(file.fileno()) if stat.S_ISFIFO(mode) else b""
            rest = read_at_most(file, most - len(first))
    except (OSError, ValueError) as error:  # ValueError: a name with a zero byte
        if isinstance(error, TopologyError):
            raise
        raise TopologyError(f"cannot be read ({reason(error)}); {hint}") from error
    if rest is None:
        raise TopologyError(f"it is longer than {most} bytes; make it smaller")
    return first + rest


def read_at_most(file: IO[bytes] | gzip.GzipFile, most: int) -> bytes | None:
    """All that the open file gives; None where that is more than ``most`` bytes. Memory grows with what comes."""
    content = bytearray()
    while part := file.read(_PART_BYTES):
        content += part
        if len(content) > most:
            return None
    return bytes(content)


def replace_file(folder: int, name: str, content: bytes) -> None:
    """Give the name in the open folder this content, whole or not at all, by a draft that is renamed over it: what
    stands there, a link too, is replaced and not followed. A file keeps its mode. OSError where that cannot be, and for
    a device."""
    draft = f".{name[:100]}.{secrets.token_hex(8)}"
    handle = os.open(
        draft,
        os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC,
        0o666,
        dir_fd=folder,
    )
    try:
        with os.fdopen(handle, "wb") as file:
            with contextlib.suppress(FileNotFoundError):
                old = os.stat(name, dir_fd=folder, follow_symlinks=False)
                if stat.S_ISREG(old.st_mode):
                    os.fchmod(file.fileno(), old.st_mode & 0o777)
                elif stat.S_ISCHR(old.st_mode) or stat.S_ISBLK(old.st_mode):
                    raise FileExistsError(errno.EEXIST, "it is a device")
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(draft, dir_fd=folder)
        raise


def _first_byte(pipe: int) -> bytes:
    """The first byte of a pipe, none where its writer has not said one yet; from now on reading waits for the writer.
    TopologyError where there is no writer, or it said nothing."""
    waiting = select.poll()
    waiting.register(pipe, select.POLLIN)
    waiting.poll(WRITER_MS)
    try:
        first = os.read(pipe, 1)
        if not first:
            raise TopologyError(
                "nothing comes out of this pipe; start what writes into it, or name a plain file"
            )
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
        found = read_at_most(gzip.GzipFile(fileobj=io.BytesIO(content)), MAX_NETWORK_BYTES)
    except (OSError, EOFError, zlib.error) as error:
        raise TopologyError(f"damaged gzip file ({error}); pack it again") from error
    if found is None:
        raise TopologyError(
            f"it is longer than {MAX_NETWORK_BYTES} bytes when unpacked; make it smaller"
        )
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
