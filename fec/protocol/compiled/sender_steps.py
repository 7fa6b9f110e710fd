"""What a compiled sender does for every packet: the steps of ``fill``, on tables that Python fills and reads."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fec.jit import compiled_entry
from fec.protocol.batches import LABEL_BEFORE
from fec.protocol.compiled.words import CRC_BITS, DATA, HEADER, PARITY, SEAL, call, put, teach

SOURCE, ON_TIME, LATE = -1, 0, 1
"""What a packet is: the second and the third are lanes of parity, each in the order in which it was queued."""
RUNS = 8192
"""Queued in a lane at most."""
_COUNTS = ("limit", "made", "block", "symbol", "ready", "sized", "next_label", "laid", "ended")
_SUMS = ("parity_sent", "late_sent")
_FIXED = (
    "m",
    "symbol_bytes",
    "own",
    "front",
    "flags",
    "rows_at",
    "pointers_at",
    "crc_at",
    "multiply_at",
)
SENDER = np.dtype(
    [(name, "f8") for name in ("now_s", "due_s", "interval_s", "playback_s")]
    + [(name, "i8") for name in (*_COUNTS, *_SUMS, *_FIXED)]
)
"""``block``, ``symbol``: of the next source packet; ``ready``: source symbols that are there, of all ever; ``sized``:
the block up to which ``sizes`` tells N; ``next_label``: place in ``labels`` of the next block's first one; ``own``: so
many of ``bodies`` are for source symbols, ``laid``: parity ever written into the others, round and round; ``front``:
bytes of a row in front of the packet; ``due_s``: of the next packet that was not made; ``pointers_at``: where a pointer
to each of ``bodies`` lies; ``crc_at``, ``multiply_at``: ISA-L's functions."""
BLOCK = np.dtype(
    [(name, "i8") for name in ("number", "first_label", "size", "sent")] + [("started_s", "f8")]
)
RUN = np.dtype(
    [(name, "f8") for name in ("first_s", "step_s", "half")]
    + [(name, "i8") for name in ("done", "stop", "first", "block", "row")]
)
"""Parity of one block, symbols from ``first`` on: number k is due at first_s + (k + half) * step_s. ``row``: its first
symbol's, counted as ``laid``."""


class SenderTables(NamedTuple):
    """``runs``: of both lanes, ``ends``: how many of a lane are over and how many were queued; ``sizes``: N of blocks
    to begin, each at its number's place, round and round; ``paths``: of each label, ``numbers``: the next one on each
    path; ``multipliers``: where ISA-L's tables for all parity of a block of each size are; ``rows``: a packet each,
    with what all headers have in common; ``log``: its due time, block, symbol, label and N."""

    sender: NDArray[Any]
    runs: NDArray[Any]
    ends: NDArray[np.int64]
    blocks: NDArray[Any]
    sizes: NDArray[np.int64]
    bodies: NDArray[np.uint8]
    labels: NDArray[np.uint16]
    paths: NDArray[np.uint8]
    numbers: NDArray[np.int64]
    multipliers: NDArray[np.int64]
    rows: NDArray[np.uint8]
    log: NDArray[np.float64]


def due_next(t: SenderTables) -> tuple[int, float]:
    """What is due next, and when."""
    s = t.sender[0]
    lane, due = SOURCE, np.inf
    if not (s.ended and s.symbol == 0):
        due = (s.block * s.m + s.symbol) * s.interval_s
    for other in range(2):
        if t.ends[other, 0] < t.ends[other, 1]:
            run = t.runs[other, t.ends[other, 0] & (RUNS - 1)]
            at = run.first_s + (run.done + run.half) * run.step_s
            if at <= due:
                lane, due = other, at
    return lane, due


def begin(t: SenderTables) -> None:
    """The next block, whose first packet is due."""
    s = t.sender[0]
    block = t.blocks[s.block & (len(t.blocks) - 1)]
    block.number, block.first_label, block.sent, block.started_s = s.block, s.next_label, 0, s.due_s
    block.size = t.sizes[s.block & (len(t.sizes) - 1)]
    s.next_label = (s.next_label + block.size) % len(t.labels)


def take(t: SenderTables, lane: int) -> tuple[int, int, int]:
    """Block, symbol and its row, of a source symbol among all of ``bodies``, of the next one of a lane, which goes
    on."""
    s = t.sender[0]
    if lane == SOURCE:
        s.symbol += 1
        return s.block, s.symbol - 1, (s.block & (len(t.blocks) - 1)) * s.m + s.symbol - 1
    run = t.runs[lane, t.ends[lane, 0] & (RUNS - 1)]
    run.done += 1
    if run.done == run.stop:
        t.ends[lane, 0] += 1
    return run.block, run.first + run.done - 1, run.row + run.done - 1


def make_parity(t: SenderTables, number: int, due_s: float) -> None:
    """All parity of a block that is whole, due in the time of the next block."""
    s, block = t.sender[0], t.blocks[number & (len(t.blocks) - 1)]
    count, place, last = block.size - s.m, s.laid, len(t.bodies) - s.own - 1
    if (place & last) + count > last + 1:
        place += -place & last
    s.laid = place + count
    sources, parity = (number & (len(t.blocks) - 1)) * s.m, s.own + (place & last)
    call(
        s.multiply_at, s.symbol_bytes, s.m, count, t.multipliers[block.size],
        s.pointers_at + 8 * sources, s.pointers_at + 8 * parity,
    )  # fmt: skip
    if t.ends[ON_TIME, 1] - t.ends[ON_TIME, 0] < RUNS:
        run = t.runs[ON_TIME, t.ends[ON_TIME, 1] & (RUNS - 1)]
        run.first_s, run.step_s, run.half, run.done, run.stop = (
            due_s,
            s.m * s.interval_s / count,
            0.5,
            0,
            count,
        )
        run.first, run.block, run.row = s.m, number, place
        t.ends[ON_TIME, 1] += 1


def write(t: SenderTables, number: int, symbol: int, place: int, label: int) -> None:
    """One packet: its label into the UDP header in front of it, header, symbol, CRC."""
    s, frame = t.sender[0], t.rows[t.sender[0].made]
    row = frame[s.front :]
    body, block = t.bodies[place], t.blocks[number & (len(t.blocks) - 1)]
    path, on_path = t.paths[label], np.int64(0)
    if path:
        on_path = t.numbers[path]
        t.numbers[path] = on_path + 1
    put(frame, s.front - LABEL_BEFORE, 2, label)
    row[0] = PARITY if symbol >= s.m else DATA
    put(row, 4, 4, number << 8 | symbol)
    row[14] = block.size
    row[15] = path
    put(row, 16, 2, on_path)
    put(row, 20, 4, np.int64(s.now_s * 1e6))
    put(row, SEAL, 4, 0)
    for j in range(s.symbol_bytes):
        row[HEADER + j] = body[j]
    if not s.flags:
        at = s.rows_at + s.made * t.rows.shape[1] + s.front
        put(row, SEAL, 4, call(s.crc_at, 0, at, HEADER + s.symbol_bytes, 0, 0, 0) & CRC_BITS)


def fill(t: SenderTables) -> int:
    """Make packets that are due by now, until ``limit`` are made. 1 where it stops early, since the next source packet
    is due and its payload or its block's N is missing, else 0."""
    s, places = t.sender[0], len(t.bodies) - t.sender[0].own
    while s.made < s.limit:
        lane, s.due_s = due_next(t)
        if s.due_s > s.now_s:
            break
        if lane == SOURCE:
            if s.block * s.m + s.symbol == s.ready or (s.symbol == 0 and s.block >= s.sized):
                return 1
            if s.symbol == 0:
                begin(t)
        number, symbol, place = take(t, lane)
        block = t.blocks[number & (len(t.blocks) - 1)]
        gone = block.number != number or s.laid - place > places
        if lane == LATE and (s.now_s > block.started_s + s.playback_s or gone):
            continue  # it would come in vain
        s.late_sent += lane == LATE
        s.parity_sent += lane != SOURCE
        block.sent += 1
        index = block.first_label + symbol
        label = t.labels[index if index < len(t.labels) else index - len(t.labels)]
        write(t, number, symbol, place if lane == SOURCE else s.own + (place & (places - 1)), label)
        log = t.log[s.made]
        log[0], log[1], log[2], log[3], log[4] = s.due_s, number, symbol, label, block.size
        s.made += 1
        if lane == SOURCE and symbol == s.m - 1:
            s.block, s.symbol = number + 1, 0
            if block.size > s.m:
                make_parity(t, number, s.due_s)
    return 0


FILL = compiled_entry(
    fill,
    teach=teach,
    taught=(call,),
    inline=(due_next, begin, take, write, put),
    error_model="numpy",
    _nrt=False,
)
