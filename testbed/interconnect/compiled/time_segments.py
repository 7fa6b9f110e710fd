"""A long run in stretches: an event's key has room for 21.9 s of ticks, so time is counted again from the end of each
stretch.

Between two stretches every tick that is kept is put back by the length of one. No step of the loop is told of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from testbed.interconnect.compiled.kernel_records import (
    FINISHED,
    IDENTIFICATIONS,
    KEY_SHIFT,
    NEVER,
    OUT_OF_TIME,
    RUNNING,
)
from testbed.interconnect.compiled.kernel_state import Hook, State, Tables
from testbed.interconnect.engine_inputs import CableEvents, EngineInputs

STRETCH = 1 << 39
"""Ticks: 5.5 s. What is due later than its end (timers of 10 s at most) has room in a key, too."""
DIGEST_BITS = 31
"""The digest of grants keeps so many bits: with stretches of a multiple of two to that it is that of a run in one
piece."""
LAST = (1 << (63 - KEY_SHIFT)) - 1
"""The last tick that a key has room for."""


def run_in_segments(loop: Callable[..., None], tables: Tables, inputs: EngineInputs, state: State, hook: Hook) -> None:
    """Run to the end, as one call of the loop would if its keys had room; ``state`` then tells all times since the
    run's beginning."""
    length = _length(state)
    if inputs.options.end < 2 * length:
        loop(tables, inputs.options, state, hook, inputs.messages.born, _part_of(inputs.cables, 0, 0, LAST))
        return
    retained, born = _History(state), np.zeros_like(inputs.messages.born)
    for begin, end, last in _stretches(length, inputs.options.end):
        options = inputs.options._replace(end=end - begin)
        first, behind = int(state.run["next_message"][0]), int(np.searchsorted(inputs.messages.born, end, side="right"))
        born[first:behind] = inputs.messages.born[first:behind] - begin
        born[behind : behind + 1] = end - begin + 1  # the next is made in a later stretch
        state.run["status"][:] = RUNNING
        loop(tables, options, state, hook, born, _part_of(inputs.cables, begin, end, LAST if last else 0))
        retained.note(begin)
        done = state.run["status"][0] == FINISHED and not np.any(inputs.cables.tick > end)
        if done or last or state.run["status"][0] not in (FINISHED, OUT_OF_TIME):
            _put_back(state, hook, -begin)
            retained.write_back()
            return
        state.run["now"][:] = end - begin
        retained.shift_times(length)
        _put_back(state, hook, length)
        _put_back_events(state, length)


def _length(state: State) -> int:
    """Ticks of a stretch: whole turns of the wheel, so that events stay in their buckets."""
    return max(STRETCH, 1 << DIGEST_BITS, len(state.wheel) << int(state.run["wheel_shift"][0]))


def _stretches(length: int, end: int) -> Iterator[tuple[int, int, bool]]:
    """(the first tick, the last, whether it is the last stretch)."""
    for begin in range(0, end + 1, length):
        last = begin + length > end
        yield begin, end if last else begin + length - 1, last


def _part_of(cables: CableEvents, begin: int, end: int, upto: int) -> CableEvents:
    """The cable events of a stretch, their ticks since its beginning; those after its end too, at ``upto`` at the
    latest (0: none)."""
    some = cables.tick >= begin
    if not upto:
        some &= cables.tick <= end
    return cables._replace(
        tick=np.minimum(cables.tick[some] - begin, upto or end), cable=cables.cable[some], down=cables.down[some]
    )


class _History:
    """Ticks that the run has written for good, since its beginning. Of messages, those before ``first`` have both of
    theirs."""

    def __init__(self, state: State) -> None:
        self.state, self.first = state, 0
        self.entered, self.delivered = state.entered.copy(), state.delivered.copy()
        self.rows = {"log": 0, "trace": 0}

    def note(self, begin: int) -> None:
        """What the stretch that began then has written: messages' ticks of former stretches are below 0 by now."""
        made = slice(self.first, int(self.state.run["next_message"][0]))
        for times, written in (
            (self.entered[made], self.state.entered[made]),
            (self.delivered[made], self.state.delivered[made]),
        ):
            new = written >= 0
            times[new] = written[new] + begin
        under_way = np.nonzero((self.entered[made] < 0) | (self.delivered[made] < 0))[0]
        self.first = made.start + int(under_way[0]) if len(under_way) else made.stop
        for name, count in (("log", "logged"), ("trace", "traced")):
            upto = int(self.state.run[count][0])
            getattr(self.state, name)[self.rows[name] : upto, 0] += begin
            self.rows[name] = upto

    def shift_times(self, length: int) -> None:
        """Messages under way entered, and were delivered, so much earlier."""
        made = slice(self.first, int(self.state.run["next_message"][0]))
        for times in (self.state.entered[made], self.state.delivered[made]):
            times -= length

    def write_back(self) -> None:
        """Let the state have it."""
        self.state.entered[:], self.state.delivered[:] = self.entered, self.delivered


def _put_back(state: State, hook: Hook | None, length: int) -> None:
    """Count all ticks of the state but those of its events from so many later on."""
    for name in ("now", "last_move"):
        state.run[name] -= length
    state.packets["tail"][: int(state.run["used_packets"][0])] -= length
    for times in (
        *(state.queues["since"], state.queues["read_until"]),
        *(state.channels["busy"], state.channels["woken"], state.links["changed_at"]),
        *(state.turns["open_at"], state.turns["ready"]),
    ):
        times -= length
    state.release[state.release != NEVER] -= length
    sent = min(int(state.run["identifications"][0]), IDENTIFICATIONS)
    state.identifications["tick"][:sent] -= length
    if hook is not None:
        hook.state.notified_at[...] -= length
        hook.state.probed_at[...] -= length


def _put_back_events(state: State, length: int) -> None:
    """The same for the events to come, none of which is of a tick that is over."""
    keys, run = length << KEY_SHIFT, state.run
    state.heap[: int(run["heap_size"][0])] -= keys
    state.soon[: int(run["soon_size"][0])] -= keys
    state.nodes["key"][: int(run["used_nodes"][0])] -= keys
    run["bucket"] -= length >> int(run["wheel_shift"][0])
