"""Two-phase collective accesses, as ROMIO makes them (Thakur, Gropp and Lusk 1999): what all processes want of a file
is parted into regions, one for each process that gathers; data go to (or come from) those over the network, and they
access the file in long runs. What asks for them, and what else the processes share: hints (MPI 4.0, sections 10 and
14.2.8), of which those that are not known are ignored, and the shared pointer (section 14.4.4)."""

from __future__ import annotations

import struct as binary
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from sfio_emu.errors import UsageError, whole_number
from sfio_emu.ports import ProcessGroup
from sfio_emu.views.datatypes import Integers
from sfio_emu.views.file_views import BlockFile, PairedRuns

Octets = npt.NDArray[np.uint8]
_BOUNDS = binary.Struct("!qq")
_NOTHING = np.zeros(0, dtype=np.int64)


class CollectiveStep(Protocol):
    """Act, then learn how it went everywhere: every process goes on with what each said, or every process raises."""

    def __call__(self, act: Callable[[], bytes]) -> list[bytes]: ...


@dataclass(frozen=True, kw_only=True)
class _Part:
    """The blocks of one process in one region's window, cut at its ends: int64 arrays of shape (n,)."""

    offsets: Integers
    places: Integers
    lengths: Integers

    def encode(self, data: bytes = b"") -> bytes:
        return b"".join((len(self.offsets).to_bytes(8, "little"), self.offsets.tobytes(), self.lengths.tobytes(), data))


def _decode(item: bytes) -> tuple[Integers, Integers, Octets]:
    """Offsets, lengths and data of what `encode` made."""
    count = int.from_bytes(item[:8], "little")
    numbers = np.frombuffer(item, dtype=np.int64, count=2 * count, offset=8)
    return numbers[:count], numbers[count:], np.frombuffer(item, dtype=np.uint8, offset=8 + 16 * count)


class TwoPhase:
    """Collective reads and writes of `file` through the processes of `group` that gather.

    `nodes`: how many gather, the first of them rank 0, the others spread evenly; `buffer_bytes`: what each holds of its
    region at a time; `align_bytes`: regions begin at multiples of it, so that no two gather in one round of the
    stripes.
    """

    def __init__(
        self,
        file: BlockFile,
        group: ProcessGroup,
        together: CollectiveStep,
        *,
        nodes: int,
        buffer_bytes: int,
        align_bytes: int,
    ) -> None:
        self._file, self._group, self._together = file, group, together
        self._gatherers = [rank * group.size // nodes for rank in range(nodes)]
        self._align_bytes = align_bytes
        self._buffer_bytes = max(align_bytes, buffer_bytes // align_bytes * align_bytes)

    def write(self, octets: memoryview, blocks: PairedRuns) -> int:
        """Write this process' blocks; every process must call. Where blocks overlap that of the highest rank wins."""
        memory = np.frombuffer(octets, dtype=np.uint8)
        windows = self._windows(blocks)
        for window in windows:
            parts = self._parts(blocks, window)
            items = [part.encode(_gathered(memory, part.places, part.lengths).tobytes()) for part in parts]
            received = self._group.all_to_all(self._for_gatherers(items))
            self._together(lambda received=received: self._store(received))  # type: ignore[misc]
        return int(blocks.lengths.sum())

    def read(self, octets: memoryview, blocks: PairedRuns) -> int:
        """Read this process' blocks, as far as the file goes; how many bytes. Every process must call."""
        memory = np.frombuffer(octets, dtype=np.uint8)
        windows = self._windows(blocks)
        end = 0
        if windows:
            size = self._together(lambda: _BOUNDS.pack(self._file.size() if self._group.rank == 0 else 0, 0))[0]
            end = _BOUNDS.unpack(size)[0]
        for window in windows:
            parts = self._parts(blocks, (window[0], np.minimum(window[1], end)))
            requested = self._group.all_to_all(self._for_gatherers([part.encode() for part in parts]))
            loaded: list[list[bytes]] = []
            self._together(lambda requested=requested, loaded=loaded: self._load(requested, loaded))  # type: ignore[misc]
            arrived = self._group.all_to_all(loaded[0])
            for rank, part in zip(self._gatherers, parts, strict=True):
                _scattered(memory, part.places, part.lengths, np.frombuffer(arrived[rank], dtype=np.uint8))
        return int(np.clip(end - blocks.file_offsets, 0, blocks.lengths).sum())

    def _windows(self, blocks: PairedRuns) -> list[tuple[Integers, Integers]]:
        """What the gatherers hold step by step: where their windows begin and end, two arrays of shape (gatherers,)."""
        low, high = 2**62, 0
        if len(blocks.lengths):
            low = int(blocks.file_offsets.min())
            high = int((blocks.file_offsets + blocks.lengths).max())
        bounds = [_BOUNDS.unpack(item) for item in self._together(lambda: _BOUNDS.pack(low, high))]
        low, high = min(bound[0] for bound in bounds), max(bound[1] for bound in bounds)
        if high <= low:
            return []
        low -= low % self._align_bytes
        count = len(self._gatherers)
        region = -(-(high - low) // (count * self._align_bytes)) * self._align_bytes
        starts = low + region * np.arange(count, dtype=np.int64)
        steps = range(0, region, self._buffer_bytes)
        return [(starts + step, starts + min(step + self._buffer_bytes, region)) for step in steps]

    def _parts(self, blocks: PairedRuns, window: tuple[Integers, Integers]) -> list[_Part]:
        """This process' blocks in the window of each gatherer."""
        parts = []
        ends = blocks.file_offsets + blocks.lengths
        for low, high in zip(window[0].tolist(), window[1].tolist(), strict=True):
            inside = np.flatnonzero((blocks.file_offsets < high) & (ends > low))
            offsets = np.maximum(blocks.file_offsets[inside], low)
            lengths = np.minimum(ends[inside], high) - offsets
            places = blocks.memory_offsets[inside] + (offsets - blocks.file_offsets[inside])
            parts.append(_Part(offsets=offsets, places=places, lengths=lengths))
        return parts

    def _for_gatherers(self, items: Sequence[bytes]) -> list[bytes]:
        """The items of the gatherers at their ranks, nothing for the others."""
        everybody = [b""] * self._group.size
        for rank, item in zip(self._gatherers, items, strict=True):
            everybody[rank] = item
        return everybody

    def _store(self, received: Sequence[bytes]) -> bytes:
        """Write what came for this gatherer, sorted by its place in the file."""
        if self._group.rank in self._gatherers:
            parts = [_decode(item) for item in received]
            offsets, lengths = (np.concatenate([part[side] for part in parts]) for side in (0, 1))
            data = np.concatenate([part[2] for part in parts])
            places = np.cumsum(lengths) - lengths
            order = np.argsort(offsets, kind="stable")
            ordered = offsets[order], lengths[order]
            if len(order) and not bool(np.any(ordered[0][1:] < ordered[0][:-1] + ordered[1][:-1])):
                data = _gathered(data, places[order], ordered[1])  # neighbours in the file become neighbours in memory
                offsets, lengths = ordered
                places = np.cumsum(lengths) - lengths
            if len(order):
                self._file.pwrite_blocks(data.data, offsets, places, lengths)
        return b""

    def _load(self, requested: Sequence[bytes], loaded: list[list[bytes]]) -> bytes:
        """Read what was asked of this gatherer, each byte of the file once, and put it into items for all ranks."""
        answers = [b""] * self._group.size
        if self._group.rank in self._gatherers:
            parts = [_decode(item) for item in requested]
            runs, lengths = _union([part[0] for part in parts], [part[1] for part in parts])
            starts = np.cumsum(lengths) - lengths
            memory = np.zeros(int(lengths.sum()), dtype=np.uint8)
            if len(runs):
                self._file.pread_blocks(memory.data, runs, starts, lengths)
            for rank, (offsets, sizes, _) in enumerate(parts):
                run = np.searchsorted(runs, offsets, side="right") - 1
                answers[rank] = _gathered(memory, starts[run] + offsets - runs[run], sizes).tobytes()
        loaded.append(answers)
        return b""


def _union(offsets: Sequence[Integers], lengths: Sequence[Integers]) -> tuple[Integers, Integers]:
    """The bytes of all blocks as sorted runs that neither overlap nor touch: offsets and lengths."""
    starts, sizes = np.concatenate(offsets), np.concatenate(lengths)
    if not len(starts):
        return _NOTHING, _NOTHING
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], starts[order] + sizes[order]
    reached = np.maximum.accumulate(ends)
    first = np.flatnonzero(np.concatenate(([True], starts[1:] > reached[:-1])))
    last = np.concatenate((first[1:] - 1, [len(starts) - 1]))
    return starts[first], reached[last] - starts[first]


def _gathered(memory: Octets, places: Integers, lengths: Integers) -> Octets:
    """The blocks of memory, one behind the other."""
    from sfio_emu.layout.kernels import gather_list

    stream = np.empty(int(lengths.sum()), dtype=np.uint8)
    if len(stream):
        gather_list(memory, np.ascontiguousarray(places), _ends(lengths), stream)
    return stream


def _scattered(memory: Octets, places: Integers, lengths: Integers, stream: Octets) -> None:
    """Put the stream into its blocks of memory."""
    from sfio_emu.layout.kernels import scatter_list

    if len(stream):
        scatter_list(memory, np.ascontiguousarray(places), _ends(lengths), stream)


def _ends(lengths: Integers) -> Integers:
    """Where each block begins in the stream, and behind them its end: shape (n + 1,)."""
    return np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)


_SWITCHES = {"true": True, "enable": True, "false": False, "disable": False, "automatic": False}


@dataclass(frozen=True, kw_only=True)
class Hints:
    """The hints that are obeyed, by MPI's reserved names.

    `collective_buffering`: collective accesses go in two phases, over the processes that gather (`romio_cb_write` and
    `romio_cb_read` say it of one direction); `cb_nodes`: how many processes gather (all, where it is 0);
    `cb_buffer_size`: bytes that each of them holds at a time.
    """

    buffer_writes: bool = False
    buffer_reads: bool = False
    cb_nodes: int = 0
    cb_buffer_size: int = 16 << 20

    @classmethod
    def read(cls, given: Mapping[str, str]) -> Hints:
        """The hints of a program. Raises UsageError for a known hint with a value that makes no sense.

        >>> Hints.read({"collective_buffering": "true", "cb_nodes": "2", "access_style": "sequential"}).cb_nodes
        2
        """
        if not isinstance(given, Mapping):
            raise UsageError(f"the hints are {given!r}: give names and texts, as in {{'cb_nodes': '2'}}")
        both = _switch(given, "collective_buffering", False)
        return cls(
            buffer_writes=_switch(given, "romio_cb_write", both),
            buffer_reads=_switch(given, "romio_cb_read", both),
            cb_nodes=_number(given, "cb_nodes", cls.cb_nodes, 1),
            cb_buffer_size=_number(given, "cb_buffer_size", cls.cb_buffer_size, 4096),
        )

    def texts(self) -> dict[str, str]:
        """The hints in use, as MPI_File_get_info gives them."""
        return {
            "romio_cb_write": "enable" if self.buffer_writes else "disable",
            "romio_cb_read": "enable" if self.buffer_reads else "disable",
            "collective_buffering": "true" if self.buffer_writes and self.buffer_reads else "false",
            "cb_nodes": str(self.cb_nodes),
            "cb_buffer_size": str(self.cb_buffer_size),
        }


def _switch(given: Mapping[str, str], name: str, default: bool) -> bool:
    text = str(given.get(name, "")).lower()
    if not text:
        return default
    if text not in _SWITCHES:
        raise UsageError(f"the hint {name} is {given[name]!r}: give 'true' or 'false'")
    return _SWITCHES[text]


def _number(given: Mapping[str, str], name: str, default: int, least: int) -> int:
    if name not in given:
        return default
    text = str(given[name])
    return whole_number(int(text) if text.isascii() and text.isdigit() else given[name], f"hint {name}", least)  # type: ignore[arg-type]


_opened: weakref.WeakKeyDictionary[ProcessGroup, int] = weakref.WeakKeyDictionary()


class SharedPointer:
    """The shared pointer of one collectively opened file: a counter of the group, in etypes. Making one is
    collective, as opening is. A new view does not reset the counter, which somebody else may be adding to, but notes
    what it was when all had come."""

    def __init__(self, group: ProcessGroup) -> None:
        number = _opened.get(group, 0)  # the same in all processes, which open files in the same order
        _opened[group] = number + 1
        self._group = group
        self._name = f"shared pointer:{number}"
        self._base = 0

    @property
    def position(self) -> int:
        """Where it points now, in etypes of the view."""
        return self._base + self._group.fetch_add(self._name, 0)

    def fetch_and_add(self, etypes: int) -> int:
        """Where an access of so many etypes begins; the next one, of whatever process, begins behind it."""
        return self._base + self._group.fetch_add(self._name, etypes)

    def move(self, position: int) -> None:
        """Let it point to `position`: collective, a synchronisation point."""
        self._group.barrier()  # nobody's call from before is under way any more
        count = self._group.fetch_add(self._name, 0) if self._group.rank == 0 else 0
        self._base = position - int(self._group.all_gather(str(count).encode())[0])
