"""The content that the subfiles of a striped file must have, computed independently of the library.

The file is a table: each row has one stripe unit for each subfile.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from testbed.striping.access import Blocks
from testbed.striping.placement import Placement, encoded_node_name

Bytes = npt.NDArray[np.uint8]
# Some of the I/O nodes, or None for all.
Nodes = Sequence[str] | None


def file_content(file_bytes: int, seed: int) -> Bytes:
    """Return pseudo-random bytes, shape (file_bytes,), that depend only on the seed."""
    return np.frombuffer(np.random.default_rng(seed).bytes(file_bytes), dtype=np.uint8)


def data_of(content: Bytes, blocks: Blocks) -> Bytes:
    """Return the bytes of all blocks, one after the other, shape (blocks.size_bytes,)."""
    parts = []
    for offset, size in zip(blocks.offsets.tolist(), blocks.sizes.tolist(), strict=True):
        parts.append(content[offset : offset + size])
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.uint8)


def expected_subfiles(content: Bytes, stripe_unit: int, subfiles: int) -> list[Bytes]:
    """Return the bytes of every subfile, in the order of the subfiles.

    Stripe units are distributed cyclically (Gabrielyan 2007, section 2.4 and figure 11).

    >>> text = np.frombuffer(b"Good*morning!Bonjour!Buona*mattina!", dtype=np.uint8)
    >>> [part.tobytes() for part in expected_subfiles(text, 5, 2)]
    [b'Good*ng!Bo!Buontina!', b'morninjoura*mat']
    """
    row_bytes = stripe_unit * subfiles
    full_rows = len(content) // row_bytes
    table = content[: full_rows * row_bytes].reshape(full_rows, subfiles, stripe_unit)
    last_row = content[full_rows * row_bytes :]
    parts = []
    for subfile in range(subfiles):
        last_unit = last_row[subfile * stripe_unit : (subfile + 1) * stripe_unit]
        parts.append(np.concatenate([table[:, subfile, :].ravel(), last_unit]))
    return parts


def verified_subfiles(
    content: Bytes, root: Path, placement: Placement, stripe_unit: int, nodes: Nodes = None
) -> bool:
    """Return whether every subfile has exactly its part of the content.

    Args:
        content: The content of the file.
        root: The directory with a folder for each I/O node; the subfile is ``data`` in it.
        placement: The I/O nodes.
        stripe_unit: The size of a stripe unit in bytes.
        nodes: Only the subfiles of these nodes are read. None: all.
    """
    parts = _parts(content, root, placement, stripe_unit, nodes)
    return all(_has_content(path, part) for path, part in parts)


def _has_content(path: Path, expected: Bytes) -> bool:
    try:
        content = np.fromfile(path, dtype=np.uint8)
    except FileNotFoundError:
        return False
    return bool(np.array_equal(content, expected))


def write_subfiles(
    content: Bytes, root: Path, placement: Placement, stripe_unit: int, nodes: Nodes = None
) -> None:
    """Overwrite the subfiles with the content directly, without the library.

    The arguments are those of ``verified_subfiles``. The subfiles must exist.
    """
    for path, part in _parts(content, root, placement, stripe_unit, nodes):
        with path.open("r+b") as file:
            file.write(part.tobytes())


def _parts(
    content: Bytes, root: Path, placement: Placement, stripe_unit: int, nodes: Nodes
) -> Iterator[tuple[Path, Bytes]]:
    """Yield the path of each subfile and its content."""
    parts = expected_subfiles(content, stripe_unit, len(placement.io))
    for node, part in zip(placement.io, parts, strict=True):
        if nodes is None or node in nodes:
            yield root / encoded_node_name(node) / "data", part
