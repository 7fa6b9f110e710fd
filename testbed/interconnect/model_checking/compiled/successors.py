"""The steps that may follow a state, in any order of events.

Tests compare them with ``tests/oracles/exhaustive``, step by step. ``t`` is a ``ModelTables``,
``s`` the row of the state, and ``buffer`` a ``SuccessorBuffer`` with ``n`` steps. Each function
adds its steps to the buffer and returns the new number of steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from testbed.arrays import BoolArray, IntArray
from testbed.interconnect.model_checking.compiled import state_access as access
from testbed.interconnect.model_checking.compiled.model_tables import MAX_SIGNALS, ModelTables
from testbed.interconnect.model_checking.transition_system import HERE, NacTransitionSystem
from testbed.interconnect.static_paths import NONE


class SuccessorBuffer(NamedTuple):
    """The steps that may follow one state.

    Attributes:
        rows: The rows to which they lead.
        sure: Whether each step is certain: it happens if nothing else does. Steps of hosts that
            send, of cables, and of outdated knowledge are not certain.
        steps: Kind, link and detail of each step; see ``step_name``.
        overflow: Whether a row had no room for a signal.
    """

    rows: IntArray
    sure: BoolArray
    steps: IntArray
    overflow: BoolArray


# Kinds of steps. The detail of a step is the destination (SENT), the request of the head (the next
# three), the number of the cycle (IDENTIFIED), 0 to 2 for normal operation, a reserved slot and a
# moved packet (SIGNALLED), or the number of the cable (CABLE).
SENT, INPUT_LEFT, AVOIDANCE_LEFT, OVER_LINK, IDENTIFIED, SIGNALLED, CABLE = range(7)


def add_step(
    s: IntArray, buffer: SuccessorBuffer, n: int, step: tuple[bool, int, int, int]
) -> None:
    """Add a step, whose row is a copy of ``s`` that the caller changes.

    Args:
        s: The row.
        buffer: The steps.
        n: Their number.
        step: Whether the step is certain, its kind, its link and its detail.
    """
    sure, kind, link, detail = step
    access.copy(s, buffer.rows[n])
    buffer.sure[n] = sure
    buffer.steps[n, 0] = kind
    buffer.steps[n, 1] = link
    buffer.steps[n, 2] = detail


def successors(t: ModelTables, s: IntArray, buffer: SuccessorBuffer) -> int:
    """Store all steps that may follow a state, and return their number."""
    n = injections(t, s, buffer, 0)
    for link in range(t.links):
        n = from_buffer(t, s, buffer, n, link, access.INPUT)
        n = from_buffer(t, s, buffer, n, link, access.AVOIDANCE)
        if t.o:
            n = over_link(t, s, buffer, n, link)
    if t.nac:
        for link in range(t.links):
            n = closings(t, s, buffer, n, link)
        for k in range(MAX_SIGNALS):
            at = t.signals_at + 2 * k
            if s[at + 1] == 0:
                break
            # Equal signals follow each other, and lead to the same states.
            if k == 0 or s[at] != s[at - 2] or s[at + 1] != s[at - 1]:
                n = signal(t, s, buffer, n, k)
    for cable in range(len(t.cable_first) - 1):
        n = cable_change(t, s, buffer, n, cable)
    return n


def injections(t: ModelTables, s: IntArray, buffer: SuccessorBuffer, n: int) -> int:
    """Add the steps by which a host sends a packet of one of its flows."""
    for f in range(len(t.flows)):
        source = int(t.flows[f, 0])
        goal = int(t.flows[f, 1])
        out = int(t.table[s[t.down_at], source, goal])
        if out == NONE or not access.may_enter(t, s, out, NONE):
            continue
        if t.nac and (
            access.is_throttled(t, s, source)
            or (not t.late_priority and access.goes_first(t, s, out))
        ):
            continue
        add_step(s, buffer, n, (False, SENT, out, goal))
        access.enter(t, buffer.rows[n], out, goal + 1, NONE)
        n += 1
    return n


def from_buffer(
    t: ModelTables, s: IntArray, buffer: SuccessorBuffer, n: int, link: int, kind: int
) -> int:
    """Add the step of the head of an input or avoidance buffer, to its output or its host.

    Args:
        t: The tables.
        s: The row.
        buffer: The steps.
        n: Their number.
        link: The link of the input.
        kind: INPUT or AVOIDANCE.

    Returns:
        The new number of steps.
    """
    requested = int(s[access.asks_of(t, kind) + link])
    if requested == 0:
        return n
    if kind == access.INPUT and not t.own_request and s[t.avoidance_at + link] != 0:
        return n
    if requested != HERE:
        if not access.may_enter(t, s, requested - 1, link):
            return n
        if kind == access.INPUT and not t.late_priority and access.goes_first(t, s, requested - 1):
            return n
    step_kind = INPUT_LEFT if kind == access.INPUT else AVOIDANCE_LEFT
    add_step(s, buffer, n, (True, step_kind, link, requested))
    row = buffer.rows[n]
    packet = access.take(t, row, link, kind)
    if requested != HERE:
        access.enter(t, row, requested - 1, packet, link)
    return n + 1


def over_link(t: ModelTables, s: IntArray, buffer: SuccessorBuffer, n: int, link: int) -> int:
    """Add the step of the head of an output buffer.

    It crosses the link. If the link has failed, it moves to another output or arrives at its host.
    """
    requested = int(s[t.out_asks_at + link])
    if requested == 0:
        return n
    crosses_link = requested - 1 == link
    if crosses_link and (t.dead[s[t.down_at], link] or access.room(t, s, link) < 1):
        return n
    moves = not crosses_link and requested != HERE
    if moves and not access.may_enter(t, s, requested - 1, NONE):
        return n
    add_step(s, buffer, n, (True, OVER_LINK, link, requested))
    row = buffer.rows[n]
    packet = access.take(t, row, link, access.OUTPUT)
    if crosses_link:
        access.put(t, row, link, packet, access.INPUT)
    elif moves:
        access.enter(t, row, requested - 1, packet, NONE)
    return n + 1


def closings(t: ModelTables, s: IntArray, buffer: SuccessorBuffer, n: int, link: int) -> int:
    """Add the steps by which an input identifies a cycle.

    A packet moves, move(a, d), and the recovery signal begins to travel against the traffic.
    """
    out = access.required(t, s, link)
    if out == NONE or not access.is_full(t, s, link) or s[t.avoidance_at + link] != 0:
        return n
    blocked = access.is_blocked(t, s, link)
    pair = link * t.links + out
    for k in range(t.paired_first[pair], t.paired_first[pair + 1]):
        number = int(t.paired[k])
        real = blocked and is_closed(t, s, number)
        if real or t.late_identification:
            add_step(s, buffer, n, (real, IDENTIFIED, link, number))
            if not access.move(t, buffer.rows[n], number, 0):
                buffer.overflow[0] = True
            n += 1
    return n


def is_closed(t: ModelTables, s: IntArray, number: int) -> bool:
    """Return whether every input of a cycle is blocked and requests the link before it."""
    first = t.cycle_first[number]
    for k in range(first + 1, t.cycle_first[number + 1]):
        link = int(t.cycle[k])
        before = int(t.cycle[k - 1])
        if access.required(t, s, link) != before or not access.is_blocked(t, s, link):
            return False
        if not t.repeat_when_full and s[t.avoidance_at + link] != 0:
            return False
    return True


def signal_position(t: ModelTables, s: IntArray, k: int) -> tuple[int, int, int, int, int]:
    """Return where the k-th recovery signal is.

    Returns:
        Its cycle, its position there, the length of the cycle, the output whose freed slot it
        reports, and the input at which it arrives.
    """
    number = int(s[t.signals_at + 2 * k])
    position = int(s[t.signals_at + 2 * k + 1])
    first = int(t.cycle_first[number])
    length = int(t.cycle_first[number + 1]) - first
    out = int(t.cycle[first + position - 1])
    link = int(t.cycle[first + position % length])
    return number, position, length, out, link


def signal(t: ModelTables, s: IntArray, buffer: SuccessorBuffer, n: int, k: int) -> int:
    """Add the steps by which the k-th recovery signal arrives at the router before the freed slot.

    The router judges conditions 4.4 to 4.7. If signals may lag, it may judge them by a former
    state: credits may be in transit, and heads or tails of packets may still arrive.
    """
    _, position, length, out, link = signal_position(t, s, k)
    # The next row is a place to judge the conditions in. The first outcome overwrites it.
    add_step(s, buffer, n, (False, SIGNALLED, link, 0))
    row = buffer.rows[n]
    access.drop_signal(t, row, k)
    asks = access.required(t, row, link) == out or (
        not t.check_output and row[t.input_asks_at + link] != 0
    )
    full = asks and access.is_full(t, row, link)
    wants = full and access.room_behind(t, row, out) <= 1
    goes_on = position < length and t.recovery_run and row[t.avoidance_at + link] == 0
    n = outcome(t, s, buffer, n, (k, wants, wants and goes_on, True))
    if t.late_signal and full:
        if not wants and goes_on:
            n = outcome(t, s, buffer, n, (k, True, True, False))
        if not wants or goes_on:
            n = outcome(t, s, buffer, n, (k, True, False, False))
        if wants:
            n = outcome(t, s, buffer, n, (k, False, False, False))
    return n


def outcome(
    t: ModelTables,
    s: IntArray,
    buffer: SuccessorBuffer,
    n: int,
    effect: tuple[int, bool, bool, bool],
) -> int:
    """Add a step that uses up a recovery signal.

    Args:
        t: The tables.
        s: The row.
        buffer: The steps.
        n: Their number.
        effect: The number of the signal, whether the input wants the freed slot, whether a packet
            moves, and whether the step is certain.

    Returns:
        The new number of steps.
    """
    k, wanting, moving, sure = effect
    number, position, _, out, link = signal_position(t, s, k)
    add_step(s, buffer, n, (sure, SIGNALLED, link, 0))
    row = buffer.rows[n]
    access.drop_signal(t, row, k)
    reserved_for = int(row[t.reserved_at + out])
    avoided = int(row[t.avoidance_asks_at + link]) == out + 1
    reserves = wanting or avoided
    if t.reserve and reserves and reserved_for in (0, link + 1):
        row[t.reserved_at + out] = link + 1
    if moving:
        buffer.steps[n, 2] = 2
    elif reserves:
        buffer.steps[n, 2] = 1
    if moving and not access.move(t, row, number, position):
        buffer.overflow[0] = True
    return n + 1


def cable_change(t: ModelTables, s: IntArray, buffer: SuccessorBuffer, n: int, cable: int) -> int:
    """Add the step by which a cable fails or is repaired."""
    down = int(s[t.down_at])
    bit = 1 << cable
    fails = down & bit == 0
    failed_cables = 0
    for k in range(8):
        failed_cables += down >> k & 1
    if fails and failed_cables >= t.most_down:
        return n
    first = t.cable_first[cable]
    end = t.cable_first[cable + 1]
    add_step(s, buffer, n, (False, CABLE, int(t.cable[first]), cable))
    row = buffer.rows[n]
    row[t.down_at] = down ^ bit
    for k in range(first, end):
        row[t.reserved_at + int(t.cable[k])] = 0
    if fails:
        access.leave(t, row, cable)
    elif t.recall and t.o:
        for k in range(first, end):
            access.ask(t, row, int(t.cable[k]), access.OUTPUT)
    if t.ask_anew:
        reroute_all_heads(t, row)
    return n + 1


def reroute_all_heads(t: ModelTables, s: IntArray) -> None:
    """Route the heads of all inputs again, and drop reservations for their previous requests."""
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


def step_name(model: NacTransitionSystem, state: bytes, step: Sequence[int]) -> str:
    """Return a step from this state as text.

    Args:
        model: The transition system.
        state: The state before the step.
        step: Its row of ``SuccessorBuffer.steps``.
    """
    kind, link, detail = step
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
