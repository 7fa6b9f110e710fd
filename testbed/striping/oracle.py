"""What the subfiles of a striped file must hold, worked out on its own: rows of stripe units, one column a subfile."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from testbed.striping.access import Blocks
from testbed.striping.placement import Placement, file_host

Bytes = npt.NDArray[np.uint8]


def file_content(file_bytes: int, seed: int) -> Bytes:
    """Pseudo-random bytes, shape (file_bytes,); the same for the same seed."""
    return np.frombuffer(np.random.default_rng(seed).bytes(file_bytes), dtype=np.uint8)


def data_of(content: Bytes, blocks: Blocks) -> Bytes:
    """The blocks' bytes one after the other, shape (blocks.size_bytes,)."""
    if len(blocks) == 1:
        return content[int(blocks.offsets[0]) : int(blocks.offsets[0] + blocks.sizes[0])].copy()
    parts = [
        content[offset : offset + size]
        for offset, size in zip(blocks.offsets.tolist(), blocks.sizes.tolist(), strict=True)
    ]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.uint8)


def expected_subfiles(content: Bytes, stripe_unit: int, subfiles: int) -> list[Bytes]:
    """The bytes of every subfile, in order; cyclic distribution (Gabrielyan 2007, section 2.4 and figure 11).

    >>> text = np.frombuffer(b"Good*morning!Bonjour!Buona*mattina!", dtype=np.uint8)
    >>> [part.tobytes() for part in expected_subfiles(text, 5, 2)]
    [b'Good*ng!Bo!Buontina!', b'morninjoura*mat']
    """
    row = stripe_unit * subfiles
    whole = len(content) // row
    table = content[: whole * row].reshape(whole, subfiles, stripe_unit)
    rest = content[whole * row :]
    return [
        np.concatenate([table[:, j, :].ravel(), rest[j * stripe_unit : (j + 1) * stripe_unit]])
        for j in range(subfiles)
    ]


Nodes = Sequence[str] | None
"""Some of the I/O nodes; None: all."""


def verified_subfiles(
    content: Bytes, root: Path, placement: Placement, stripe_unit: int, here: Nodes = None
) -> bool:
    """Whether every subfile ``data`` below ``root`` holds exactly its part of the content; ``here``: of these nodes
    only."""
    return all(
        _holds(path, part) for path, part in _parts(content, root, placement, stripe_unit, here)
    )


def _holds(path: Path, expected: Bytes) -> bool:
    try:
        found = np.fromfile(path, dtype=np.uint8)
    except FileNotFoundError:
        return False
    return bool(np.array_equal(found, expected))


def write_subfiles(
    content: Bytes, root: Path, placement: Placement, stripe_unit: int, here: Nodes = None
) -> None:
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
            yield root / file_host(node) / "data", part
