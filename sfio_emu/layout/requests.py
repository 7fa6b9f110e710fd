"""The requests of one call: blocks of the file and of memory, sorted, freed of overlaps, merged where both go on.
Striping keeps the order, so that what is sorted here is sorted in every subfile: `sortcache` and `bkmerge` of
Gabrielyan 2007, section 2.7, figure 15."""

from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from sfio_emu.errors import UsageError, whole_number
from sfio_emu.layout.striping import MAX_OFFSET
from sfio_emu.settings import Settings

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Requests:
    """Blocks [offsets, offsets + sizes) of the file that lie at `memory` of the caller's memory; none is empty."""

    offsets: Integers
    memory: Integers
    sizes: Integers

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def first(self) -> tuple[int, int]:
        """Where the first block begins in the file and in memory."""
        return int(self.offsets[0]), int(self.memory[0])

    @property
    def memory_bounds(self) -> tuple[int, int]:
        """From where to where in memory they reach; (0, 0) where there are none."""
        return (
            (int(self.memory.min()), int((self.memory + self.sizes).max())) if len(self) else (0, 0)
        )

    @cached_property
    def end(self) -> int:
        """Where the last byte of the file they touch ends; 0 where there are none."""
        return int((self.offsets + self.sizes).max()) if len(self.offsets) else 0

    @cached_property
    def total_bytes(self) -> int:
        return int(self.sizes.sum())

    @cached_property
    def regular(self) -> tuple[int, int, int] | None:
        """How far apart the blocks are in the file and in memory, and how long each is, where that is the same of
        all."""
        if len(self) < 3:
            return None
        size = int(self.sizes[0])
        steps = []
        for places in (self.offsets, self.memory):
            step = int(places[1] - places[0])
            if step < size or int(places[-1] - places[0]) != step * (len(self) - 1):
                return None
            steps.append(step)
        alike = bool((self.sizes == size).all()) and all(
            bool((places[1:] - places[:-1] == step).all())
            for places, step in zip((self.offsets, self.memory), steps, strict=True)
        )
        return (steps[0], steps[1], size) if alike else None

    def chosen(self, which: npt.NDArray[np.intp] | npt.NDArray[np.bool_] | slice) -> "Requests":
        return Requests(
            offsets=self.offsets[which], memory=self.memory[which], sizes=self.sizes[which]
        )


Copies = tuple[tuple[int, int, int], ...]


def make_requests(offsets: npt.ArrayLike, memory: npt.ArrayLike, sizes: npt.ArrayLike) -> Requests:
    """The blocks of a call in its order, without the empty ones; raises `UsageError` for a negative or endless one."""
    places = [
        _whole_numbers(values, name, least)
        for values, name, least in (
            (offsets, "offset", 0),
            (memory, "place", -MAX_OFFSET),
            (sizes, "size", 0),
        )
    ]
    if len({len(values) for values in places}) != 1:
        raise UsageError(
            f"{len(places[0])} offsets for {len(places[2])} sizes: give one of each a block"
        )
    for name, values in (("offset", places[0]), ("size", places[2])):
        if len(values) and not 0 <= int(values.min()) <= int(values.max()) <= MAX_OFFSET:
            number = int(np.flatnonzero((values < 0) | (values > MAX_OFFSET))[0])
            raise UsageError(
                f"the {name} of block {number} is {int(values[number])}: it must be 0 to 2^62"
            )
    requests = Requests(offsets=places[0], memory=places[1], sizes=places[2])
    if len(places[2]) and int(places[2].min()) == 0:
        requests = requests.chosen(places[2] > 0)
    if len(requests) and requests.end > MAX_OFFSET:
        raise UsageError("a block ends beyond 2^62 bytes: no file is that large")
    return requests


def _whole_numbers(values: npt.ArrayLike, name: str, least: int) -> Integers:
    """The values as int64; raises `UsageError` for what is no whole number, and for one that no int64 holds."""
    try:
        array = np.asarray(values).reshape(-1)
    except ValueError:
        raise UsageError(
            f"the {name}s are lists of different lengths: give one whole number a block"
        ) from None
    if array.dtype.kind != "i" and len(array):
        each = enumerate(np.asarray(values, dtype=object).reshape(-1))
        array = np.array(
            [whole_number(value, f"{name} of block {number}", least) for number, value in each]
        )
    return np.require(array, np.int64, ["C", "A"])


def prepare(requests: Requests, settings: Settings, *, writing: bool) -> tuple[Requests, Copies]:
    """Sort, resolve overlaps (the later write of a call wins), merge what goes on in file and memory alike. What is
    transferred then, and for reads what is copied in memory afterwards: (from, to, size) of blocks requested twice."""
    if len(requests) < 2 or (
        requests.regular is not None and requests.regular[0] > requests.regular[2]
    ):
        return requests, ()
    copies: Copies = ()
    if settings.sort:
        unsorted = requests
        if bool(np.any(requests.offsets[1:] < requests.offsets[:-1])):
            requests = requests.chosen(np.argsort(requests.offsets, kind="stable"))
        if bool(np.any(requests.offsets[1:] < requests.offsets[:-1] + requests.sizes[:-1])):
            requests, copies = _without_overlaps(unsorted, writing=writing)
    if settings.merge:
        requests = _joined(requests)
    return requests, copies


def _joined(requests: Requests) -> Requests:
    goes_on = (requests.offsets[1:] == requests.offsets[:-1] + requests.sizes[:-1]) & (
        requests.memory[1:] == requests.memory[:-1] + requests.sizes[:-1]
    )
    if not goes_on.any():
        return requests
    first = np.concatenate(([True], ~goes_on))
    starts = np.flatnonzero(first)
    return Requests(
        offsets=requests.offsets[starts],
        memory=requests.memory[starts],
        sizes=np.add.reduceat(requests.sizes, starts),
    )


def _without_overlaps(requests: Requests, *, writing: bool) -> tuple[Requests, Copies]:
    """Each byte of the file once, taken from (read into) the latest block that has it; O(n log n).

    For reads also the copies that give the other blocks their bytes.
    """
    offsets, memory, sizes = (
        requests.offsets.tolist(),
        requests.memory.tolist(),
        requests.sizes.tolist(),
    )
    ends = [offset + size for offset, size in zip(offsets, sizes, strict=True)]
    order = sorted(range(len(offsets)), key=offsets.__getitem__)
    bounds = sorted({*offsets, *ends})
    active: list[int] = []
    retained: list[tuple[int, int, int]] = []
    copies: list[tuple[int, int, int]] = []
    arrived = 0
    for start, end in pairwise(bounds):
        while arrived < len(order) and offsets[order[arrived]] <= start:
            heappush(active, -order[arrived])
            arrived += 1
        while active and ends[-active[0]] <= start:
            heappop(active)
        if not active:
            continue
        owner = -active[0]
        source = memory[owner] + start - offsets[owner]
        retained.append((start, source, end - start))
        if not writing:
            for block in {-item for item in active if ends[-item] > start} - {owner}:
                copies.append((source, memory[block] + start - offsets[block], end - start))
    columns = np.array(retained, dtype=np.int64).T
    return Requests(
        offsets=columns[0].copy(), memory=columns[1].copy(), sizes=columns[2].copy()
    ), tuple(copies)
