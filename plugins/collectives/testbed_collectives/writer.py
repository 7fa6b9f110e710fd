"""An all-to-all schedule as an algorithm of MSCCL (Microsoft's collective communication library): XML of GPUs, thread
blocks and steps.

Rank k is the k-th sender and the k-th receiver of the schedule. A rank has one thread block for each rank that it sends
to, one for each that it receives from, and one that copies its own block. Frames become dependencies: a rank receives
after it has sent (which waits for nobody, as there is room for a block on the way), and what it does in a frame waits
for what it did last in the frame before. So each step has one dependency at most, and no ``nop`` is needed.
"""

from __future__ import annotations

from xml.etree import ElementTree

from testbed.errors import InputError
from testbed.model.schedule import Schedule
from testbed.model.traffic import Traffic

MOST_STEPS, MOST_BLOCKS, BLOCKS_A_CHANNEL, MOST_CHANNELS = 256, 216, 32, 32
"""Of MSCCL: steps a thread block, thread blocks a GPU, of these with a peer to send to a channel, channels."""

Place = tuple[int, int]
"""Thread block, step in it."""


def msccl_algorithm(traffic: Traffic, schedule: Schedule, name: str) -> str:
    """The XML. InputError where the traffic does not send one block from each rank to each other (to itself or not), or
    is too large."""
    ranks, pairs = _ranks(traffic)
    frames = [[pairs[i] for i in frame if pairs[i][0] != pairs[i][1]] for frame in schedule.frames]
    channels = -(-(ranks - 1) // BLOCKS_A_CHANNEL)
    if 2 * (ranks - 1) + 1 > MOST_BLOCKS or channels > MOST_CHANNELS:
        raise InputError(
            f"MSCCL: {ranks} ranks need {2 * ranks - 1} thread blocks a GPU; it takes {MOST_BLOCKS}"
        )
    root = ElementTree.Element(
        "algo", name=name, proto="Simple", nchannels=str(channels), nchunksperloop=str(ranks), ngpus=str(ranks),
        coll="alltoall", inplace="0", outofplace="1", minBytes="0", maxBytes="0",
    )  # fmt: skip
    for rank in range(ranks):
        gpu = ElementTree.SubElement(
            root, "gpu", id=str(rank), i_chunks=str(ranks), o_chunks=str(ranks), s_chunks="0"
        )
        _Gpu(gpu, rank, ranks).carry(frames)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def _ranks(traffic: Traffic) -> tuple[int, list[tuple[int, int]]]:
    """(ranks, source and destination rank of each transfer)."""
    if not len(traffic.ends):
        raise InputError(
            "MSCCL: the transfers do not say whose they are; give a network, not --traffic"
        )
    sources: dict[str, int] = {}
    sinks: dict[str, int] = {}
    if {a for a, _ in traffic.ends} == {b for _, b in traffic.ends}:
        sinks = sources
    for a, b in traffic.ends:
        sources.setdefault(a, len(sources))
        if sinks is not sources:
            sinks.setdefault(b, len(sinks))
    pairs = [(sources[a], sinks[b]) for a, b in traffic.ends]
    ranks, others = len(sources), {pair for pair in pairs if pair[0] != pair[1]}
    if (
        len(sinks) != ranks
        or ranks < 2
        or len(set(pairs)) < len(pairs)
        or len(others) != ranks * (ranks - 1)
    ):
        raise InputError(
            f"MSCCL: {len(pairs)} transfers of {ranks} senders and {len(sinks)} receivers are no all-to-all exchange; "
            "give --pattern all-to-all or all-to-others"
        )
    return ranks, pairs


class _Gpu:
    """Thread blocks 0 to n - 2 send to the other ranks in their order, n - 1 to 2n - 3 receive from them, the last
    copies."""

    def __init__(self, element: ElementTree.Element, rank: int, ranks: int) -> None:
        self._rank, self._others = rank, [other for other in range(ranks) if other != rank]
        self._blocks: list[ElementTree.Element] = []
        for sends in (True, False):
            for place, other in enumerate(self._others):
                self._blocks.append(
                    _block(
                        element,
                        len(self._blocks),
                        other if sends else -1,
                        -1 if sends else other,
                        place,
                    )
                )
        own = _block(element, len(self._blocks), -1, -1, 0)
        _step(own, "cpy", rank, rank, None)

    def carry(self, frames: list[list[tuple[int, int]]]) -> None:
        last: Place | None = None
        for frame in frames:
            sent = [sink for source, sink in frame if source == self._rank]
            received = [source for source, sink in frame if sink == self._rank]
            for sink in sent:
                last = self._add("s", self._others.index(sink), (sink, self._rank), last)
            for source in received:
                last = self._add(
                    "r", len(self._others) + self._others.index(source), (self._rank, source), last
                )
        for block in self._blocks:
            if len(block) > MOST_STEPS:
                raise InputError(
                    f"MSCCL: a thread block would have {len(block)} steps; it takes {MOST_STEPS}"
                )

    def _add(self, kind: str, number: int, offsets: tuple[int, int], after: Place | None) -> Place:
        block = self._blocks[number]
        _step(block, kind, *offsets, after)
        if after is not None:
            self._blocks[after[0]][after[1]].set("hasdep", "1")
        return number, len(block) - 1


def _block(
    gpu: ElementTree.Element, number: int, send: int, receive: int, place: int
) -> ElementTree.Element:
    return ElementTree.SubElement(
        gpu,
        "tb",
        id=str(number),
        send=str(send),
        recv=str(receive),
        chan=str(place // BLOCKS_A_CHANNEL),
    )


def _step(
    block: ElementTree.Element, kind: str, source: int, sink: int, waits: Place | None
) -> ElementTree.Element:
    """One block of data from chunk ``source`` of the input to chunk ``sink`` of the output."""
    after = waits or (-1, -1)
    return ElementTree.SubElement(
        block, "step", s=str(len(block)), type=kind, srcbuf="i", srcoff=str(source), dstbuf="o", dstoff=str(sink),
        cnt="1", depid=str(after[0]), deps=str(after[1]), hasdep="0",
    )  # fmt: skip
