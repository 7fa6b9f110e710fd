"""Keys of JSON that are printed under a second name."""

from functools import cache
from pathlib import Path


@cache
def _rows() -> list[list[str]]:
    """Return the command, the key in the document and the second name of each row of ``renames.tsv``."""
    table = Path(__file__).with_name("renames.tsv").read_text(encoding="utf-8")
    return [row.split("\t") for row in table.splitlines()[1:]]


def renames(command: str) -> dict[str, str]:
    """Return key in the document -> second name, of a command.

    >>> renames("stream, mobility")["reacted"]
    'sender_reacted'
    """
    return {was: now for who, was, now in _rows() if who == command}
