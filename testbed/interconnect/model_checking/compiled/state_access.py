"""The parts of a row that a step reads and changes.

``t`` is a ``ModelTables``, ``s`` a row. Numbers of conditions, and numbers in brackets, are those
of Zarza 2011 in ``tests/oracles/exhaustive/nac_steps.py``.
"""

from __future__ import annotations

from testbed.arrays import IntArray
from testbed.interconnect.model_checking.compiled.model_tables import MOST_SIGNALS, ModelTables
from testbed.interconnect.model_checking.transition_system import HERE
from testbed.interconnect.static_paths import NONE

# Kinds of buffers.
OUTPUT, INPUT, AVOIDANCE = range(3)


def copy(row: IntArray, to: IntArray) -> None:
    """A row into another."""
    for i in range(len(row)):
        to[i] = row[i]


def first_slot(t: ModelTables, link: int, which: int) -> int:
    """Where that buffer of a link begins in a row."""
    if which == OUTPUT:
        return int(link * t.o)
    return int(t.inputs_at + link * t.a if which == INPUT else t.avoidance_at + link)


def slots_of(t: ModelTables, which: int) -> int:
    """How many slots it has."""
    if which == OUTPUT:
        return int(t.o)
    return int(t.a) if which == INPUT else 1


def asks_of(t: ModelTables, which: int) -> int:
    """Where it is kept what the heads of such buffers ask for."""
    if which == OUTPUT:
        return int(t.out_asks_at)
    return int(t.input_asks_at) if which == INPUT else int(t.avoidance_asks_at)


def occupied(t: ModelTables, s: IntArray, link: int, which: int) -> int:
    """Packets in a buffer."""
    first, found = first_slot(t, link, which), 0
    for k in range(first, first + slots_of(t, which)):
        if s[k] != 0:
            found += 1
    return found


def room(t: ModelTables, s: IntArray, link: int) -> int:
    """Slots of the input after the link that its feeder may use: those whose credit a signal carries count as taken."""
    taken = occupied(t, s, link, INPUT)
    for k in range(MOST_SIGNALS):
        number, place = int(s[t.signals_at + 2 * k]), int(s[t.signals_at + 2 * k + 1])
        if place == 0:
            break
        if t.cycle[t.cycle_first[number] + place - 1] == link:
            taken += 1
    return int(t.a) - taken


def room_behind(t: ModelTables, s: IntArray, link: int) -> int:
    """cap - size of the output's logic buffer."""
    return room(t, s, link) + int(t.o) - occupied(t, s, link, OUTPUT)


def is_full(t: ModelTables, s: IntArray, link: int) -> bool:
    """Conditions 4.3, 4.6."""
    return bool(s[t.inputs_at + link * t.a + t.a - 1] != 0)


def required(t: ModelTables, s: IntArray, link: int) -> int:
    """The link that the input's head asks for; NONE where it is empty or at its destination."""
    requested = int(s[t.input_asks_at + link])
    return NONE if requested in (0, HERE) else requested - 1


def is_blocked(t: ModelTables, s: IntArray, link: int) -> bool:
    """Conditions 4.1 to 4.3."""
    out = required(t, s, link)
    return out != NONE and is_full(t, s, link) and room_behind(t, s, out) <= t.slack


def is_throttled(t: ModelTables, s: IntArray, router: int) -> bool:
    """stop_fw: an avoidance buffer of the router is in use, or an input is blocked (which it may notice late)."""
    if not t.stop_local:
        return False
    for k in range(t.into_first[router], t.into_first[router + 1]):
        link = int(t.into[k])
        if s[t.avoidance_at + link] != 0 or (not t.late_throttle and is_blocked(t, s, link)):
            return True
    return False


def may_enter(t: ModelTables, s: IntArray, out: int, holder: int) -> bool:
    """Whether the output takes a packet from that input (NONE: from elsewhere): it has room, not kept for another
    (6)."""
    free = int(t.o) - occupied(t, s, out, OUTPUT) if t.o else room(t, s, out)
    if free < 1 or (not t.o and t.dead[s[t.down_at], out]):
        return False
    retained = int(s[t.reserved_at + out]) - 1
    return (
        retained == NONE or retained == holder or room_behind(t, s, out) > 1
    )  # numba looks in no tuple of two types


def goes_first(t: ModelTables, s: IntArray, out: int) -> bool:
    """Whether an avoidance buffer asks for the output and can have it now."""
    router = t.start[out]
    for k in range(t.into_first[router], t.into_first[router + 1]):
        link = int(t.into[k])
        if int(s[t.avoidance_asks_at + link]) == out + 1 and may_enter(t, s, out, link):
            return True
    return False


def ask(t: ModelTables, s: IntArray, link: int, which: int) -> None:
    """The head of a buffer asks for what is routed now."""
    head, place = int(s[first_slot(t, link, which)]), asks_of(t, which) + link
    if head == 0:
        s[place] = 0
    elif which == OUTPUT and not t.dead[s[t.down_at], link]:
        s[place] = link + 1
    else:
        router = t.start[link] if which == OUTPUT else t.end[link]
        onward = int(t.table[s[t.down_at], router, head - 1])
        s[place] = HERE if onward == NONE else onward + 1


def take(t: ModelTables, s: IntArray, link: int, which: int) -> int:
    """Take the head out of a buffer; the next one asks."""
    first = first_slot(t, link, which)
    last = first + slots_of(t, which) - 1
    packet = int(s[first])
    for k in range(first, last):
        s[k] = s[k + 1]
    s[last] = 0
    ask(t, s, link, which)
    return packet


def put(t: ModelTables, s: IntArray, link: int, packet: int, which: int) -> None:
    """Put a packet behind the others of a buffer."""
    place = occupied(t, s, link, which)
    s[first_slot(t, link, which) + place] = packet
    if place == 0:
        ask(t, s, link, which)


def enter(t: ModelTables, s: IntArray, out: int, packet: int, holder: int) -> None:
    """Grant the output to a packet from that input; a slot reserved for it is used."""
    put(t, s, out, packet, OUTPUT if t.o else INPUT)
    if int(s[t.reserved_at + out]) == holder + 1:
        s[t.reserved_at + out] = 0


def leave(t: ModelTables, s: IntArray, cable: int) -> None:
    """Heads that ask for a dead link of that cable ask again."""
    for link in range(t.links):
        for which in range(3):
            requested = int(s[asks_of(t, which) + link]) - 1
            for k in range(t.cable_first[cable], t.cable_first[cable + 1]):
                if requested == int(t.cable[k]):
                    ask(t, s, link, which)
                    break


def move(t: ModelTables, s: IntArray, number: int, place: int) -> bool:
    """move(a, d) at that place of the cycle; the freed slot's credit goes with the signal (10). False: no room for the
    signal."""
    link = int(t.cycle[t.cycle_first[number] + place])
    requested = s[t.input_asks_at + link]
    packet = take(t, s, link, INPUT)
    s[t.avoidance_at + link] = packet
    if t.keep_output:
        s[t.avoidance_asks_at + link] = requested
    else:
        ask(t, s, link, AVOIDANCE)
    return add_signal(t, s, number, place + 1)


def add_signal(t: ModelTables, s: IntArray, number: int, place: int) -> bool:
    """A signal more, in order of (cycle, place)."""
    k = 0
    while k < MOST_SIGNALS and s[t.signals_at + 2 * k + 1] != 0:
        k += 1
    if k == MOST_SIGNALS:
        return False
    while k > 0:
        at = t.signals_at + 2 * (k - 1)
        if int(s[at]) < number or (int(s[at]) == number and int(s[at + 1]) <= place):
            break
        s[at + 2], s[at + 3] = s[at], s[at + 1]
        k -= 1
    s[t.signals_at + 2 * k], s[t.signals_at + 2 * k + 1] = number, place
    return True


def drop_signal(t: ModelTables, s: IntArray, k: int) -> None:
    """Without the k-th signal."""
    for at in range(t.signals_at + 2 * k, t.signals_at + 2 * MOST_SIGNALS - 2):
        s[at] = s[at + 2]
    s[t.signals_at + 2 * MOST_SIGNALS - 2] = 0
    s[t.signals_at + 2 * MOST_SIGNALS - 1] = 0
