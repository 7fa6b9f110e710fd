"""Reads an MSCCL algorithm strictly, and executes it step by step.

The result says which block of data arrives where, and in which order. The module does not know how
the algorithm was written.

- The steps of a thread block follow each other.
- A step waits for the step on which it depends.
- A send waits while a maximum number of messages is in transit to the same rank on the same
  channel. A message consists of the ``cnt`` blocks of a send. A receive waits for a message.
- Kinds of steps are s (send), r (receive), cpy (copy) and nop. Buffers are i (input), o (output)
  and s (scratch), so that blocks may pass through other ranks. A step moves ``cnt`` blocks.

Times are in time frames. A link carries one block per frame. After everything for which it waits, a
send takes the first ``cnt`` frames in which all links of its path are free.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from xml.etree import ElementTree

from testbed.errors import InputError
from testbed_collectives.lines import LINE, line_prefix, parse_xml

# Maximum number of messages in transit from one rank to another on a channel. A message consists of
# the blocks of a send. MSCCL allows more, so that an algorithm
# that is executed here works there too.
SLOTS = 1

SENDING = "s"
RECEIVING = "r"
COPYING = "cpy"
KINDS = (SENDING, RECEIVING, COPYING, "nop")

# Rank, and chunk of its input.
Block = tuple[int, int]
# Returns the links from a source rank to a destination rank.
Path = Callable[[int, int], Sequence[Hashable]]


class Position(NamedTuple):
    """The first chunk that a step reads or writes.

    Attributes:
        buffer: "i", "o" or "s".
        chunk: Index of the chunk in this buffer.
    """

    buffer: str
    chunk: int


@dataclass(frozen=True)
class Step:
    """A step of a thread block.

    Attributes:
        kind: One of ``KINDS``.
        source: The first chunk that it reads.
        sink: The first chunk that it writes.
        count: Number of chunks.
        line: Line of the file, or 0.
        waits_for: Thread block and step of the same GPU for which it waits, or None.
        marked: Whether it is marked as a step for which another step waits.
    """

    kind: str
    source: Position
    sink: Position
    count: int
    line: int
    waits_for: tuple[int, int] | None
    marked: bool


@dataclass(frozen=True)
class ThreadBlock:
    """A thread block of a GPU.

    Attributes:
        send: The rank to which it sends, or -1.
        receive: The rank from which it receives, or -1.
        channel: The channel.
        steps: The steps.
    """

    send: int
    receive: int
    channel: int
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Algorithm:
    """An algorithm of MSCCL.

    Attributes:
        name: Its name.
        ranks: Number of ranks; each has one GPU.
        chunks: Chunks of each GPU's input, and of its output; a multiple of ``ranks``.
        blocks: The thread blocks of each GPU.
    """

    name: str
    ranks: int
    chunks: int
    blocks: tuple[tuple[ThreadBlock, ...], ...]


class SentBlock(NamedTuple):
    """A block that was sent.

    Attributes:
        block: The block.
        source: The rank that sent it.
        destination: The rank to which it was sent.
        frame: The time frame in which it crossed its links.
        line: Line of the step in the file, or 0.
    """

    block: Block
    source: int
    destination: int
    frame: int
    line: int


@dataclass
class Carried:
    """The result of an execution.

    Attributes:
        outputs: For each GPU, the block in each chunk of its output.
        arrivals: Source and destination of each received block, in the order of arrival.
        moves: The blocks in the order in which they were sent.
    """

    outputs: list[dict[int, Block]]
    arrivals: list[tuple[int, int]] = field(default_factory=list)
    moves: list[SentBlock] = field(default_factory=list)


def read_algorithm(text: str) -> Algorithm:
    """Read an algorithm of MSCCL for an all-to-all exchange.

    Raises:
        InputError: An attribute, a peer, a chunk or a dependency is invalid. The message names the
            element.
    """
    root = parse_xml(text)
    if root.tag != "algo" or root.get("coll") != "alltoall":
        raise InputError(
            f'MSCCL: <{root.tag} coll="{root.get("coll")}">; only <algo coll="alltoall"> is read'
        )
    ranks = _integer(root, "ngpus", 1)
    chunks = _integer(root, "nchunksperloop", 1)
    channels = _integer(root, "nchannels", 1)
    if chunks % ranks:
        raise InputError(
            f"MSCCL: {line_prefix(root)}{chunks} chunks do not divide among {ranks} ranks"
        )
    gpus = list(root)
    tags_and_ids = [(gpu.tag, gpu.get("id")) for gpu in gpus]
    if tags_and_ids != [("gpu", str(rank)) for rank in range(ranks)]:
        raise InputError(f"MSCCL: give the {ranks} GPUs 0 to {ranks - 1}, in order")
    blocks = tuple(_gpu(gpu, ranks, chunks, channels) for gpu in gpus)
    return Algorithm(root.get("name", ""), ranks, chunks, blocks)


def _gpu(
    gpu: ElementTree.Element, ranks: int, chunks: int, channels: int
) -> tuple[ThreadBlock, ...]:
    """Read the thread blocks of a GPU."""
    rank = gpu.get("id", "")
    where = f"{line_prefix(gpu)}GPU {rank}"
    scratch_chunks = 0
    if gpu.get("s_chunks") is not None:
        scratch_chunks = _integer(gpu, "s_chunks", 0)
    for name in ("i_chunks", "o_chunks"):
        if _integer(gpu, name, 0) != chunks:
            raise InputError(f"MSCCL: {where}: {name} is {gpu.get(name)}, nchunksperloop {chunks}")
    buffer_sizes = {"i": chunks, "o": chunks, "s": scratch_chunks}
    blocks = []
    for number, element in enumerate(gpu):
        block_where = f"{line_prefix(element)}GPU {rank}, thread block {number}"
        send = _integer(element, "send", -1)
        receive = _integer(element, "recv", -1)
        channel = _integer(element, "chan", -1)
        is_next_block = element.tag == "tb" and _integer(element, "id", 0) == number
        if not is_next_block or not 0 <= channel < channels:
            raise InputError(
                f"MSCCL: {block_where}: give <tb> with ids in order, and a channel below {channels}"
            )
        if max(send, receive) >= ranks or rank in (str(send), str(receive)):
            raise InputError(
                f"MSCCL: {block_where}: peers {send} and {receive} must be other ranks "
                f"below {ranks}, or -1"
            )
        steps = []
        for step_number, step in enumerate(element):
            steps.append(_step(step, step_number, block_where, buffer_sizes))
        block = ThreadBlock(send, receive, channel, tuple(steps))
        _check_peers(block, block_where)
        blocks.append(block)
    _check_dependencies(blocks, where)
    return tuple(blocks)


def _check_peers(block: ThreadBlock, where: str) -> None:
    """Check that a thread block has a peer for each send and receive."""
    for step in block.steps:
        sends_to_none = step.kind == SENDING and block.send < 0
        receives_from_none = step.kind == RECEIVING and block.receive < 0
        if sends_to_none or receives_from_none:
            raise InputError(f"MSCCL: {where}: a step {step.kind!r} without a peer")


def _check_dependencies(blocks: Sequence[ThreadBlock], where: str) -> None:
    """Check that the steps on which others depend exist, and are marked."""
    for block in blocks:
        for step in block.steps:
            if step.waits_for is None:
                continue
            number, step_number = step.waits_for
            if number >= len(blocks) or step_number >= len(blocks[number].steps):
                raise InputError(
                    f"MSCCL: {where}: a step waits for {step.waits_for}, which there is not"
                )
            if not blocks[number].steps[step_number].marked:
                raise InputError(
                    f"MSCCL: {where}: a step waits for {step.waits_for}, which has no hasdep"
                )


def _step(
    step: ElementTree.Element, number: int, block_where: str, buffer_sizes: dict[str, int]
) -> Step:
    """Read a step.

    Args:
        step: The element.
        number: The number that it must have.
        block_where: Line and name of its thread block, for messages.
        buffer_sizes: Number of chunks of each buffer.
    """
    # The line of the step replaces that of the thread block.
    block_name = block_where.partition(": ")[2] or block_where
    where = f"{line_prefix(step)}{block_name}, step {number}"
    step_number = _integer(step, "s", -1)
    source = Position(step.get("srcbuf", ""), _integer(step, "srcoff", -1))
    sink = Position(step.get("dstbuf", ""), _integer(step, "dstoff", -1))
    count = _integer(step, "cnt", -1)
    awaited_block = _integer(step, "depid", -1)
    awaited_step = _integer(step, "deps", -1)
    marked = _integer(step, "hasdep", -1)
    kind = step.get("type", "")
    is_next_step = step.tag == "step" and step_number == number
    if not is_next_step or kind not in KINDS or marked not in (0, 1):
        raise InputError(
            f"MSCCL: {where}: <{step.tag} type={kind!r}>: give <step> in order, of a kind among "
            f"{', '.join(KINDS)}, hasdep 0 or 1"
        )
    result = Step(
        kind=kind,
        source=source,
        sink=sink,
        count=count,
        line=int(step.get(LINE, "0")),
        waits_for=(awaited_block, awaited_step) if awaited_block >= 0 else None,
        marked=marked == 1,
    )
    _check_chunks(result, buffer_sizes, where)
    return result


def _check_chunks(step: Step, buffer_sizes: dict[str, int], where: str) -> None:
    """Check that the chunks that a step reads and writes exist."""
    buffers = (step.source.buffer, step.sink.buffer)
    if not set(buffers) <= set(buffer_sizes):
        raise InputError(f"MSCCL: {where}: buffers {buffers}; only i, o and s are read")
    accessed = []
    if step.kind in (SENDING, COPYING):
        accessed.append(step.source)
    if step.kind in (RECEIVING, COPYING):
        accessed.append(step.sink)
    for position in accessed:
        last_chunk = position.chunk + step.count - 1
        is_inside = position.chunk >= 0 and last_chunk < buffer_sizes[position.buffer]
        if step.count < 1 or not is_inside:
            raise InputError(
                f"MSCCL: {where}: {step.count} chunks: give 1 or more, within the {buffer_sizes} "
                "that there are"
            )


def _integer(element: ElementTree.Element, name: str, minimum: int) -> int:
    """Return an attribute as an integer.

    Raises:
        InputError: The attribute is missing, no integer, or below the minimum.
    """
    text = element.get(name, "")
    if not text.lstrip("-").isdigit() or int(text) < minimum:
        raise InputError(
            f"MSCCL: {line_prefix(element)}<{element.tag}> has {name}={text!r}; "
            f"give a whole number, {minimum} or more"
        )
    return int(text)


def _direct_link(source: int, destination: int) -> Sequence[Hashable]:
    """Return the path between two ranks if each pair of ranks has a link of its own."""
    return ((source, destination),)


def carry_out(algorithm: Algorithm, slots: int = SLOTS, path: Path = _direct_link) -> Carried:
    """Execute an algorithm until all steps are done.

    Args:
        algorithm: The algorithm.
        slots: Maximum number of messages in transit from one rank to another on a channel. A
            message consists of the blocks of a send.
        path: Returns the links from rank to rank.

    Raises:
        InputError: No step can be executed (deadlock), a step reads a chunk that has no block, or a
            block is never received.
    """
    execution = _Execution(algorithm, slots, path)
    while execution.advance():
        pass
    return execution.result()


class _Message(NamedTuple):
    """Blocks of a send in transit, and the first time frame in which they have arrived."""

    blocks: list[Block]
    arrival_frame: int


class _Execution:
    """The state of an execution: of the thread blocks, the buffers and the messages in transit."""

    def __init__(self, algorithm: Algorithm, slots: int, path: Path) -> None:
        self._algorithm = algorithm
        self._slots = slots
        self._path = path
        self._carried = Carried(outputs=[{} for _ in range(algorithm.ranks)])
        # For each rank, the block in each chunk of each buffer.
        self._buffers: list[dict[str, dict[int, Block]]] = []
        for rank, output in enumerate(self._carried.outputs):
            own_blocks = {chunk: (rank, chunk) for chunk in range(algorithm.chunks)}
            self._buffers.append({"i": own_blocks, "o": output, "s": {}})
        # Messages by source, destination and channel.
        self._in_transit: dict[tuple[int, int, int], deque[_Message]] = {}
        # For each rank and thread block, the first time frame after each step that is done.
        self._step_ends: list[list[list[int]]] = []
        for blocks in algorithm.blocks:
            self._step_ends.append([[] for _ in blocks])
        # The time frames in which each link carries a block.
        self._busy_frames: dict[Hashable, set[int]] = {}

    def advance(self) -> bool:
        """Execute one step of each thread block that can, and return whether there was one."""
        advanced = False
        for rank, blocks in enumerate(self._algorithm.blocks):
            for number, block in enumerate(blocks):
                next_step = len(self._step_ends[rank][number])
                if next_step < len(block.steps):
                    if self._execute(rank, number, block.steps[next_step]):
                        advanced = True
        return advanced

    def result(self) -> Carried:
        """Return the result.

        Raises:
            InputError: A step was not executed, or a block not received.
        """
        for rank, blocks in enumerate(self._algorithm.blocks):
            for number, block in enumerate(blocks):
                next_step = len(self._step_ends[rank][number])
                if next_step < len(block.steps):
                    raise InputError(
                        f"MSCCL: line {block.steps[next_step].line}: GPU {rank}, "
                        f"thread block {number} is blocked permanently at step {next_step}"
                    )
        if any(self._in_transit.values()):
            raise InputError("MSCCL: a block was sent that nobody receives")
        return self._carried

    def _execute(self, rank: int, number: int, step: Step) -> bool:
        """Execute a step if it is possible now, and return whether it was."""
        ends_of_rank = self._step_ends[rank]
        start_frame = 0
        if ends_of_rank[number]:
            start_frame = ends_of_rank[number][-1]
        if step.waits_for is not None:
            awaited_block, awaited_step = step.waits_for
            if len(ends_of_rank[awaited_block]) <= awaited_step:
                return False
            start_frame = max(start_frame, ends_of_rank[awaited_block][awaited_step])
        block = self._algorithm.blocks[rank][number]
        end_frame: int | None = start_frame
        if step.kind == COPYING:
            self._write(rank, step.sink, self._read(rank, step))
        elif step.kind == SENDING:
            end_frame = self._send(rank, block, step, start_frame)
        elif step.kind == RECEIVING:
            end_frame = self._receive(rank, block, step, start_frame)
        if end_frame is None:
            return False
        ends_of_rank[number].append(end_frame)
        return True

    def _send(self, rank: int, block: ThreadBlock, step: Step, start_frame: int) -> int | None:
        """Send blocks, and return the frame after the last one, or None if no slot is free."""
        channel = (rank, block.send, block.channel)
        messages = self._in_transit.setdefault(channel, deque())
        if len(messages) >= self._slots:
            return None
        sent = self._read(rank, step)
        frame = start_frame
        for sent_block in sent:
            frame = self._take_frame(self._path(rank, block.send), frame)
            self._carried.moves.append(SentBlock(sent_block, rank, block.send, frame, step.line))
            frame += 1
        messages.append(_Message(sent, frame))
        return frame

    def _receive(self, rank: int, block: ThreadBlock, step: Step, start_frame: int) -> int | None:
        """Receive blocks, and return the frame in which they are there, or None if none were sent.

        Raises:
            InputError: The message has a different number of blocks.
        """
        channel = (block.receive, rank, block.channel)
        messages = self._in_transit.setdefault(channel, deque())
        if not messages:
            return None
        message = messages.popleft()
        count = len(message.blocks)
        if count != step.count:
            raise InputError(
                f"MSCCL: line {step.line}: GPU {rank} receives {step.count} of {count} blocks"
            )
        self._write(rank, step.sink, message.blocks)
        self._carried.arrivals += [(block.receive, rank)] * count
        return max(start_frame, message.arrival_frame)

    def _take_frame(self, links: Sequence[Hashable], frame: int) -> int:
        """Reserve the first frame from this one on in which all links are free, and return it."""
        busy_frames = [self._busy_frames.setdefault(link, set()) for link in links]
        while any(frame in frames for frames in busy_frames):
            frame += 1
        for frames in busy_frames:
            frames.add(frame)
        return frame

    def _read(self, rank: int, step: Step) -> list[Block]:
        """Return the blocks that a step reads.

        Raises:
            InputError: A chunk has no block.
        """
        buffer, first = step.source
        blocks = []
        for chunk in range(first, first + step.count):
            block = self._buffers[rank][buffer].get(chunk)
            if block is None:
                raise InputError(
                    f"MSCCL: line {step.line}: GPU {rank} reads chunk {chunk} of {buffer!r}, "
                    "where nothing is yet"
                )
            blocks.append(block)
        return blocks

    def _write(self, rank: int, position: Position, blocks: Sequence[Block]) -> None:
        self._buffers[rank][position.buffer].update(enumerate(blocks, position.chunk))


def check_all_to_all(carried: Carried, chunks: int | None = None) -> None:
    """Check that every GPU has received its blocks, each in the right output chunk.

    Args:
        carried: The result of an execution.
        chunks: Chunks of each GPU's output. None: one for each rank.

    Raises:
        InputError: An output chunk has another block, or none.
    """
    ranks = len(carried.outputs)
    chunks_of_pair = (chunks or ranks) // ranks
    for rank, output in enumerate(carried.outputs):
        for chunk in range(ranks * chunks_of_pair):
            expected = expected_block(rank, chunk, chunks_of_pair)
            if output.get(chunk) != expected:
                raise InputError(
                    f"MSCCL: output chunk {chunk} of GPU {rank} holds {output.get(chunk)}, "
                    f"not {expected}"
                )


def expected_block(rank: int, chunk: int, chunks_of_pair: int) -> Block:
    """Return the block that must be in an output chunk after an all-to-all exchange.

    The output contains the blocks of rank 0, then those of rank 1, and so on.

    Args:
        rank: Rank of the output.
        chunk: Index of the output chunk.
        chunks_of_pair: Number of chunks that each rank sends to each rank.
    """
    source, offset = divmod(chunk, chunks_of_pair)
    return source, rank * chunks_of_pair + offset
