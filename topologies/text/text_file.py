"""Reads and replaces files safely. Nothing here knows about networks.

Reading is bounded in size and time. Every failure is a TopologyError that says why a file cannot be
used. Replacing a file is atomic.
"""

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

# Maximum size of a network file, also after decompression: 64 MiB.
MAX_NETWORK_BYTES = 2**26
# Maximum size of a file of any other kind: 256 MiB.
MAX_TEXT_BYTES = 2**28
# Files are read in parts of this size; memory grows with the content and not with the limit.
_PART_BYTES = 2**20
# How long to wait, in ms, for a pipe that no program has opened for writing yet.
WRITER_MS = 5000
_CHECK = "check the name and its permissions"


def read_text(path: Path, hint: str = _CHECK) -> str:
    """Read a file whose text is in UTF-8, UTF-16 or UTF-32.

    Args:
        path: The file.
        hint: Advice for a file that cannot be opened.

    Raises:
        TopologyError: The file cannot be read, is too long, or is not text.
    """
    content = read_bytes(path, hint, limit_bytes=MAX_TEXT_BYTES)
    return text_of(content) or utf8(content)


def read_bytes(
    path: Path,
    hint: str = _CHECK,
    *,
    limit_bytes: int,
    folder: Path | None = None,
    plain: bool = False,
) -> bytes:
    """Read a regular file or a pipe.

    Args:
        path: The file.
        hint: Advice for a file that cannot be opened.
        limit_bytes: Maximum size.
        folder: If given, the file must be inside this folder at any depth, must not be a symbolic
            link, and no symbolic link on its path may lead out of the folder.
        plain: Whether to refuse pipes.

    Raises:
        TopologyError: The file cannot be read or is too long. The message contains nothing of its
            content.
    """
    # O_NONBLOCK: opening a pipe without a writer would block.
    guard = os.O_NONBLOCK
    try:
        if folder is not None:
            if not path.resolve().is_relative_to(folder.resolve()):
                raise TopologyError(
                    "it is outside the folder of the file that names it; copy it there"
                )
            if path.is_symlink():
                raise TopologyError("it is a symbolic link; copy the file itself there")
            guard |= os.O_NOFOLLOW
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | guard)) as file:
            mode = os.fstat(file.fileno()).st_mode
            is_pipe = stat.S_ISFIFO(mode)
            if not (stat.S_ISREG(mode) or (is_pipe and not plain)):
                raise TopologyError("it is not a regular file; copy its content into one")
            first = _first_byte(file.fileno()) if is_pipe else b""
            remaining = read_at_most(file, limit_bytes - len(first))
    # ValueError: the name contains a zero byte.
    except (OSError, ValueError) as error:
        if isinstance(error, TopologyError):
            raise
        raise TopologyError(f"cannot be read ({reason(error)}); {hint}") from error
    if remaining is None:
        raise TopologyError(f"it is longer than {limit_bytes} bytes; make it smaller")
    return first + remaining


def read_at_most(file: IO[bytes] | gzip.GzipFile, limit_bytes: int) -> bytes | None:
    """Read an open file to its end; return None if it has more bytes than the limit."""
    content = bytearray()
    while part := file.read(_PART_BYTES):
        content += part
        if len(content) > limit_bytes:
            return None
    return bytes(content)


def replace_file(folder: int, name: str, content: bytes) -> None:
    """Write a file atomically.

    The content is written to a draft, which is then renamed. A symbolic link of that name is
    replaced and not followed. An existing regular file keeps its mode.

    Args:
        folder: File descriptor of the open folder.
        name: Name of the file in the folder.
        content: The new content.

    Raises:
        OSError: The file cannot be written, or the name belongs to a device.
    """
    draft = f".{name[:100]}.{secrets.token_hex(8)}"
    handle = os.open(
        draft,
        os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC,
        0o666,
        dir_fd=folder,
    )
    try:
        with os.fdopen(handle, "wb") as file:
            # If there is no such file yet, there is no mode to keep.
            with contextlib.suppress(FileNotFoundError):
                old = os.stat(name, dir_fd=folder, follow_symlinks=False)
                if stat.S_ISREG(old.st_mode):
                    os.fchmod(file.fileno(), old.st_mode & 0o777)
                elif stat.S_ISCHR(old.st_mode) or stat.S_ISBLK(old.st_mode):
                    raise FileExistsError(errno.EEXIST, "it is a device")
            file.write(content)
            file.flush()
            # Before the rename: after a crash the name must not stand for an incomplete file.
            os.fsync(file.fileno())
        os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        # The error that led here matters more than a draft that cannot be removed.
        with contextlib.suppress(OSError):
            os.unlink(draft, dir_fd=folder)
        raise


def _first_byte(pipe: int) -> bytes:
    """Read the first byte of a pipe, and make later reads wait for its writer.

    Args:
        pipe: File descriptor, opened with O_NONBLOCK.

    Returns:
        No byte if the pipe has a writer that has not written anything yet.

    Raises:
        TopologyError: The pipe has no writer, or its writer closed it without writing.
    """
    poller = select.poll()
    poller.register(pipe, select.POLLIN)
    poller.poll(WRITER_MS)
    try:
        first = os.read(pipe, 1)
        if not first:
            raise TopologyError(
                "no program writes into this pipe; start it, or name a regular file"
            )
    except BlockingIOError:
        first = b""
    os.set_blocking(pipe, True)
    return first


def unpacked(content: bytes) -> bytes:
    """Decompress gzip content; return any other content unchanged.

    Raises:
        TopologyError: The gzip data is damaged, or longer than MAX_NETWORK_BYTES when unpacked.
    """
    if not content.startswith(b"\x1f\x8b"):
        return content
    try:
        decompressed = read_at_most(gzip.GzipFile(fileobj=io.BytesIO(content)), MAX_NETWORK_BYTES)
    except (OSError, EOFError, zlib.error) as error:
        raise TopologyError(f"damaged gzip file ({error}); pack it again") from error
    if decompressed is None:
        raise TopologyError(
            f"it is longer than {MAX_NETWORK_BYTES} bytes when unpacked; make it smaller"
        )
    return decompressed


def text_of(content: bytes) -> str | None:
    """Decode UTF-8, UTF-16 or UTF-32; return None if the content is in none of them."""
    try:
        return content.decode(json.detect_encoding(content))
    except UnicodeDecodeError:
        return None


def utf8(content: bytes) -> str:
    """Decode UTF-8, and remove the byte order mark if there is one.

    Raises:
        TopologyError: The content is not UTF-8.
    """
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TopologyError(f"not text in UTF-8 (byte {error.start}); save it as UTF-8") from error


def reason(error: Exception) -> str:
    """Return the text of an error, without the number and the file name of an OSError."""
    strerror = error.strerror if isinstance(error, OSError) else None
    return strerror or str(error)
