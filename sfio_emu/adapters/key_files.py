"""Where the key of a run lies: a file that only its owner may read, named in SFIO_KEY_FILE."""

import logging
import os
import secrets
from pathlib import Path

from sfio_emu.authentication import key_of_text
from sfio_emu.errors import UsageError

LOG = logging.getLogger("sfio_emu.authentication")
KEY_BYTES = 32
MAX_CHARACTERS = 1 << 16


def new_key() -> bytes:
    """A key that nobody can guess."""
    return secrets.token_bytes(KEY_BYTES)


def write_key(path: Path, key: bytes) -> None:
    """Put a key into a new file that only its owner may read; raises `OSError`."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(file, "w") as stream:
        stream.write(key.hex() + "\n")


def read_key(path: Path) -> bytes:
    """The key in a file; raises `UsageError`. Says so where others than its owner could have read it."""
    try:
        with path.open(errors="replace") as stream:
            text, status = stream.read(MAX_CHARACTERS), os.fstat(stream.fileno())
    except OSError as fault:
        raise UsageError(f"the key file {path} cannot be read: {fault.strerror}") from None
    if status.st_mode & 0o077 or status.st_uid not in (0, os.geteuid()):
        LOG.warning(
            "the key file %s is open to others: its owner should be you, chmod 600 %s", path, path
        )
    return key_of_text(text.strip(), f"the key file {path}")


def key_from_environment() -> bytes | None:
    """The key in the file that SFIO_KEY_FILE names; None where it names none."""
    name = os.environ.get("SFIO_KEY_FILE", "")
    return read_key(Path(name)) if name else None
