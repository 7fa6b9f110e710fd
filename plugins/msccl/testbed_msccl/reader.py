"""Reads an MSCCL algorithm strictly and carries it out, step by step: which block of data ends where, and in which
order.

Of its own: it knows nothing of how an algorithm was written. Steps of a thread block follow each other; a step waits
for the one that it depends on; a send waits while ``SLOTS`` blocks are under way to that rank on that channel, a
receive until there is one. Kinds: s, r, cpy, nop.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from xml.etree import ElementTree

from testbed.errors import InputError

SLOTS = 1
"""Blocks under way from one rank to another on a channel; MSCCL has more, so that what runs here runs there."""
KINDS = {"s": (True, False), "r": (False, True), "cpy": (False, False), "nop": (False, False)}
"""Kind -> whether it sends, whether it receives."""
_STEP = ("s", "srcoff", "dstoff", "cnt", "depid", "deps", "hasdep")


@dataclass(frozen=True)
class Step:
    """``waits_for``: (thread block, step) of the same GPU, or None. ``marked``: that another step waits for it."""

    kind: str
    source: tuple[str, int]
    sink: tuple[str, int]
    waits_for: tuple[int, int] | None
    marked: bool


@dataclass(frozen=True)
class ThreadBlock:
    """``send`` and ``receive``: the peers, -1 for none."""

    send: int
    receive: int
    channel: int
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Algorithm:
    """``blocks[g][t]``: thread block t of GPU g. ``chunks``: of each GPU's input, and of its output."""

    name: str
    ranks: int
    chunks: int
    blocks: tuple[tuple[ThreadBlock, ...], ...]


@dataclass
class Carried:
    """``outputs[g][k]``: (rank, chunk of its input) that ended in chunk k of GPU g's output. ``arrivals``: (source,
    destination), in order."""

    outputs: list[dict[int, tuple[int, int]]]
    arrivals: list[tuple[int, int]] = field(default_factory=list)


def read_algorithm(text: str) -> Algorithm:
    """InputError names the element that is wrong: attributes, peers, bounds, dependencies that are not marked or do not
    exist."""
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise InputError(f"MSCCL: no XML ({error})") from None
    if root.tag != "algo" or root.get("coll") != "alltoall":
        raise InputError(f'MSCCL: <{root.tag} coll="{root.get("coll")}">; only <algo coll="alltoall"> is read')
    ranks, chunks, channels = (_whole(root, name, 1) for name in ("ngpus", "nchunksperloop", "nchannels"))
    gpus = list(root)
    if [(gpu.tag, gpu.get("id")) for gpu in gpus] != [("gpu", str(n)) for n in range(ranks)]:
        raise InputError(f"MSCCL: give the {ranks} GPUs 0 to {ranks - 1}, in order")
    read = tuple(_gpu(gpu, ranks, chunks, channels) for gpu in gpus)
    return Algorithm(root.get("name", ""), ranks, chunks, read)


def _gpu(gpu: ElementTree.Element, ranks: int, chunks: int, channels: int) -> tuple[ThreadBlock, ...]:
    where = f"GPU {gpu.get('id')}"
    for name in ("i_chunks", "o_chunks"):
        if _whole(gpu, name, 0) != chunks:
            raise InputError(f"MSCCL: {where}: {name} is {gpu.get(name)}, nchunksperloop {chunks}")
    found = []
    for number, block in enumerate(gpu):
        here = f"{where}, thread block {number}"
        send, receive, channel = (_whole(block, name, -1) for name in ("send", "recv", "chan"))
        if block.tag != "tb" or _whole(block, "id", 0) != number or not 0 <= channel < channels:
            raise InputError(f"MSCCL: {here}: give <tb> with ids in order, and a channel below {channels}")
        if max(send, receive) >= ranks or str(send) == gpu.get("id") or str(receive) == gpu.get("id"):
            raise InputError(f"MSCCL: {here}: peers {send} and {receive} must be other ranks below {ranks}, or -1")
        steps = tuple(_step(step, n, here, chunks) for n, step in enumerate(block))
        for step in steps:
            sends, receives = KINDS[step.kind]
            if (sends and send < 0) or (receives and receive < 0):
                raise InputError(f"MSCCL: {here}: a step {step.kind!r} without a peer")
        found.append(ThreadBlock(send, receive, channel, steps))
    for block_read in found:
        for waits in (step.waits_for for step in block_read.steps if step.waits_for):
            if waits[0] >= len(found) or waits[1] >= len(found[waits[0]].steps):
                raise InputError(f"MSCCL: {where}: a step waits for {waits}, which there is not")
            if not found[waits[0]].steps[waits[1]].marked:
                raise InputError(f"MSCCL: {where}: a step waits for {waits}, which has no hasdep")
    return tuple(found)


def _step(step: ElementTree.Element, number: int, where: str, chunks: int) -> Step:
    where = f"{where}, step {number}"
    place, source, sink, count, block, after, marked = (_whole(step, name, -1) for name in _STEP)
    kind, buffers = step.get("type", ""), (step.get("srcbuf", ""), step.get("dstbuf", ""))
    if step.tag != "step" or place != number or kind not in KINDS or marked not in (0, 1):
        raise InputError(f"MSCCL: {where}: give <step> in order, of a kind among {', '.join(KINDS)}, hasdep 0 or 1")
    if kind != "nop" and (count != 1 or not 0 <= source < chunks or not 0 <= sink < chunks):
        raise InputError(f"MSCCL: {where}: one chunk at a time, within the {chunks} there are")
    if not set(buffers) <= {"i", "o"}:
        raise InputError(f"MSCCL: {where}: buffers {buffers}; only i and o are read")
    waits = (block, after) if block >= 0 else None
    return Step(kind, (buffers[0], source), (buffers[1], sink), waits, marked == 1)


def _whole(element: ElementTree.Element, name: str, least: int) -> int:
    text = element.get(name, "")
    if not text.lstrip("-").isdigit() or int(text) < least:
        raise InputError(f"MSCCL: <{element.tag}> has {name}={text!r}; give a whole number, {least} or more")
    return int(text)


def carry_out(algorithm: Algorithm, slots: int = SLOTS) -> Carried:
    """Until all steps are done. InputError where none can go on (deadlock), a block is read that is not there, or one
    is never received."""
    run = _Run(algorithm, slots)
    while run.turn():
        pass
    return run.finished()


class _Run:
    """Where each thread block is, what each GPU's buffers hold, what is under way."""

    def __init__(self, algorithm: Algorithm, slots: int) -> None:
        self._algorithm, self._slots = algorithm, slots
        self._carried = Carried(outputs=[{} for _ in range(algorithm.ranks)])
        self._memory = [
            {"i": {n: (rank, n) for n in range(algorithm.chunks)}, "o": self._carried.outputs[rank]}
            for rank in range(algorithm.ranks)
        ]
        self._under_way: dict[tuple[int, int, int], deque[tuple[int, int]]] = {}
        self._at = [[0] * len(blocks) for blocks in algorithm.blocks]

    def turn(self) -> bool:
        """One step of every thread block that can; False where none can."""
        moved = False
        for rank, blocks in enumerate(self._algorithm.blocks):
            for number, block in enumerate(blocks):
                place = self._at[rank][number]
                if place < len(block.steps) and self._takes(rank, block, block.steps[place]):
                    self._at[rank][number] += 1
                    moved = True
        return moved

    def finished(self) -> Carried:
        for rank, blocks in enumerate(self._algorithm.blocks):
            for number, block in enumerate(blocks):
                place = self._at[rank][number]
                if place < len(block.steps):
                    raise InputError(f"MSCCL: GPU {rank}, thread block {number} is blocked permanently at step {place}")
        if any(self._under_way.values()):
            raise InputError("MSCCL: a block was sent that nobody receives")
        return self._carried

    def _takes(self, rank: int, block: ThreadBlock, step: Step) -> bool:
        """Carry out a step if it can be now."""
        if step.waits_for is not None and self._at[rank][step.waits_for[0]] <= step.waits_for[1]:
            return False
        memory, (buffer, chunk) = self._memory[rank], step.sink
        if step.kind == "cpy":
            memory[buffer][chunk] = self._held(rank, step)
        elif step.kind == "s":
            way = self._under_way.setdefault((rank, block.send, block.channel), deque())
            if len(way) >= self._slots:
                return False
            way.append(self._held(rank, step))
        elif step.kind == "r":
            way = self._under_way.setdefault((block.receive, rank, block.channel), deque())
            if not way:
                return False
            memory[buffer][chunk] = way.popleft()
            self._carried.arrivals.append((block.receive, rank))
        return True

    def _held(self, rank: int, step: Step) -> tuple[int, int]:
        buffer, chunk = step.source
        if chunk not in self._memory[rank][buffer]:
            raise InputError(f"MSCCL: GPU {rank} reads chunk {chunk} of {buffer!r}, where nothing is yet")
        return self._memory[rank][buffer][chunk]


def check_all_to_all(carried: Carried) -> None:
    """InputError where some output chunk k of a GPU g is not chunk g of rank k's input."""
    for rank, output in enumerate(carried.outputs):
        for other in range(len(carried.outputs)):
            if output.get(other) != (other, rank):
                raise InputError(
                    f"MSCCL: output chunk {other} of GPU {rank} holds {output.get(other)}, not {(other, rank)}"
                )
