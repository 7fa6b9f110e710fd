"""Check after a write that the sum of the subfiles' sizes is still the size of the file.

The check uses only what the listeners answered to this write, never sizes seen earlier.

A write past the end must leave every subfile as long as it is in a file that reaches so far. The
answers to the write say how long each subfile that it touched was before. From this follows the
minimum size of the file, and so the minimum sizes of the subfiles that the write did not touch. If
the answers fit no file, another client truncated it at the same time, and the sizes of all subfiles
must be read.

Answers that fit one file may still be from before and after a truncation: the first node writes its
part, another client truncates the file to its former size, and then the second node writes its
part. For this reason each truncation has a number, which it sends to all subfiles. A listener
reports with each answer the exclusive or of the numbers of all truncations of the subfile. If a
truncation came after one part of the write and before another, the reports differ, and the sizes of
all subfiles are read. Otherwise no further message is necessary. A client that truncates reads the
sizes afterwards, so that a write need not consider truncations that are still in progress. If a
listener was restarted, or a truncation reached only some nodes, the reports differ until all
clients have closed the file. This costs only the reading of sizes.

If a client or a listener dies during a write past the end, the subfiles may fit no file: one node
has its part, and the others know nothing of it. A second message to every node would take one more
round trip for each such write, and a client could also die between the two messages. Extending the
subfiles before the write would only hide the problem, because readers would see zeros as data
during the write.
"""

from collections.abc import Iterable, Mapping, Sequence

from sfio_emu.layout.striping import Layout
from sfio_emu.message_bodies import Written

# The offset of the first missing byte of a file, or of a read, if no byte is missing.
NO_END = 2**63


class WrittenSizes:
    """The sizes of subfiles, as the answers to one write reported them.

    Attributes:
        before: The size of each subfile before the write, by its number, in bytes.
        reached: The end of the write in each subfile, by its number.
        torn: Whether a subfile was truncated between two parts of the write to it.
    """

    def __init__(self) -> None:
        self.before: dict[int, int] = {}
        self.reached: dict[int, int] = {}
        self.torn = False
        self._cuts: dict[int, int] = {}

    @property
    def of_one_time(self) -> bool:
        """True if no truncation happened between two parts of the write."""
        return not self.torn and len(set(self._cuts.values())) < 2

    def note_answer(self, subfiles: Sequence[int], written: Written) -> None:
        """Record what an answer reports about the subfiles that its message mentioned."""
        self.note_before(subfiles, written.sizes)
        for subfile, cuts in zip(subfiles, written.cuts, strict=True):
            self.torn |= self._cuts.setdefault(subfile, cuts) != cuts

    def note_before(self, subfiles: Sequence[int], sizes: Sequence[int]) -> None:
        """Record the sizes of subfiles before the write.

        Only the first size of a subfile counts. Later answers include what this write did.
        """
        for subfile, size in zip(subfiles, sizes, strict=True):
            self.before.setdefault(subfile, size)

    def record_end(self, ends: Iterable[tuple[int, int]]) -> None:
        """Record the number of each written subfile, and the end of the write in it."""
        for subfile, end in ends:
            self.reached[subfile] = max(self.reached.get(subfile, 0), end)


def min_size(layout: Layout, sizes: Mapping[int, int]) -> int:
    """Return the minimum size of a file whose subfiles have these sizes, by their numbers."""
    ends = [layout.logical_offset(subfile, size - 1) + 1 for subfile, size in sizes.items() if size]
    return max(ends, default=0)


def fit_one_file(layout: Layout, sizes: Mapping[int, int]) -> bool:
    """Return whether there is a file whose subfiles have these sizes, by their numbers."""
    file_size = min_size(layout, sizes)
    return all(size >= layout.share(file_size, subfile) for subfile, size in sizes.items())


def possibly_short_subfiles(layout: Layout, end: int, sizes: WrittenSizes) -> dict[int, int]:
    """Return the subfiles that may be too short after a write.

    Args:
        layout: The layout of the file.
        end: The offset in the file behind the last written byte.
        sizes: What the answers to the write said.

    Returns:
        The number of each such subfile, and its size in a file of `end` bytes.
    """
    before = sizes.before
    file_size = min_size(layout, before)
    fits = all(size >= layout.share(file_size, subfile) for subfile, size in before.items())
    if fits and file_size >= end:
        # The write did not reach past the end of the file, as is usual.
        return {}
    short = {}
    for subfile, required in enumerate(layout.subfile_sizes(end)):
        current = 0
        if fits:
            size_before = before.get(subfile, layout.share(file_size, subfile))
            current = max(size_before, sizes.reached.get(subfile, 0))
        if required > current:
            short[subfile] = required
    return short
