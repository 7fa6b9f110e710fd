"""What a compiled receiver does for every packet: the steps of ``take``, on tables that it shares with Python.

They do what ``StreamReceiver.receive`` does with an ordinary packet: sealed, of the stream's clock, of a block that is
open or the next one to begin. Before any other packet they stop, and Python receives it.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fec.engines.galois_field import ORDER
from fec.jit import compiled_entry
from fec.protocol.batches import MOST
from fec.protocol.compiled.words import CRC_BITS, DATA, HEADER, PARITY, SEAL, call, get, put, teach
from fec.protocol.framing import BLOCK_NUMBERS, MAX_SYMBOL_ID
from fec.protocol.loss_reporting import STAMPS
from fec.protocol.open_blocks import FARTHEST_AHEAD, S_PER_US
from fec.protocol.path_counts import count
from fec.protocol.probation import PERIOD_US, STEP, earliest_us, half_arrived
from fec.protocol.receiver import CLOCK_WINDOW_S

OTHER, DECODABLE = 1, 2
"""Why ``take`` stops early: before a packet for Python; behind the one with which a block can be decoded by it."""
SLOTS = 4 * FARTHEST_AHEAD
"""Of blocks: 4096 may be opened at once beside 8192 that are open."""
PLACES = 2 * FARTHEST_AHEAD + 1
"""For symbols: of blocks that are open and not complete."""
MISSING, SUMS, POINTERS = range(3)
"""Rows of numbers while a block is decoded."""
_TIMES = (
    "newest_at_s",
    "alive_s",
    "window_s",
    "offset_s",
    "least_s",
    "usual_s",
    "closing_s",
    "worst_reordering_s",
)
_FIXED_TIMES = ("playback_s", "quicker_s", "latest_s")
COUNTED = (
    "duplicate",
    "reordered",
    "unused_parity",
    "unused_sources",
    "decoded_blocks",
    "recovered",
)
_BLOCKS = (
    "highest",
    "oldest",
    "stop",
    "touched",
    "in_time",
    "urgent",
    "decodable",
    "free",
    "accepted",
    "delivered",
)
_PACKETS = (
    "known",
    "newest_us",
    "session",
    "waiting",
    "next",
    "count",
    "noted",
    "logged",
    "restored",
)
_FIXED = ("m", "half", "symbol_bytes", "flags", "stream_id", "rows_at", "crc_at", "bodies_at")
_DECODING = ("coefficients_at", "multipliers_at", "pointers_at", "prepare_at", "multiply_at")
RECEIVER = np.dtype(
    [(name, "f8") for name in (*_TIMES, *_FIXED_TIMES, "alarm_s")]
    + [(name, "i8") for name in (*COUNTED, *_BLOCKS, *_PACKETS, *_FIXED, *_DECODING)]
)
"""``known``: a time stamp is known, ``newest_us``; open are the blocks from ``oldest`` up to ``stop``; ``touched``: the
lowest block with a symbol that no report knows of; ``alarm_s``: when a block could not be repaired, or minus infinity;
``next``: packet of ``count``; ``noted``, ``logged``, ``restored``: rows of what was; ``prepare_at``, ``multiply_at``:
ISA-L's functions."""
_BLOCK = ("number", "start_us", "size", "arrived", "top", "complete", "spoilt", "place")
BLOCK = np.dtype([(name, "i8") for name in _BLOCK])
"""``top``: one more than the highest symbol that came; ``place``: of its symbols, -1 where it has none."""


class ReceiverTables(NamedTuple):
    """``bits``: of each block's symbols; ``symbols``: which they are at a place, in the order in which they came, and
    ``bodies`` what they are, until their block is complete; ``free``: places, those given back last in the end;
    ``rows``: those of a batch, then ``MOST`` for symbols that are restored; ``good``: a packet's seal of a key holds;
    ``noted``: source packet and where its payload lies in the rows that are used, or a block that is complete, -1 and
    how many came of it; how many are recovered, and by which packet; ``log``: time, block as the packet has it, symbol;
    ``powers``, ``logarithms``: of the field; ``numbers``: what a decoding keeps in rows."""

    receiver: NDArray[Any]
    blocks: NDArray[Any]
    bits: NDArray[np.int64]
    symbols: NDArray[np.uint8]
    bodies: NDArray[np.uint8]
    free: NDArray[np.int64]
    paths: NDArray[np.int64]
    schedule: NDArray[np.float64]
    rows: NDArray[np.uint8]
    lengths: NDArray[np.int64]
    times: NDArray[np.float64]
    good: NDArray[np.uint8]
    noted: NDArray[np.int64]
    log: NDArray[np.float64]
    powers: NDArray[np.uint8]
    logarithms: NDArray[np.int64]
    numbers: NDArray[np.int64]
    coefficients: NDArray[np.uint8]


def near(number: int, reference: int, modulus: int) -> int:
    """The number congruent to ``number`` that is nearest to ``reference``."""
    return reference + ((number - reference + modulus // 2) & (modulus - 1)) - modulus // 2


def is_sealed(t: ReceiverTables, k: int) -> Any:
    """Whether a datagram is a packet of this stream."""
    r, row = t.receiver[0], t.rows[k]
    stop = HEADER + r.symbol_bytes
    if (
        t.lengths[k] != stop
        or row[1] != r.flags
        or get(row, 2, 2) != r.stream_id
        or get(row, 12, 2) != r.m
    ):
        return False
    symbol, seal = row[7], get(row, SEAL, 4)
    if symbol > MAX_SYMBOL_ID or row[14] < r.m or get(row, 18, 2) != r.symbol_bytes:
        return False
    if row[0] != (PARITY if symbol >= r.m else DATA):
        return False
    if r.flags:
        return t.good[k] != 0
    put(row, SEAL, 4, 0)
    right = call(r.crc_at, 0, r.rows_at + k * t.rows.shape[1], stop, 0, 0, 0) & CRC_BITS == seal
    put(row, SEAL, 4, seal)
    return right


def plan_closing(t: ReceiverTables) -> None:
    """When the oldest block is over."""
    r = t.receiver[0]
    r.closing_s = np.inf
    if r.oldest < r.stop:
        r.closing_s = (
            t.blocks[r.oldest & (SLOTS - 1)].start_us * S_PER_US + r.offset_s + r.playback_s
        )


def began(t: ReceiverTables, number: int, sent_us: int) -> None:
    """A block began no later than its earliest packet was sent, and those before it no later than it did."""
    r = t.receiver[0]
    while r.oldest <= number < r.stop and t.blocks[number & (SLOTS - 1)].start_us > sent_us:
        t.blocks[number & (SLOTS - 1)].start_us = sent_us
        number -= 1
    plan_closing(t)


def close_complete(t: ReceiverTables, now_s: float) -> bool:
    """Close the blocks that are over; False where one is for Python: not complete, or spoilt."""
    r = t.receiver[0]
    while r.closing_s <= now_s:
        b = t.blocks[r.oldest & (SLOTS - 1)]
        if not b.complete or b.spoilt:
            return False
        r.oldest += 1
        plan_closing(t)
    return True


def may_begin(t: ReceiverTables, number: int, sent_us: int, now_s: float) -> Any:
    """Whether a block that is not open is the next one, and begins as usual."""
    r = t.receiver[0]
    is_next = (
        number == r.highest + 1 == r.stop and r.oldest < r.stop < r.oldest + 2 * FARTHEST_AHEAD
    )
    usual = now_s >= r.newest_at_s - r.quicker_s and t.schedule[PERIOD_US] >= 0
    return is_next and usual and sent_us >= earliest_us(t.schedule, number)


def begin(t: ReceiverTables, number: int, sent_us: int, now_s: float) -> None:
    """``StreamReceiver._open_until`` for the next block."""
    r, b = t.receiver[0], t.blocks[number & (SLOTS - 1)]
    b.number, b.start_us, b.size, b.arrived, b.top = number, sent_us, r.m, 0, 0
    b.complete, b.spoilt, b.place = 0, 0, -1
    t.bits[number & (SLOTS - 1)] = 0
    r.highest, r.stop, r.touched = number, number + 1, min(r.touched, number)
    began(t, number - 1, sent_us)
    if number - 2 >= r.oldest and not t.blocks[(number - 2) & (SLOTS - 1)].complete:
        r.urgent, r.alarm_s = 1, now_s


def keep_time(t: ReceiverTables, sent_us: int, transit_s: float, now_s: float) -> None:
    """The newest packet, and the clocks' difference."""
    r = t.receiver[0]
    if sent_us >= r.newest_us:
        r.newest_us, r.newest_at_s, r.alive_s = sent_us, now_s, now_s
    else:
        r.reordered += 1
        r.worst_reordering_s = max(r.worst_reordering_s, (r.newest_us - sent_us) * S_PER_US)
    r.least_s = min(r.least_s, transit_s)
    if not 0 <= now_s - r.window_s < CLOCK_WINDOW_S:
        r.offset_s, r.least_s, r.window_s = r.least_s, transit_s, now_s
        plan_closing(t)


def tell(t: ReceiverTables, what: int, start: int, stop: int, recovered: int, k: int) -> None:
    """What happened, for Python to hand on."""
    row = t.noted[t.receiver[0].noted]
    row[0], row[1], row[2], row[3], row[4] = what, start, stop, recovered, k
    t.receiver[0].noted += 1


def deliver(t: ReceiverTables, source: int, row: int, place: int, recovered: int, k: int) -> None:
    """A source packet, in a row; ``place``: of that row among those that are used."""
    at = place * t.rows.shape[1] + HEADER + 2
    t.receiver[0].delivered += 1
    tell(t, source, at, at + get(t.rows[row], HEADER, 2), recovered, k)


def interpolate(t: ReceiverTables, known: NDArray[np.uint8], count: int) -> None:
    """``interpolation_rows`` of so many missing source packets into ``coefficients``."""
    m, missing, sums = t.receiver[0].m, t.numbers[MISSING], t.numbers[SUMS]
    for e in range(m + count):
        point, sums[e] = t.powers[known[e] if e < m else missing[e - m]], 0
        for c in range(m):
            sums[e] += t.logarithms[point ^ t.powers[known[c]]]
    for w in range(count):
        for c in range(m):
            apart = t.logarithms[t.powers[missing[w]] ^ t.powers[known[c]]]
            t.coefficients[w * m + c] = t.powers[(sums[m + w] - apart - sums[c]) % ORDER]


def restore(t: ReceiverTables, number: int, k: int) -> int:
    """Decode a block of which M symbols are there, and tell of its missing source packets: how many, -1 where Python
    has to, since there is no room, one cannot be read, or symbols came before the stream was followed there again."""
    r, b, slot = t.receiver[0], t.blocks[number & (SLOTS - 1)], number & (SLOTS - 1)
    m, length, missing, pointers = r.m, r.symbol_bytes, t.numbers[MISSING], t.numbers[POINTERS]
    count, came, first = 0, 0, MOST + r.restored
    for symbol in range(max(m, b.top)):
        if t.bits[slot, symbol >> 6] >> (symbol & 63) & 1:
            came += 1
        elif symbol < m:
            missing[count] = symbol
            count += 1
    if came != b.arrived or first + count > len(t.rows):
        return -1
    if count:
        interpolate(t, t.symbols[b.place], count)
        for e in range(m):
            pointers[e] = r.bodies_at + (b.place * m + e) * length
        for j in range(count):
            pointers[m + j] = r.rows_at + (first + j) * t.rows.shape[1] + HEADER
        call(r.prepare_at, m, count, r.coefficients_at, r.multipliers_at, 0, 0)
        call(
            r.multiply_at, length, m, count, r.multipliers_at, r.pointers_at, r.pointers_at + 8 * m
        )
    for j in range(count):
        if get(t.rows[first + j], HEADER, 2) + 2 > length:
            return -1
    for j in range(count):
        deliver(t, number * m + missing[j], first + j, r.count + r.restored + j, 1, k)
    r.restored += count
    r.recovered += count
    return count


def use(t: ReceiverTables, k: int, number: int, symbol: Any, sent_us: int) -> bool:
    """``StreamReceiver._use``: a symbol that an open block did not have. Whether the block has to be decoded now."""
    r, b, now_s = t.receiver[0], t.blocks[number & (SLOTS - 1)], t.times[k]
    if sent_us < b.start_us and sent_us >= earliest_us(t.schedule, number):
        began(t, number, sent_us)
    if b.complete:
        r.unused_parity += symbol >= r.m
        r.unused_sources += symbol < r.m
        return False
    if b.place < 0:
        r.free -= 1
        b.place = t.free[r.free]
    t.symbols[b.place, b.arrived] = symbol
    row, body = t.rows[k], t.bodies[b.place, b.arrived]
    for j in range(r.symbol_bytes):
        body[j] = row[HEADER + j]
    b.arrived += 1
    if symbol < r.m:
        deliver(t, number * r.m + symbol, k, k, 0, k)
        if b.arrived == r.half:
            half_arrived(t.schedule, number, sent_us)
            step_s = r.quicker_s * STEP
            r.usual_s += step_s if now_s - sent_us * S_PER_US > r.usual_s else -step_s
    if b.arrived >= r.m:
        r.in_time = 1
        recovered = restore(t, number, k)
        if recovered < 0:
            r.decodable = number
            return True
        r.decoded_blocks += 1
        tell(t, number, -1, b.arrived, recovered, k)
        t.free[r.free] = b.place
        r.free += 1
        b.complete, b.arrived, b.place = 1, 0, -1
    elif b.top - b.arrived > b.size - r.m and not r.urgent:
        r.urgent, r.alarm_s = 1, now_s
    return False


def take(t: ReceiverTables) -> int:
    """Receive packets from ``next`` on. 0 where all are received, else why Python has to act."""
    r = t.receiver[0]
    while r.next < r.count:
        k, row, now_s = r.next, t.rows[r.next], t.times[r.next]
        if (
            not close_complete(t, now_s)
            or not r.known
            or not is_sealed(t, k)
            or get(row, 8, 4) != r.session
        ):
            return OTHER
        number, symbol = near(get(row, 4, 3), r.highest, BLOCK_NUMBERS), np.int64(row[7])
        sent_us = near(get(row, 20, 4), r.newest_us, STAMPS)
        transit_s = now_s - sent_us * S_PER_US
        if not 0 <= transit_s - r.offset_s <= r.latest_s or (
            symbol < r.m and get(row, HEADER, 2) + 2 > r.symbol_bytes
        ):
            return OTHER
        if not r.oldest <= number < r.stop:
            if not may_begin(t, number, sent_us, now_s):
                return OTHER
            begin(t, number, sent_us, now_s)
        b, slot = t.blocks[number & (SLOTS - 1)], number & (SLOTS - 1)
        if b.spoilt:
            return OTHER
        r.waiting += 1
        keep_time(t, sent_us, transit_s, now_s)
        log = t.log[r.logged]
        log[0], log[1], log[2] = now_s, get(row, 4, 3), symbol
        r.logged += 1
        r.next += 1
        if t.bits[slot, symbol >> 6] >> (symbol & 63) & 1:
            r.duplicate += 1
            continue
        r.accepted += 1
        t.bits[slot, symbol >> 6] |= np.int64(1) << (symbol & 63)
        b.top, b.size, r.touched = (
            max(b.top, symbol + 1),
            max(b.size, np.int64(row[14])),
            min(r.touched, number),
        )
        decodable = use(t, k, number, symbol, sent_us)
        if row[15]:
            count(t.paths[row[15]], get(row, 16, 2))
        if decodable:
            return DECODABLE
    return 0


TAKE = compiled_entry(
    take,
    teach=teach,
    taught=(call,),
    inline=(is_sealed, get, put, near, close_complete, keep_time, tell, deliver, use, count),
    error_model="numpy",
    _nrt=False,
)
