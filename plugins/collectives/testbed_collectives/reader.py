"""Reads an MSCCL algorithm strictly and carries it out, step by step: which block of data ends where, and in which
order.

Of its own: it knows nothing of how an algorithm was written. Steps of a thread block follow each other; a step waits
for the one that it depends on; a send waits while ``SLOTS`` blocks are under way to that rank on that channel, a
receive until there is one. Kinds: s, r, cpy, nop; buffers i, o and s (scratch), so that blocks may pass over other
ranks; ``cnt`` blocks at once.

Times are in time frames, of which a link carries one block each: a send takes the first ``cnt`` frames after what it
waits for in which all links of its path are free.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from xml.etree import ElementTree

from testbed.errors import InputError
from testbed_collectives.lines import LINE, parse_xml, place_of

SLOTS = 1
"""Blocks under way from one rank to another on a channel; MSCCL has more, so that what runs here runs there."""
KINDS = {"s": (True, False), "r": (False, True), "cpy": (False, False), "nop": (False, False)}
"""Kind -> whether it sends, whether it receives."""
Block = tuple[int, int]
"""Rank, chunk of its input."""
Path = Callable[[int, int], Sequence[Hashable]]
_STEP = ("s", "srcoff", "dstoff", "cnt", "depid", "deps", "hasdep")


@dataclass(frozen=True)
class Step:
    """``waits_for``: (thread block, step) of the same GPU, or None. ``marked``: that another step waits for it.
    ``count`` blocks from the places ``source`` on to the places ``sink`` on."""

    kind: str
    source: tuple[str, int]
    sink: tuple[str, int]
    count: int
    line: int
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
    """``blocks[g][t]``: thread block t of GPU g. ``chunks``: of each GPU's input, and of its output, a multiple of the
    ranks."""

    name: str
    ranks: int
    chunks: int
    blocks: tuple[tuple[ThreadBlock, ...], ...]


@dataclass
class Carried:
    """``outputs[g][k]``: (rank, chunk of its input) that ended in chunk k of GPU g's output. ``arrivals``: (source,
    destination), in order. ``moves``: (block, from rank, to rank, time frame, line), in order of sending."""

    outputs: list[dict[int, Block]]
    arrivals: list[tuple[int, int]] = field(default_factory=list)
    moves: list[tuple[Block, int, int, int, int]] = field(default_factory=list)


def read_algorithm(text: str) -> Algorithm:
    """InputError names the element that is wrong: attributes, peers, bounds, dependencies that are not marked or do not
    exist."""
    root = parse_xml(text)
    if root.tag != "algo" or root.get("coll") != "alltoall":
        raise InputError(
            f'MSCCL: <{root.tag} coll="{root.get("coll")}">; only <algo coll="alltoall"> is read'
        )
    ranks, chunks, channels = (
        _whole(root, name, 1) for name in ("ngpus", "nchunksperloop", "nchannels")
    )
    if chunks % ranks:
        raise InputError(
            f"MSCCL: {place_of(root)}{chunks} chunks do not divide among {ranks} ranks"
        )
    gpus = list(root)
    if [(gpu.tag, gpu.get("id")) for gpu in gpus] != [("gpu", str(n)) for n in range(ranks)]:
        raise InputError(f"MSCCL: give the {ranks} GPUs 0 to {ranks - 1}, in order")
    read = tuple(_gpu(gpu, ranks, chunks, channels) for gpu in gpus)
    return Algorithm(root.get("name", ""), ranks, chunks, read)


def _gpu(
    gpu: ElementTree.Element, ranks: int, chunks: int, channels: int
) -> tuple[ThreadBlock, ...]:
    where = f"{place_of(gpu)}GPU {gpu.get('id')}"
    scratch = _whole(gpu, "s_chunks", 0) if gpu.get("s_chunks") is not None else 0
    sizes = {"i": chunks, "o": chunks, "s": scratch}
    for name in ("i_chunks", "o_chunks"):
        if _whole(gpu, name, 0) != chunks:
            raise InputError(f"MSCCL: {where}: {name} is {gpu.get(name)}, nchunksperloop {chunks}")
    found = []
    for number, block in enumerate(gpu):
        here = f"{place_of(block)}GPU {gpu.get('id')}, thread block {number}"
        send, receive, channel = (_whole(block, name, -1) for name in ("send", "recv", "chan"))
        if block.tag != "tb" or _whole(block, "id", 0) != number or not 0 <= channel < channels:
            raise InputError(
                f"MSCCL: {here}: give <tb> with ids in order, and a channel below {channels}"
            )
        if (
            max(send, receive) >= ranks
            or str(send) == gpu.get("id")
            or str(receive) == gpu.get("id")
        ):
            raise InputError(
                f"MSCCL: {here}: peers {send} and {receive} must be other ranks below {ranks}, or -1"
            )
        steps = tuple(_step(step, n, here, sizes) for n, step in enumerate(block))
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


def _step(step: ElementTree.Element, number: int, where: str, sizes: dict[str, int]) -> Step:
    where = f"{place_of(step)}{where.partition(': ')[2] or where}, step {number}"
    place, source, sink, count, block, after, marked = (_whole(step, name, -1) for name in _STEP)
    kind, buffers = step.get("type", ""), (step.get("srcbuf", ""), step.get("dstbuf", ""))
    if step.tag != "step" or place != number or kind not in KINDS or marked not in (0, 1):
        raise InputError(
            f"MSCCL: {where}: <{step.tag} type={kind!r}>: give <step> in order, of a kind among "
            f"{', '.join(KINDS)}, hasdep 0 or 1"
        )
    if not set(buffers) <= set(sizes):
        raise InputError(f"MSCCL: {where}: buffers {buffers}; only i, o and s are read")
    used = [(buffers[0], source)] * (kind in ("s", "cpy")) + [(buffers[1], sink)] * (
        kind in ("r", "cpy")
    )
    if kind != "nop" and (
        count < 1 or any(not 0 <= at <= sizes[name] - count for name, at in used)
    ):
        raise InputError(
            f"MSCCL: {where}: {count} chunks: give 1 or more, within the {sizes} that there are"
        )
    waits = (block, after) if block >= 0 else None
    return Step(
        kind,
        (buffers[0], source),
        (buffers[1], sink),
        count,
        int(step.get(LINE, "0")),
        waits,
        marked == 1,
    )


def _whole(element: ElementTree.Element, name: str, least: int) -> int:
    text = element.get(name, "")
    if not text.lstrip("-").isdigit() or int(text) < least:
        raise InputError(
            f"MSCCL: {place_of(element)}<{element.tag}> has {name}={text!r}; give a whole number, {least} or more"
        )
    return int(text)


def carry_out(algorithm: Algorithm, slots: int = SLOTS, path: Path | None = None) -> Carried:
    """Until all steps are done. InputError where none can go on (deadlock), a block is read that is not there, or one
    is never received. ``path``: the links from rank to rank, by default one of their own."""
    run = _Run(algorithm, slots, path or (lambda a, b: ((a, b),)))
    while run.turn():
        pass
    return run.finished()


class _Run:
    """Where each thread block is, what each GPU's buffers hold, what is under way; when each step was done."""

    def __init__(self, algorithm: Algorithm, slots: int, path: Path) -> None:
        self._algorithm, self._slots, self._path = algorithm, slots, path
        self._carried = Carried(outputs=[{} for _ in range(algorithm.ranks)])
        self._memory: list[dict[str, dict[int, Block]]] = [
            {
                "i": {n: (rank, n) for n in range(algorithm.chunks)},
                "o": self._carried.outputs[rank],
                "s": {},
            }
            for rank in range(algorithm.ranks)
        ]
        self._under_way: dict[tuple[int, int, int], deque[tuple[list[Block], int]]] = {}
        self._at = [[0] * len(blocks) for blocks in algorithm.blocks]
        self._done: list[list[list[int]]] = [[[] for _ in blocks] for blocks in algorithm.blocks]
        self._busy: dict[Hashable, set[int]] = {}

    def turn(self) -> bool:
        """One step of every thread block that can; False where none can."""
        moved = False
        for rank, blocks in enumerate(self._algorithm.blocks):
            for number, block in enumerate(blocks):
                place = self._at[rank][number]
                if place < len(block.steps) and self._takes(rank, number, block.steps[place]):
                    self._at[rank][number] += 1
                    moved = True
        return moved

    def finished(self) -> Carried:
        for rank, blocks in enumerate(self._algorithm.blocks):
            for number, block in enumerate(blocks):
                place = self._at[rank][number]
                if place < len(block.steps):
                    raise InputError(
                        f"MSCCL: line {block.steps[place].line}: GPU {rank}, thread block {number} is blocked "
                        f"permanently at step {place}"
                    )
        if any(self._under_way.values()):
            raise InputError("MSCCL: a block was sent that nobody receives")
        return self._carried

    def _takes(self, rank: int, number: int, step: Step) -> bool:
        """Carry out a step if it can be now."""
        waits, block, done = step.waits_for, self._algorithm.blocks[rank][number], self._done[rank]
        if waits is not None and self._at[rank][waits[0]] <= waits[1]:
            return False
        ready = max([0, *done[number][-1:], *([done[waits[0]][waits[1]]] if waits else [])])
        memory, (buffer, chunk) = self._memory[rank], step.sink
        if step.kind == "cpy":
            memory[buffer].update(enumerate(self._held(rank, step), chunk))
        elif step.kind == "s":
            way = self._under_way.setdefault((rank, block.send, block.channel), deque())
            if len(way) >= self._slots:
                return False
            held = self._held(rank, step)
            for one in held:
                frame = self._free_frame(self._path(rank, block.send), ready)
                self._carried.moves.append((one, rank, block.send, frame, step.line))
                ready = frame + 1
            way.append((held, ready))
        elif step.kind == "r":
            way = self._under_way.setdefault((block.receive, rank, block.channel), deque())
            if not way:
                return False
            held, arrived = way.popleft()
            if len(held) != step.count:
                raise InputError(
                    f"MSCCL: line {step.line}: GPU {rank} receives {step.count} of {len(held)} blocks"
                )
            memory[buffer].update(enumerate(held, chunk))
            self._carried.arrivals += [(block.receive, rank)] * len(held)
            ready = max(ready, arrived)
        done[number].append(ready)
        return True

    def _free_frame(self, links: Sequence[Hashable], ready: int) -> int:
        while any(ready in self._busy.setdefault(link, set()) for link in links):
            ready += 1
        for link in links:
            self._busy[link].add(ready)
        return ready

    def _held(self, rank: int, step: Step) -> list[Block]:
        buffer, first = step.source
        held = [self._memory[rank][buffer].get(chunk) for chunk in range(first, first + step.count)]
        if None in held:
            raise InputError(
                f"MSCCL: line {step.line}: GPU {rank} reads chunk {first + held.index(None)} of {buffer!r}, where "
                "nothing is yet"
            )
        return [one for one in held if one is not None]


def check_all_to_all(carried: Carried, chunks: int | None = None) -> None:
    """InputError where some output chunk of a GPU is not the chunk that the rank it belongs to has for it."""
    ranks = len(carried.outputs)
    each = (chunks or ranks) // ranks
    for rank, output in enumerate(carried.outputs):
        for place in range(ranks * each):
            wanted = (place // each, rank * each + place % each)
            if output.get(place) != wanted:
                raise InputError(
                    f"MSCCL: output chunk {place} of GPU {rank} holds {output.get(place)}, not {wanted}"
                )
