"""Is the sum of the subfiles still the size of the file? Judged by what the listeners said, never by what was once
seen.

A write that reaches past the end must leave every subfile as long as it is in a file that reaches so far. Its answers
say how long each subfile that it touched had been before; that tells how long the file was at least, and so how long
the subfiles are that it did not touch. Where the answers fit no one file, somebody shortened it at the same time, and
all must be looked at.

They may fit one and still be of two times: the first node had its part, somebody truncated the file to what it was, and
only then the second node got its part. So each truncation has a number, which it brings to all subfiles, and a listener
gives with each answer all that its subfile has been through (exclusive or). Where a truncation came behind one part and
before another, these differ, and all is looked at again; else nobody needs to be asked. Whoever truncates looks at the
sizes behind it, so that a write need not care for truncations that are still under way. Where a listener was started
again, or a truncation reached only some nodes, they differ until all have closed the file: that costs a look, nothing
else.

Who dies, or whose listener dies, between the messages of a write that reaches past the end leaves subfiles of no one
file: a node has its part, and knows of no other. To prevent that would take a second message to every node, and the
time of one more answer, for each such write; and whoever dies between those leaves the same. To make subfiles longer
before they are written would only hide it: a reader would take zeros for data while the write is under way.
"""

from collections.abc import Iterable, Mapping, Sequence

from sfio_emu.layout.striping import Layout
from sfio_emu.message_bodies import Written

NO_END = 2**63
"""Where the first missing byte lies (of a file, of a read) if none is missing."""


class WrittenSizes:
    """What the answers to one write said: how long its subfiles were before, how far it reached in each, and whether it
    was `torn`: a subfile was truncated between two of its parts there."""

    def __init__(self) -> None:
        self.before: dict[int, int] = {}
        self.reached: dict[int, int] = {}
        self.torn = False
        self._cuts: dict[int, int] = {}

    @property
    def of_one_time(self) -> bool:
        """Whether no truncation came between two parts of it."""
        return not self.torn and len(set(self._cuts.values())) < 2

    def note_answer(self, subfiles: Sequence[int], written: Written) -> None:
        """What an answer says of the subfiles that its message named."""
        self.note_before(subfiles, written.sizes)
        for subfile, cuts in zip(subfiles, written.cuts, strict=True):
            self.torn |= self._cuts.setdefault(subfile, cuts) != cuts

    def note_before(self, subfiles: Sequence[int], sizes: Sequence[int]) -> None:
        """The first answer about a subfile counts: later ones have seen what this write did."""
        for subfile, size in zip(subfiles, sizes, strict=True):
            self.before.setdefault(subfile, size)

    def record_end(self, ends: Iterable[tuple[int, int]]) -> None:
        for subfile, end in ends:
            self.reached[subfile] = max(self.reached.get(subfile, 0), end)


def min_size(layout: Layout, sizes: Mapping[int, int]) -> int:
    """How long a file is at least whose subfiles have these sizes, by number."""
    return max(
        (layout.logical_offset(subfile, size - 1) + 1 for subfile, size in sizes.items() if size),
        default=0,
    )


def fit_one_file(layout: Layout, sizes: Mapping[int, int]) -> bool:
    """Whether there is a file whose subfiles have these sizes."""
    least = min_size(layout, sizes)
    return all(size >= layout.share(least, subfile) for subfile, size in sizes.items())


def possibly_short_subfiles(layout: Layout, end: int, sizes: WrittenSizes) -> dict[int, int]:
    """Subfiles that may be shorter than in a file of `end` bytes after a write that reached so far, and how long they
    are there."""
    before = sizes.before
    least = min_size(layout, before)
    fits = all(size >= layout.share(least, subfile) for subfile, size in before.items())
    if fits and least >= end:  # the usual overwriting: nobody can be too short
        return {}
    short = {}
    for subfile, share in enumerate(layout.subfile_sizes(end)):
        known = before[subfile] if subfile in before else layout.share(least, subfile)
        if share > (max(known, sizes.reached.get(subfile, 0)) if fits else 0):
            short[subfile] = share
    return short
