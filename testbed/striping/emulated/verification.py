"""Subfiles on disk held against the layout that a striped file must have."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from testbed.striping.oracle import Bytes, expected_subfiles
from testbed.striping.placement import Placement


def verified_subfiles(content: Bytes, root: Path, placement: Placement, stripe_unit: int, name: str = "data") -> bool:
    """Whether every subfile ``root/<node>/<name>`` holds exactly its part of the content."""
    parts = expected_subfiles(content, stripe_unit, len(placement.io))
    return all(_holds(root / node / name, part) for node, part in zip(placement.io, parts, strict=True))


def _holds(path: Path, expected: Bytes) -> bool:
    try:
        found = np.fromfile(path, dtype=np.uint8)
    except FileNotFoundError:
        return False
    return bool(np.array_equal(found, expected))


def write_subfiles(content: Bytes, root: Path, placement: Placement, stripe_unit: int, name: str = "data") -> None:
    """Put the content into the subfiles directly, over what they hold."""
    parts = expected_subfiles(content, stripe_unit, len(placement.io))
    for node, part in zip(placement.io, parts, strict=True):
        with (root / node / name).open("r+b") as file:
            file.write(part.tobytes())
