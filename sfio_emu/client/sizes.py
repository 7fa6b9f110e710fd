"""Is the sum of the subfiles still the size of the file? Judged by what the listeners said, never by what was once seen.

A write that reaches past the end must leave every subfile as long as it is in a file that reaches so far. Its answers say how
long each subfile that it touched had been before; that tells how long the file was at least, and so how long the subfiles are
that it did not touch. Where the answers fit no one file, somebody shortened it at the same time, and all must be looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sfio_emu.layout.striping import Layout


class WrittenSizes:
    """What the answers to one write said: how long its subfiles were before, how far it reached in each."""

    def __init__(self) -> None:
        self.before: dict[int, int] = {}
        self.reached: dict[int, int] = {}

    def note_before(self, subfiles: Sequence[int], sizes: Sequence[int]) -> None:
        """The first answer about a subfile counts: later ones have seen what this write did."""
        for subfile, size in zip(subfiles, sizes, strict=True):
            self.before.setdefault(subfile, size)

    def note_reached(self, ends: Iterable[tuple[int, int]]) -> None:
        for subfile, end in ends:
            self.reached[subfile] = max(self.reached.get(subfile, 0), end)


def least_size(layout: Layout, sizes: Mapping[int, int]) -> int:
    """How long a file is at least whose subfiles have these sizes, by number."""
    return max((layout.logical_offset(subfile, size - 1) + 1 for subfile, size in sizes.items() if size), default=0)


def fit_one_file(layout: Layout, sizes: Mapping[int, int]) -> bool:
    """Whether there is a file whose subfiles have these sizes."""
    least = least_size(layout, sizes)
    return all(size >= layout.share(least, subfile) for subfile, size in sizes.items())


def left_short(layout: Layout, end: int, sizes: WrittenSizes) -> dict[int, int]:
    """Subfiles that may be shorter than in a file of `end` bytes after a write that reached so far, and how long they are there."""
    before = sizes.before
    least = least_size(layout, before)
    fits = all(size >= layout.share(least, subfile) for subfile, size in before.items())
    if fits and least >= end:  # the usual overwriting: nobody can be too short
        return {}
    short = {}
    for subfile, share in enumerate(layout.subfile_sizes(end)):
        known = before[subfile] if subfile in before else layout.share(least, subfile)
        if share > (max(known, sizes.reached.get(subfile, 0)) if fits else 0):
            short[subfile] = share
    return short


__all__ = ["WrittenSizes", "fit_one_file", "least_size", "left_short"]
