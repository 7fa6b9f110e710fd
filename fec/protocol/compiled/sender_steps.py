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
_COUNTS = ("limit", "made", "block", "symbol", "ready", "laid", "ended", "parity_sent", "late_sent")
_FIXED = ("m", "symbol_bytes", "front", "flags", "rows_at", "pointers_at", "crc_at", "multiply_at")
SENDER = np.dtype(
    [(name, "f8") for name in ("now_s", "due_s", "interval_s", "playback_s")]
    + [(name, "i8") for name in (*_COUNTS, *_FIXED)]
)
"""``block``, ``symbol``: of the next source packet; ``ready``: source symbols of its block that are there;
``laid``: symbols ever written into ``bodies``, round and round; ``front``: bytes of a row in front of the packet;
``due_s``: of the next packet that was not made; ``pointers_at``: where a pointer to each of ``bodies`` lies;
``crc_at``, ``multiply_at``: ISA-L's functions."""
BLOCK = np.dtype([(name, "i8") for name in ("number", "first_label", "size", "sent", "row")] + [("started_s", "f8")])
RUN = np.dtype(
    [(name, "f8") for name in ("first_s", "step_s", "half")]
    + [(name, "i8") for name in ("done", "stop", "first", "block", "row")]
)
"""Parity of one block, symbols from ``first`` on: number k is due at first_s + (k + half) * step_s. ``row``: its first
symbol's, counted as ``laid``."""


class SenderTables(NamedTuple):
    """``runs``: of both lanes, ``ends``: how many of a lane are over and how many were queued; ``paths``: of each
    label, ``numbers``: the next one on each path; ``multipliers``: where ISA-L's tables for all parity of a block of
    each size are; ``rows``: a packet each, with what all headers have in common; ``log``: its due time, block, symbol,
    label and N."""

    sender: NDArray[Any]
    runs: NDArray[Any]
    ends: NDArray[np.int64]
    blocks: NDArray[Any]
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


def take(t: SenderTables, lane: int) -> tuple[int, int, int]:
    """Block, symbol and its row of the next one of a lane, which goes on."""
    s = t.sender[0]
    if lane == SOURCE:
        s.symbol += 1
        return s.block, s.symbol - 1, t.blocks[s.block & (len(t.blocks) - 1)].row + s.symbol - 1
    run = t.runs[lane, t.ends[lane, 0] & (RUNS - 1)]
    run.done += 1
    if run.done == run.stop:
        t.ends[lane, 0] += 1
    return run.block, run.first + run.done - 1, run.row + run.done - 1


def make_parity(t: SenderTables, number: int, due_s: float) -> None:
    """All parity of a block that is whole, due in the time of the next block."""
    s, block = t.sender[0], t.blocks[number & (len(t.blocks) - 1)]
    count, place = block.size - s.m, s.laid
    if (place & (len(t.bodies) - 1)) + count > len(t.bodies):
        place += -place & (len(t.bodies) - 1)
    s.laid = place + count
    sources, parity = block.row & (len(t.bodies) - 1), place & (len(t.bodies) - 1)
    call(
        s.multiply_at, s.symbol_bytes, s.m, count, t.multipliers[block.size],
        s.pointers_at + 8 * sources, s.pointers_at + 8 * parity,
    )  # fmt: skip
    if t.ends[ON_TIME, 1] - t.ends[ON_TIME, 0] < RUNS:
        run = t.runs[ON_TIME, t.ends[ON_TIME, 1] & (RUNS - 1)]
        run.first_s, run.step_s, run.half, run.done, run.stop = due_s, s.m * s.interval_s / count, 0.5, 0, count
        run.first, run.block, run.row = s.m, number, place
        t.ends[ON_TIME, 1] += 1


def write(t: SenderTables, number: int, symbol: int, place: int, label: int) -> None:
    """One packet: its label into the UDP header in front of it, header, symbol, CRC."""
    s, frame = t.sender[0], t.rows[t.sender[0].made]
    row = frame[s.front :]
    body, block = t.bodies[place & (len(t.bodies) - 1)], t.blocks[number & (len(t.blocks) - 1)]
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
    is due, else 0."""
    s = t.sender[0]
    while s.made < s.limit:
        lane, s.due_s = due_next(t)
        if s.due_s > s.now_s:
            break
        if lane == SOURCE and s.symbol == s.ready:
            return 1
        number, symbol, place = take(t, lane)
        block = t.blocks[number & (len(t.blocks) - 1)]
        gone = block.number != number or s.laid - place > len(t.bodies)
        if lane == LATE and (s.now_s > block.started_s + s.playback_s or gone):
            continue  # it would come in vain
        s.late_sent += lane == LATE
        s.parity_sent += lane != SOURCE
        block.sent += 1
        index = block.first_label + symbol
        label = t.labels[index if index < len(t.labels) else index - len(t.labels)]
        write(t, number, symbol, place, label)
        log = t.log[s.made]
        log[0], log[1], log[2], log[3], log[4] = s.due_s, number, symbol, label, block.size
        s.made += 1
        if lane == SOURCE and symbol == s.m - 1:
            s.block, s.symbol, s.ready = number + 1, 0, 0
            if block.size > s.m:
                make_parity(t, number, s.due_s)
    return 0


FILL = compiled_entry(
    fill, teach=teach, taught=(call,), inline=(due_next, take, write, put), error_model="numpy", _nrt=False
)
