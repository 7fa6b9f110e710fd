"""JSON from files and text to values, and back: the one place that says what is wrong with a file of JSON, and where."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from testbed.errors import InputError
from topologies import formats, node_link
from topologies.errors import TopologyError


def read_json(path: str | Path, where: str = "", *, mend: str = "name a JSON file") -> Any:
    """The value of a JSON file. InputError, which begins with ``where`` (the path, if empty) and ends with ``mend``, for a file
    that cannot be read or is no JSON.
    """
    with _located(where or str(path)):
        text = formats.read_text(Path(path), mend)
    return parse_json(text, where or str(path), mend=mend)


def read_text(path: str | Path, *, mend: str = "check the name and its permissions") -> str:
    """The text of a file in UTF-8; InputError, which begins with the path and ends with ``mend``, where it cannot be read."""
    with _located(str(path)):
        return formats.read_text(Path(path), mend)


def parse_json(text: str, where: str, *, mend: str = "") -> Any:
    """The value of a JSON text; InputError begins with ``where`` and ends with ``mend``."""
    with _located(where, mend):
        return node_link.parse_json(text)


@contextmanager
def _located(where: str, mend: str = "") -> Iterator[None]:
    """Errors of topologies as the testbed's own, with their place."""
    try:
        yield
    except TopologyError as error:
        raise InputError(f"{where}: {error}" + (f"; {mend}" if mend else "")) from None
