"""Subfiles on disk held against the layout that a striped file must have."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from testbed.striping.oracle import Bytes, expected_subfiles
from testbed.striping.placement import Placement

Nodes = Sequence[str] | None
"""Some of the I/O nodes; None: all."""


def verified_subfiles(content: Bytes, root: Path, placement: Placement, stripe_unit: int, here: Nodes = None) -> bool:
    """Whether every subfile ``root/<node>/data`` holds exactly its part of the content; ``here``: of these nodes
    only."""
    return all(_holds(path, part) for path, part in _parts(content, root, placement, stripe_unit, here))


def _holds(path: Path, expected: Bytes) -> bool:
    try:
        found = np.fromfile(path, dtype=np.uint8)
    except FileNotFoundError:
        return False
    return bool(np.array_equal(found, expected))


def write_subfiles(content: Bytes, root: Path, placement: Placement, stripe_unit: int, here: Nodes = None) -> None:
    """Put the content into the subfiles directly, over what they hold; ``here``: into those of these nodes only."""
    for path, part in _parts(content, root, placement, stripe_unit, here):
        with path.open("r+b") as file:
            file.write(part.tobytes())


def _parts(
    content: Bytes, root: Path, placement: Placement, stripe_unit: int, here: Nodes
) -> Iterator[tuple[Path, Bytes]]:
    parts = expected_subfiles(content, stripe_unit, len(placement.io))
    for node, part in zip(placement.io, parts, strict=True):
        if here is None or node in here:
            yield root / node / "data", part
