"""The steps that may follow a state, in any order of events.

Tests compare them with ``tests/oracles/exhaustive``, step by step. ``found`` is a
``SuccessorBuffer``. Each function gets the number of steps in it, adds its own, and returns the new
number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from testbed.arrays import BoolArray, IntArray
from testbed.interconnect.model_checking.compiled import state_access as access
from testbed.interconnect.model_checking.compiled.model_tables import MOST_SIGNALS, ModelTables
from testbed.interconnect.model_checking.transition_system import HERE, NacTransitionSystem
from testbed.interconnect.static_paths import NONE


class SuccessorBuffer(NamedTuple):
    """The steps that may follow one state.

    Attributes:
        rows: The rows to which they lead.
        sure: Whether each step is certain: it happens if nothing else does. Steps of hosts that
            send, of cables, and of outdated knowledge are not certain.
        what: Kind, link and detail of each step; see ``step_name``.
        overflow: Whether a row had no room for a signal.
    """

    rows: IntArray
    sure: BoolArray
    what: IntArray
    overflow: BoolArray


# Kinds of steps. The detail of a step is the destination (SENT), the request of the head (the next
# three), the number of the cycle (IDENTIFIED), 0 to 2 for normal operation, a reserved slot and a
# moved packet (SIGNALLED), or the number of the cable (CABLE).
SENT, INPUT_LEFT, AVOIDANCE_LEFT, OVER_LINK, IDENTIFIED, SIGNALLED, CABLE = range(7)


def reset(s: IntArray, found: SuccessorBuffer, n: int, what: tuple[bool, int, int, int]) -> None:
    """The n-th row found becomes a copy of ``s``, to be changed; ``what``: (whether it is sure, kind, link, detail)."""
    access.copy(s, found.rows[n])
    found.sure[n], found.what[n, 0], found.what[n, 1], found.what[n, 2] = what


def successors(t: ModelTables, s: IntArray, found: SuccessorBuffer) -> int:
    """All that may happen next; how many."""
    n = injections(t, s, found, 0)
    for link in range(t.links):
        n = from_buffer(t, s, found, n, link, access.INPUT)
        n = from_buffer(t, s, found, n, link, access.AVOIDANCE)
        if t.o:
            n = over_link(t, s, found, n, link)
    if t.nac:
        for link in range(t.links):
            n = closings(t, s, found, n, link)
        for k in range(MOST_SIGNALS):
            at = t.signals_at + 2 * k
            if s[at + 1] == 0:
                break
            if k == 0 or s[at] != s[at - 2] or s[at + 1] != s[at - 1]:
                n = signal(t, s, found, n, k)
    for cable in range(len(t.cable_first) - 1):
        n = cable_change(t, s, found, n, cable)
    return n


def injections(t: ModelTables, s: IntArray, found: SuccessorBuffer, n: int) -> int:
    """A host sends a packet of one of its flows."""
    for f in range(len(t.flows)):
        source, goal = int(t.flows[f, 0]), int(t.flows[f, 1])
        out = int(t.table[s[t.down_at], source, goal])
        if out == NONE or not access.may_enter(t, s, out, NONE):
            continue
        if t.nac and (
            access.is_throttled(t, s, source)
            or (not t.late_priority and access.goes_first(t, s, out))
        ):
            continue
        reset(s, found, n, (False, SENT, out, goal))
        access.enter(t, found.rows[n], out, goal + 1, NONE)
        n += 1
    return n


def from_buffer(
    t: ModelTables, s: IntArray, found: SuccessorBuffer, n: int, link: int, which: int
) -> int:
    """The head of an input or avoidance buffer goes into its output, or to its host."""
    requested = int(s[access.asks_of(t, which) + link])
    if requested == 0 or (
        which == access.INPUT and not t.own_request and s[t.avoidance_at + link] != 0
    ):
        return n
    if requested != HERE and not access.may_enter(t, s, requested - 1, link):
        return n
    if (
        requested != HERE
        and which == access.INPUT
        and not t.late_priority
        and access.goes_first(t, s, requested - 1)
    ):
        return n
    reset(
        s,
        found,
        n,
        (True, INPUT_LEFT if which == access.INPUT else AVOIDANCE_LEFT, link, requested),
    )
    row = found.rows[n]
    packet = access.take(t, row, link, which)
    if requested != HERE:
        access.enter(t, row, requested - 1, packet, link)
    return n + 1


def over_link(t: ModelTables, s: IntArray, found: SuccessorBuffer, n: int, link: int) -> int:
    """The head of an output buffer goes over its link, or where that is dead into another output."""
    requested = int(s[t.out_asks_at + link])
    if requested == 0:
        return n
    own = requested - 1 == link
    if own and (t.dead[s[t.down_at], link] or access.room(t, s, link) < 1):
        return n
    if not own and requested != HERE and not access.may_enter(t, s, requested - 1, NONE):
        return n
    reset(s, found, n, (True, OVER_LINK, link, requested))
    row = found.rows[n]
    packet = access.take(t, row, link, access.OUTPUT)
    if own:
        access.put(t, row, link, packet, access.INPUT)
    elif requested != HERE:
        access.enter(t, row, requested - 1, packet, NONE)
    return n + 1


def closings(t: ModelTables, s: IntArray, found: SuccessorBuffer, n: int, link: int) -> int:
    """An input finds itself on a cycle: move(a, d), and the signal sets off against the traffic."""
    out = access.required(t, s, link)
    if out == NONE or not access.is_full(t, s, link) or s[t.avoidance_at + link] != 0:
        return n
    blocked = access.is_blocked(t, s, link)
    pair = link * t.links + out
    for k in range(t.paired_first[pair], t.paired_first[pair + 1]):
        number = int(t.paired[k])
        real = blocked and is_closed(t, s, number)
        if real or t.late_identification:
            reset(s, found, n, (real, IDENTIFIED, link, number))
            if not access.move(t, found.rows[n], number, 0):
                found.overflow[0] = True
            n += 1
    return n


def is_closed(t: ModelTables, s: IntArray, number: int) -> bool:
    """Whether every input of the cycle is blocked now and asks for the one before it."""
    first = t.cycle_first[number]
    for k in range(first + 1, t.cycle_first[number + 1]):
        other = int(t.cycle[k])
        if access.required(t, s, other) != int(t.cycle[k - 1]) or not access.is_blocked(
            t, s, other
        ):
            return False
        if not t.repeat_when_full and s[t.avoidance_at + other] != 0:
            return False
    return True


def signal_place(t: ModelTables, s: IntArray, k: int) -> tuple[int, int, int, int, int]:
    """Of the k-th recovery signal: its cycle, its place there and how many there are, the output whose freed slot it
    tells of, and the input that it comes to."""
    number, place = int(s[t.signals_at + 2 * k]), int(s[t.signals_at + 2 * k + 1])
    first = int(t.cycle_first[number])
    length = int(t.cycle_first[number + 1]) - first
    return (
        number,
        place,
        length,
        int(t.cycle[first + place - 1]),
        int(t.cycle[first + place % length]),
    )


def signal(t: ModelTables, s: IntArray, found: SuccessorBuffer, n: int, k: int) -> int:
    """The k-th recovery signal arrives: conditions 4.4 to 4.7 at the router before the freed slot."""
    _, place, length, out, link = signal_place(t, s, k)
    reset(s, found, n, (False, SIGNALLED, link, 0))
    left = found.rows[n]  # the row of the last outcome, made again below
    access.drop_signal(t, left, k)
    asks = access.required(t, left, link) == out or (
        not t.check_output and left[t.input_asks_at + link] != 0
    )
    full = asks and access.is_full(t, left, link)
    wants = full and access.room_behind(t, left, out) <= 1
    goes_on = place < length and t.recovery_run and left[t.avoidance_at + link] == 0
    n = outcome(t, s, found, n, (k, wants, wants and goes_on, True))
    if t.late_signal and full:  # credits under way, a head or tail that is still arriving
        if not wants and goes_on:
            n = outcome(t, s, found, n, (k, True, True, False))
        if not wants or goes_on:
            n = outcome(t, s, found, n, (k, True, False, False))
        if wants:
            n = outcome(t, s, found, n, (k, False, False, False))
    return n


def outcome(
    t: ModelTables, s: IntArray, found: SuccessorBuffer, n: int, what: tuple[int, bool, bool, bool]
) -> int:
    """The k-th signal is used up: (k, whether the slot is kept, whether a packet moves, whether that is sure)."""
    k, wanting, moving, sure = what
    number, place, _, out, link = signal_place(t, s, k)
    reset(s, found, n, (sure, SIGNALLED, link, 0))
    row = found.rows[n]
    access.drop_signal(t, row, k)
    retained = int(row[t.reserved_at + out])
    avoided = int(row[t.avoidance_asks_at + link]) == out + 1
    if t.reserve and (wanting or avoided) and retained in (0, link + 1):
        row[t.reserved_at + out] = link + 1
    found.what[n, 2] = 2 if moving else int(wanting or avoided)
    if moving and not access.move(t, row, number, place):
        found.overflow[0] = True
    return n + 1


def cable_change(t: ModelTables, s: IntArray, found: SuccessorBuffer, n: int, cable: int) -> int:
    """A cable fails, or works again."""
    down, bit, count = int(s[t.down_at]), 1 << cable, 0
    for k in range(8):
        count += down >> k & 1
    if not down & bit and count >= t.most_down:
        return n
    reset(s, found, n, (False, CABLE, int(t.cable[t.cable_first[cable]]), cable))
    row = found.rows[n]
    row[t.down_at] = down ^ bit
    for k in range(t.cable_first[cable], t.cable_first[cable + 1]):
        row[t.reserved_at + int(t.cable[k])] = 0
    if not down & bit:
        access.leave(t, row, cable)
    elif t.recall and t.o:
        for k in range(t.cable_first[cable], t.cable_first[cable + 1]):
            access.ask(t, row, int(t.cable[k]), access.OUTPUT)
    if t.ask_anew:
        reroute_all_heads(t, row)
    return n + 1


def reroute_all_heads(t: ModelTables, s: IntArray) -> None:
    """Heads of inputs ask for what is routed now, and slots kept for heads that ask for another output are kept no
    more."""
    for link in range(t.links):
        access.ask(t, s, link, access.INPUT)
    for out in range(t.links):
        holder = int(s[t.reserved_at + out]) - 1
        if (
            holder >= 0
            and int(s[t.input_asks_at + holder]) != out + 1
            and int(s[t.avoidance_asks_at + holder]) != out + 1
        ):
            s[t.reserved_at + out] = 0


def step_name(model: NacTransitionSystem, state: bytes, what: Sequence[int]) -> str:
    """Return a step from this state as text; ``what`` is its row of ``SuccessorBuffer.what``."""
    kind, link, detail = what
    goal = "its host" if detail == HERE else f"link {detail - 1}"
    if kind == SENT:
        return f"host {model.start[link]} sends to {detail}"
    if kind == INPUT_LEFT:
        return f"input to {goal}"
    if kind == AVOIDANCE_LEFT:
        return f"avoidance to {goal}"
    if kind == OVER_LINK:
        return "over the link" if detail - 1 == link else f"rerouted to link {detail - 1}"
    if kind == IDENTIFIED:
        return f"cycle {model.cycles[detail]} identified"
    if kind == SIGNALLED:
        effects = ("normal again", "slot kept", "moved on")
        return f"signal: {effects[detail]}"
    was_down = state[model.down_at] >> detail & 1
    return f"cable {detail} {'works again' if was_down else 'fails'}"
