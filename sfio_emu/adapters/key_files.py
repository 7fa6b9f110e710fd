"""The file with the key of a run, which only its owner may read. SFIO_KEY_FILE names it."""

import logging
import os
import secrets
from pathlib import Path

from sfio_emu.authentication import key_of_text
from sfio_emu.errors import UsageError

LOG = logging.getLogger("sfio_emu.authentication")
# The size of a new key.
KEY_BYTES = 32

# No more than this is read of a key file, in case the name is that of another file.
MAX_CHARACTERS = 1 << 16


def new_key() -> bytes:
    """Return a random key."""
    return secrets.token_bytes(KEY_BYTES)


def write_key(path: Path, key: bytes) -> None:
    """Write a key to a new file that only its owner may read.

    Raises:
        OSError: The file exists, or cannot be written.
    """
    # The permissions are set when the file is created, so that no one can open it before.
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(file, "w") as stream:
        stream.write(key.hex() + "\n")


def read_key(path: Path) -> bytes:
    """Return the key in a file. Log a warning if others than its owner could have read it.

    Raises:
        UsageError: The file cannot be read, or has no key.
    """
    try:
        with path.open(errors="replace") as stream:
            text = stream.read(MAX_CHARACTERS)
            status = os.fstat(stream.fileno())
    except OSError as fault:
        raise UsageError(f"the key file {path} cannot be read: {fault.strerror}") from None
    if status.st_mode & 0o077 or status.st_uid not in (0, os.geteuid()):
        LOG.warning(
            "the key file %s is open to others: its owner should be you, chmod 600 %s", path, path
        )
    return key_of_text(text.strip(), f"the key file {path}")


def key_from_environment() -> bytes | None:
    """Return the key in the file that SFIO_KEY_FILE names, or None if it is not set."""
    name = os.environ.get("SFIO_KEY_FILE", "")
    return read_key(Path(name)) if name else None
