"""Writes an all-to-all schedule as an algorithm of MSCCL, Microsoft's library of collectives.

An algorithm is XML with GPUs, thread blocks and steps. Rank k is the k-th sender and the k-th
receiver of the schedule. A rank has:

- a thread block for each rank to which it sends;
- a thread block for each rank from which it receives;
- a thread block that copies the block that it sends to itself.

Time frames become dependencies. In each frame, a rank first sends and then receives. A send waits
for no other rank, because there is room for a block in transit. The first step of a frame waits for
the last step of the previous one. Thus each step has at most one dependency, and no ``nop`` is
needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree

from testbed.errors import InputError
from testbed.model.schedule import Schedule
from testbed.model.traffic import Traffic

# Limits of MSCCL.
MAX_STEPS_OF_BLOCK = 256
MAX_BLOCKS_OF_GPU = 216
MAX_CHANNELS = 32
# Thread blocks of a GPU that send on the same channel.
BLOCKS_OF_CHANNEL = 32

# Number of a thread block, and of a step in it.
StepId = tuple[int, int]
# Source and destination rank.
RankPair = tuple[int, int]


def msccl_algorithm(traffic: Traffic, schedule: Schedule, name: str) -> str:
    """Return a schedule as an algorithm of MSCCL.

    Args:
        traffic: The traffic: one block from each rank to each other. Blocks of ranks to themselves
            are ignored.
        schedule: The schedule of the traffic.
        name: Name of the algorithm.

    Raises:
        InputError: The traffic is not all-to-all, or too large.
    """
    pairs, ranks = _rank_pairs(traffic)
    channels = -(-(ranks - 1) // BLOCKS_OF_CHANNEL)
    blocks_of_gpu = 2 * (ranks - 1) + 1
    if blocks_of_gpu > MAX_BLOCKS_OF_GPU or channels > MAX_CHANNELS:
        raise InputError(
            f"MSCCL: {ranks} ranks need {blocks_of_gpu} thread blocks a GPU; "
            f"it takes {MAX_BLOCKS_OF_GPU}"
        )
    frames = []
    for frame in schedule.frames:
        pairs_of_frame = [pairs[transfer] for transfer in frame]
        frames.append([pair for pair in pairs_of_frame if pair[0] != pair[1]])
    root = ElementTree.Element(
        "algo",
        name=name,
        proto="Simple",
        nchannels=str(channels),
        nchunksperloop=str(ranks),
        ngpus=str(ranks),
        coll="alltoall",
        inplace="0",
        outofplace="1",
        minBytes="0",
        maxBytes="0",
    )
    for rank in range(ranks):
        gpu = ElementTree.SubElement(
            root, "gpu", id=str(rank), i_chunks=str(ranks), o_chunks=str(ranks), s_chunks="0"
        )
        _Gpu(gpu, rank, ranks).add_frames(frames)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def _rank_pairs(traffic: Traffic) -> tuple[list[RankPair], int]:
    """Return source and destination rank of each transfer, and the number of ranks.

    Raises:
        InputError: The traffic is not all-to-all.
    """
    if not len(traffic.ends):
        raise InputError(
            "MSCCL: the transfers do not say whose they are; give a network, not --traffic"
        )
    senders = {source: None for source, _ in traffic.ends}
    receivers = {sink: None for _, sink in traffic.ends}
    source_ranks = {source: rank for rank, source in enumerate(senders)}
    sink_ranks = {sink: rank for rank, sink in enumerate(receivers)}
    if senders.keys() == receivers.keys():
        # The same hosts send and receive, and a host is one rank.
        sink_ranks = source_ranks
    pairs = [(source_ranks[source], sink_ranks[sink]) for source, sink in traffic.ends]
    ranks = len(source_ranks)
    pairs_of_others = {pair for pair in pairs if pair[0] != pair[1]}
    all_different = len(set(pairs)) == len(pairs)
    complete = len(pairs_of_others) == ranks * (ranks - 1)
    if len(sink_ranks) != ranks or ranks < 2 or not all_different or not complete:
        raise InputError(
            f"MSCCL: {len(pairs)} transfers of {ranks} senders and {len(sink_ranks)} receivers "
            "are no all-to-all exchange; give --pattern all-to-all or all-to-others"
        )
    return pairs, ranks


class _Gpu:
    """A GPU with its thread blocks.

    Of n ranks, thread blocks 0 to n - 2 send to the other ranks in their order, thread blocks n - 1
    to 2n - 3 receive from them, and the last one copies.
    """

    def __init__(self, element: ElementTree.Element, rank: int, ranks: int) -> None:
        self._rank = rank
        self._peers = [peer for peer in range(ranks) if peer != rank]
        self._blocks: list[ElementTree.Element] = []
        for index, peer in enumerate(self._peers):
            channel = index // BLOCKS_OF_CHANNEL
            self._blocks.append(_add_block(element, send=peer, channel=channel))
        for index, peer in enumerate(self._peers):
            channel = index // BLOCKS_OF_CHANNEL
            self._blocks.append(_add_block(element, receive=peer, channel=channel))
        copying_block = _add_block(element)
        _add_step(copying_block, "cpy", rank, rank, None)

    def add_frames(self, frames: Sequence[Sequence[RankPair]]) -> None:
        """Add the steps of all frames.

        Raises:
            InputError: A thread block has too many steps.
        """
        last_step: StepId | None = None
        for frame in frames:
            destinations = [sink for source, sink in frame if source == self._rank]
            sources = [source for source, sink in frame if sink == self._rank]
            for destination in destinations:
                block = self._peers.index(destination)
                last_step = self._add_step("s", block, destination, self._rank, last_step)
            for source in sources:
                block = len(self._peers) + self._peers.index(source)
                last_step = self._add_step("r", block, self._rank, source, last_step)
        for element in self._blocks:
            if len(element) > MAX_STEPS_OF_BLOCK:
                raise InputError(
                    f"MSCCL: a thread block would have {len(element)} steps; "
                    f"it takes {MAX_STEPS_OF_BLOCK}"
                )

    def _add_step(
        self, kind: str, block: int, input_chunk: int, output_chunk: int, waits_for: StepId | None
    ) -> StepId:
        """Add a step, and mark the step for which it waits; return its thread block and number."""
        element = self._blocks[block]
        _add_step(element, kind, input_chunk, output_chunk, waits_for)
        if waits_for is not None:
            awaited_block, awaited_step = waits_for
            self._blocks[awaited_block][awaited_step].set("hasdep", "1")
        return block, len(element) - 1


def _add_block(
    gpu: ElementTree.Element, *, send: int = -1, receive: int = -1, channel: int = 0
) -> ElementTree.Element:
    """Add a thread block to a GPU; ``send`` and ``receive`` are its peers, or -1."""
    return ElementTree.SubElement(
        gpu,
        "tb",
        id=str(len(gpu)),
        send=str(send),
        recv=str(receive),
        chan=str(channel),
    )


def _add_step(
    block: ElementTree.Element,
    kind: str,
    input_chunk: int,
    output_chunk: int,
    waits_for: StepId | None,
) -> None:
    """Add a step that moves one block of data from an input chunk to an output chunk.

    Args:
        block: The thread block.
        kind: "s" (send), "r" (receive) or "cpy" (copy).
        input_chunk: Index of the input chunk.
        output_chunk: Index of the output chunk.
        waits_for: The step for which it waits, or None.
    """
    awaited_block, awaited_step = waits_for or (-1, -1)
    ElementTree.SubElement(
        block,
        "step",
        s=str(len(block)),
        type=kind,
        srcbuf="i",
        srcoff=str(input_chunk),
        dstbuf="o",
        dstoff=str(output_chunk),
        cnt="1",
        depid=str(awaited_block),
        deps=str(awaited_step),
        hasdep="0",
    )
