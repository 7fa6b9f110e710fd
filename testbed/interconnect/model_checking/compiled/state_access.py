"""The parts of a state that a step reads and changes.

``t`` is a ``ModelTables``, and ``s`` the row of a state. ``kind`` is a kind of buffers: OUTPUT,
INPUT or AVOIDANCE. The position of a link, recovery signal and so on is its index in a row or in a
cycle. Numbers of conditions are those of Zarza 2011. Numbers in brackets are explained in
``tests/oracles/exhaustive/nac_steps.py``.
"""

from __future__ import annotations

from testbed.arrays import IntArray
from testbed.interconnect.model_checking.compiled.model_tables import MAX_SIGNALS, ModelTables
from testbed.interconnect.model_checking.transition_system import HERE
from testbed.interconnect.static_paths import NONE

# Kinds of buffers.
OUTPUT, INPUT, AVOIDANCE = range(3)


def copy(row: IntArray, to: IntArray) -> None:
    """Copy a row into another."""
    for i in range(len(row)):
        to[i] = row[i]


def first_slot(t: ModelTables, link: int, kind: int) -> int:
    """Return the position of the first slot of a link's buffer."""
    if kind == OUTPUT:
        return int(link * t.o)
    if kind == INPUT:
        return int(t.inputs_at + link * t.a)
    return int(t.avoidance_at + link)


def slots_of(t: ModelTables, kind: int) -> int:
    """Return the number of slots of a buffer."""
    if kind == OUTPUT:
        return int(t.o)
    if kind == INPUT:
        return int(t.a)
    return 1


def asks_of(t: ModelTables, kind: int) -> int:
    """Return the position of the requests of the heads of buffers, which are ordered by link."""
    if kind == OUTPUT:
        return int(t.out_asks_at)
    if kind == INPUT:
        return int(t.input_asks_at)
    return int(t.avoidance_asks_at)


def occupied(t: ModelTables, s: IntArray, link: int, kind: int) -> int:
    """Return the number of packets in a buffer."""
    first = first_slot(t, link, kind)
    packets = 0
    for k in range(first, first + slots_of(t, kind)):
        if s[k] != 0:
            packets += 1
    return packets


def room(t: ModelTables, s: IntArray, link: int) -> int:
    """Return the number of slots of the input behind a link that its feeder may use.

    A slot whose credit travels with a recovery signal counts as occupied.
    """
    taken = occupied(t, s, link, INPUT)
    for k in range(MAX_SIGNALS):
        number = int(s[t.signals_at + 2 * k])
        position = int(s[t.signals_at + 2 * k + 1])
        if position == 0:
            break
        if t.cycle[t.cycle_first[number] + position - 1] == link:
            taken += 1
    return int(t.a) - taken


def room_behind(t: ModelTables, s: IntArray, link: int) -> int:
    """Return the free slots of an output's logic buffer: cap - size in the document."""
    return room(t, s, link) + int(t.o) - occupied(t, s, link, OUTPUT)


def is_full(t: ModelTables, s: IntArray, link: int) -> bool:
    """Return whether an input is full (conditions 4.3 and 4.6)."""
    return bool(s[t.inputs_at + link * t.a + t.a - 1] != 0)


def required(t: ModelTables, s: IntArray, link: int) -> int:
    """Return the link that the head of an input requests.

    It is NONE if the input is empty or the head has arrived at its destination.
    """
    requested = int(s[t.input_asks_at + link])
    if requested in (0, HERE):
        return NONE
    return requested - 1


def is_blocked(t: ModelTables, s: IntArray, link: int) -> bool:
    """Return whether an input is blocked (conditions 4.1 to 4.3)."""
    out = required(t, s, link)
    return out != NONE and is_full(t, s, link) and room_behind(t, s, out) <= t.slack


def is_throttled(t: ModelTables, s: IntArray, router: int) -> bool:
    """Return whether a router stops local injection (stop_fw).

    It does while one of its avoidance buffers is used or one of its inputs is blocked. The latter
    it may notice late.
    """
    if not t.stop_local:
        return False
    for k in range(t.into_first[router], t.into_first[router + 1]):
        link = int(t.into[k])
        if s[t.avoidance_at + link] != 0 or (not t.late_throttle and is_blocked(t, s, link)):
            return True
    return False


def may_enter(t: ModelTables, s: IntArray, out: int, holder: int) -> bool:
    """Return whether an output takes a packet of an input.

    It needs a free slot that is not reserved for another input (6).

    Args:
        t: The tables.
        s: The row.
        out: The output.
        holder: The input, or NONE for a packet from elsewhere.
    """
    if t.o:
        free = int(t.o) - occupied(t, s, out, OUTPUT)
    else:
        free = room(t, s, out)
    if free < 1 or (not t.o and t.dead[s[t.down_at], out]):
        return False
    reserved_for = int(s[t.reserved_at + out]) - 1
    # Two comparisons, because numba does not search a tuple of values of two types.
    return reserved_for == NONE or reserved_for == holder or room_behind(t, s, out) > 1


def goes_first(t: ModelTables, s: IntArray, out: int) -> bool:
    """Return whether an avoidance buffer requests an output that it can have now."""
    router = t.start[out]
    for k in range(t.into_first[router], t.into_first[router + 1]):
        link = int(t.into[k])
        if int(s[t.avoidance_asks_at + link]) == out + 1 and may_enter(t, s, out, link):
            return True
    return False


def ask(t: ModelTables, s: IntArray, link: int, kind: int) -> None:
    """Route the head of a buffer by the present tables, and store its request."""
    head = int(s[first_slot(t, link, kind)])
    request_at = asks_of(t, kind) + link
    if head == 0:
        s[request_at] = 0
    elif kind == OUTPUT and not t.dead[s[t.down_at], link]:
        s[request_at] = link + 1
    else:
        router = t.start[link] if kind == OUTPUT else t.end[link]
        onward = int(t.table[s[t.down_at], router, head - 1])
        s[request_at] = HERE if onward == NONE else onward + 1


def take(t: ModelTables, s: IntArray, link: int, kind: int) -> int:
    """Remove the head of a buffer, route the next packet, and return the head."""
    first = first_slot(t, link, kind)
    last = first + slots_of(t, kind) - 1
    packet = int(s[first])
    for k in range(first, last):
        s[k] = s[k + 1]
    s[last] = 0
    ask(t, s, link, kind)
    return packet


def put(t: ModelTables, s: IntArray, link: int, packet: int, kind: int) -> None:
    """Append a packet to a buffer, and route it if it is the head."""
    packets = occupied(t, s, link, kind)
    s[first_slot(t, link, kind) + packets] = packet
    if packets == 0:
        ask(t, s, link, kind)


def enter(t: ModelTables, s: IntArray, out: int, packet: int, holder: int) -> None:
    """Grant an output to a packet. A slot that is reserved for its input is used up.

    Args:
        t: The tables.
        s: The row.
        out: The output.
        packet: The packet.
        holder: The packet's input, or NONE.
    """
    put(t, s, out, packet, OUTPUT if t.o else INPUT)
    if int(s[t.reserved_at + out]) == holder + 1:
        s[t.reserved_at + out] = 0


def leave(t: ModelTables, s: IntArray, cable: int) -> None:
    """Route the heads again that request a link of a failed cable."""
    for link in range(t.links):
        for kind in range(3):
            requested = int(s[asks_of(t, kind) + link]) - 1
            for k in range(t.cable_first[cable], t.cable_first[cable + 1]):
                if requested == int(t.cable[k]):
                    ask(t, s, link, kind)
                    break


def move(t: ModelTables, s: IntArray, number: int, position: int) -> bool:
    """Move the head of an input of a cycle into its avoidance buffer.

    It is move(a, d) of the document. The credit of the freed slot travels with the recovery signal
    (10).

    Args:
        t: The tables.
        s: The row.
        number: The cycle.
        position: Position of the input in the cycle.

    Returns:
        False if the row has no room for another signal.
    """
    link = int(t.cycle[t.cycle_first[number] + position])
    requested = s[t.input_asks_at + link]
    packet = take(t, s, link, INPUT)
    s[t.avoidance_at + link] = packet
    if t.keep_output:
        s[t.avoidance_asks_at + link] = requested
    else:
        ask(t, s, link, AVOIDANCE)
    return add_signal(t, s, number, position + 1)


def add_signal(t: ModelTables, s: IntArray, number: int, position: int) -> bool:
    """Insert a recovery signal. Signals are in the order of (cycle, position).

    Args:
        t: The tables.
        s: The row.
        number: The cycle.
        position: Position of the signal in the cycle.

    Returns:
        False if the row has no room for another signal.
    """
    k = 0
    while k < MAX_SIGNALS and s[t.signals_at + 2 * k + 1] != 0:
        k += 1
    if k == MAX_SIGNALS:
        return False
    while k > 0:
        at = t.signals_at + 2 * (k - 1)
        if int(s[at]) < number or (int(s[at]) == number and int(s[at + 1]) <= position):
            break
        s[at + 2] = s[at]
        s[at + 3] = s[at + 1]
        k -= 1
    s[t.signals_at + 2 * k] = number
    s[t.signals_at + 2 * k + 1] = position
    return True


def drop_signal(t: ModelTables, s: IntArray, k: int) -> None:
    """Remove the k-th recovery signal."""
    for at in range(t.signals_at + 2 * k, t.signals_at + 2 * MAX_SIGNALS - 2):
        s[at] = s[at + 2]
    s[t.signals_at + 2 * MAX_SIGNALS - 2] = 0
    s[t.signals_at + 2 * MAX_SIGNALS - 1] = 0
