"""A run over two processors: whether it can be shared, its halves made, run by two threads, and put together."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Event
from typing import Any

import numpy as np

from testbed.arrays import IntArray
from testbed.interconnect.compiled import kernel_records as kr
from testbed.interconnect.compiled import partition_loop as loop
from testbed.interconnect.compiled.compiled_run import STRETCH, read_outcome, run_compiled
from testbed.interconnect.compiled.kernel_state import State, build_state, build_tables, records
from testbed.interconnect.engine_inputs import EngineInputs
from testbed.interconnect.results import EngineResult
from testbed.interconnect.static_paths import NONE
from testbed.jit import compiled_entry

RUN_HALF = compiled_entry(loop.run_half, _nrt=False, error_model="numpy", nogil=True)
EVENTS = 1 << 20
"""To come, in a half at once; memory is used as they come. Of more a run goes over one processor."""
PAUSE_S = 2e-5
"""Between two calls where the other half lets one wait: it may need this processor."""
PATIENCE = 50
"""So often, and in one of sixteen windows, the other half may let one wait; then they take turns, which takes no longer
than one processor, while two that other programs need would take much longer."""


def run_on_two(inputs: EngineInputs, least: float) -> EngineResult:
    """The outcome of ``run_compiled``, to the last digit, over two processors where the run can be shared and is
    ``least`` large: messages that are made in a window, times the number of routers.

    But for the order of grants of one tick: ``trace`` has them by channel, ``digest`` is 0.
    """
    routers, links = inputs.model.layout.routers, inputs.model.links
    half_of = np.append(np.arange(routers) * 2 // max(routers, 1), [0])  # and of what is no router
    crossing = (links.start >= 0) & (links.end >= 0) & (half_of[links.start] != half_of[links.end])
    # where routers have output buffers the border lies before these: a head takes no time over the link
    channels = links.entry[crossing]
    lookahead = _lookahead(inputs, channels)
    born = inputs.messages.born
    if lookahead <= 0 or lookahead * len(born) * routers < least * born[-1]:
        return run_compiled(inputs)
    one, two = (build_state(inputs, ack_pool=len(channels), heap=EVENTS) for _ in range(2))
    shared = {
        name: getattr(one, name) for name in ("entered", "delivered", "hops", "escapes", "diverted")
    }
    states = (one, two._replace(**shared))
    border = _share(inputs, states, half_of, channels, lookahead)
    _run(inputs, states, border)
    full = kr.HEAP_FULL in (one.run["status"][0], two.run["status"][0])
    return run_compiled(inputs) if full else _merged(inputs, *states)


def _lookahead(inputs: EngineInputs, channels: IntArray) -> int:
    """For how many ticks what happens in one half does not matter in the other; 0 where the run cannot be shared.

    NAC, FT-DRB, failing cables and recovery (Disha) have effects at once, as adaptive routing has with output buffers,
    which looks at the buffers behind them; without these its router looks no further than credits tell it. Very long
    runs go in stretches.
    """
    options, model, times = inputs.options, inputs.model, inputs.transmission.ticks
    at_once = (
        options.nac.enabled
        or options.timeout > 0
        or inputs.drb is not None
        or len(inputs.cables.tick) > 0
    )
    looks_further = model.layout.output_buffers and model.relation.all_lanes > 0
    if (
        at_once
        or looks_further
        or options.end >= 2 * STRETCH
        or not len(channels)
        or not len(inputs.messages.born)
    ):
        return 0
    slot = (0 if options.head_release else times.min()) + (
        0 if model.layout.output_buffers else options.credit_delay
    )
    return int(min(slot, model.channels.delay[channels].min()))


def _share(
    inputs: EngineInputs,
    states: tuple[State, State],
    half_of: IntArray,
    channels: IntArray,
    lookahead: int,
) -> loop.Border:
    """What the halves share; each state is made that of its half."""
    model, messages, lanes = inputs.model, inputs.messages, inputs.model.layout.lanes
    count = len(messages.born)
    fills = model.links.start[channels % model.layout.links]
    empties = fills if model.layout.output_buffers else model.links.end[channels]
    queues = (channels[:, None] * lanes + np.arange(lanes)).ravel()
    pairs = np.unique([np.repeat([fills, empties], lanes), np.tile(queues, 2)], axis=1)
    half_of_message = half_of[model.links.end[model.hosts.uplink[messages.source]]]
    following = np.full(count, count)
    for half, state in enumerate(states):
        own = np.nonzero(half_of_message == half)[0]
        following[own[:-1]] = own[1:]
        state.run["next_message"][:] = own[0] if len(own) else count
        state.queues["router"][queues[np.repeat(half_of[fills], lanes) == half]] = loop.OTHER_HALF
    last = (
        int(messages.born[-1] - inputs.transmission.ticks.max())
        - inputs.options.credit_delay
        - inputs.options.turnaround
    )
    room = len(channels) * (lookahead // int(inputs.transmission.ticks.min()) + 2)
    first = np.searchsorted(pairs[0], np.arange(model.layout.routers + 1))
    keys, packets = np.zeros(4 * room, dtype=np.int64), records(kr.Packet, 4 * room)
    windows, own, boxes = (
        np.zeros(shape, dtype=np.int64) for shape in (2 * loop.LINE, (2, 16), (4, 16))
    )
    of_buffers = first, pairs[1], np.zeros((2, model.layout.queues), dtype=np.int64)
    return loop.Border(
        lookahead, max(last, 0), room, following, *of_buffers, keys, packets, windows, own, boxes
    )


def _run(inputs: EngineInputs, states: tuple[State, State], border: loop.Border) -> None:
    """Both halves at once until they are to take turns, then so; an error of either ends both."""
    tables, stopped = build_tables(inputs.model), Event()

    def call(half: int) -> int:
        return int(
            RUN_HALF(tables, inputs.options, *(states if half < 1 else states[::-1]), border, half)
        )

    def go_through_windows(half: int) -> None:
        waits = 0
        try:
            while call(half) == loop.WAITING and not stopped.wait(PAUSE_S):
                waits += 1
                border.own[half, loop.BUSY] = waits > PATIENCE + border.own[half, loop.WINDOW] // 16
        except BaseException:
            stopped.set()
            raise

    call(0)  # alone it does not get far; what is not compiled ahead is compiled now
    with ThreadPoolExecutor(1) as threads:
        second = threads.submit(go_through_windows, 1)
        go_through_windows(0)
        second.result()
    call(NONE)


def _merged(inputs: EngineInputs, one: Any, two: Any) -> EngineResult:
    """What both states say at the end of a run, as one."""
    counts = [int(state.run["used_packets"][0]) for state in (one, two)]
    for state in (one, two):
        state.queues["occupied"][state.queues["router"] == loop.OTHER_HALF] = 0
    for places in (two.queues["head"], two.packets["next"]):
        places += counts[0]
    one.channels["carried"] += two.channels["carried"]
    traced = [int(state.run["traced"][0]) for state in (one, two)]
    rows = np.concatenate([one.trace[: traced[0]], two.trace[: traced[1]]])
    trace = rows[np.lexsort((rows[:, 1], rows[:, 0]))][: len(one.trace)]
    for name in ("deliveries", "packet_hops", "livelocked"):
        one.run[name] += two.run[name]
    for name, value in (("now", max), ("status", max), ("next_message", min)):
        one.run[name] = value(one.run[name][0], two.run[name][0])
    one.run["traced"], one.run["digest"] = len(trace), 0
    occupied = two.queues["occupied"] > 0
    merged = one._replace(
        queues=np.where(occupied, two.queues, one.queues),
        packets=np.concatenate([one.packets[: counts[0]], two.packets[: counts[1]]]),
        trace=trace,
    )
    return replace(read_outcome(inputs, merged, None), processors=2)
