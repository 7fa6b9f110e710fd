"""A file of text, read whole, or a TopologyError that says why not; knows no network."""

from __future__ import annotations

from pathlib import Path

from topologies.errors import TopologyError


def read_text(path: Path, mend: str = "check the name and its permissions") -> str:
    """The text of a file in UTF-8; TopologyError says why there is none, and ``mend`` what to do about a file that is not there."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TopologyError(f"not text in UTF-8 (byte {error.start}); save it as UTF-8") from error
    except (OSError, ValueError) as error:  # ValueError: a name with a zero byte
        raise TopologyError(f"cannot be read ({reason(error)}); {mend}") from error


def reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
