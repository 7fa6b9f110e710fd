"""What both engines are handed, and all that they share: the run in whole ticks, from parameters, messages and faults.

The engines (``compiled/`` and that of ``tests/oracles/interconnect/``) are held against each other by tests, so they
import nothing of one another: they meet in the network's tables (``network_model.py``, ``static_paths.py``) and in the
values of this module.
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np

from testbed.arrays import IntArray
from testbed.faults.fault import Fault
from testbed.interconnect.network_model import NetworkModel, zero_load_ticks
from testbed.interconnect.options import MAX_S
from testbed.interconnect.parameters import (
    FLIT_BYTES,
    PS_PER_TICK,
    SimulationParameters,
    flits_of,
    ticks,
)
from testbed.interconnect.route_tables import FIRST, NO_DETOUR, UNDECIDED, VALIANT
from testbed.interconnect.static_paths import NONE
from testbed.interconnect.traffic.injection import Injections
from testbed.interconnect.transmission import (
    Transmission,
    build_transmission,
    with_slowest_link,
)

Copy = TypeVar("Copy")
ACK_SIZE = 0
"""Index of the size of an ACK, in runs with FT-DRB."""
FORGOTTEN_S = 20.0
"""Failures and repairs later than this that come after the end of the run are left out."""


class NacSettings(NamedTuple):
    """NAC's options, named as in ``NacOptions``, times in ticks."""

    enabled: bool | None
    """None: it is not, nor is FT-DRB, and numba leaves its code out."""
    control: int
    """t_f: a control packet over a hop."""
    retry: int
    """Until an input that is still blocked identifies itself again."""
    repeat_when_full: bool
    own_request: bool
    reserve: bool
    stop_local: bool
    recovery_run: bool
    slack: int
    """Free slots with which an output still counts as full."""
    strict_slot: bool
    stop_output: bool
    identify_anew: bool
    ask_anew: bool


class EngineOptions(NamedTuple):
    """How the routers of a run work, times in ticks."""

    fifo: bool
    """Arbitration by who has asked longest, else round robin."""
    head_release: bool
    """A slot is free when the head of its packet has left, else when the tail has."""
    credit_delay: int
    """Until the credit of a freed slot is back."""
    turnaround: int
    """From the tail of a packet to the next head out of a router's same queue, or into the same lane behind a
    router."""
    lanes_in_turn: bool
    """Of several lanes with room a packet takes the one after that which the last out of its queue took, else the
    first."""
    keep_class: bool
    """A packet keeps its half of the lanes while it is in a ring, else until it has crossed the dateline."""
    end: int
    """The run is over: what has not arrived is undelivered."""
    watchdog: int
    """So long without a packet having moved is no progress."""
    timeout: int
    """So long a head waits before it is taken for deadlocked; 0: nothing recovers."""
    bubble: bool
    """Who enters a ring leaves a slot free."""
    hop_cap: int
    """Links after which a packet counts as a livelock."""
    nac: NacSettings


class FtDrbSettings(NamedTuple):
    """FT-DRB's options, named as in ``FtDrbOptions``, times in ticks."""

    paths: int
    first_paths: int
    notifications: int
    mark_by_count: bool
    mark_by_clock: bool
    marking_ticks: int
    probe_by_count: bool
    probe_by_clock: bool
    probe_every: int
    probe_ticks: int
    always: bool
    threshold: float
    tolerance: float
    averaging: int
    hysteresis: bool
    base_ticks: int
    """Zero-load latency of a packet whose source and destination are on one router."""
    hop_ticks: int
    """What each link between routers adds to it."""
    notify_by_router: bool
    notify_queued: bool
    reuse_notifications: bool
    link_up_by_router: bool
    synthetic_probes: bool
    seed: int


class Messages(NamedTuple):
    """One entry a message, in order of ``born``; its number is its place."""

    born: IntArray
    """The tick at which it is made."""
    source: IntArray
    destination: IntArray
    size: IntArray
    """Index of its size in the transmission times."""
    variant: IntArray
    """Which of the routing tables it follows: which way round where both are as long; under a relation: which part of
    its way it is on (``route_tables``)."""
    first: IntArray
    """The router that its detour leads over; NONE: no detour."""


class CableEvents(NamedTuple):
    """When which cable fails or works again, in order of time; and the links that each cable is made of."""

    tick: IntArray
    cable: IntArray
    down: IntArray
    """1: it fails; 0: it works again."""
    first: IntArray
    """Where a cable's part of ``links`` begins."""
    links: IntArray


@dataclass(frozen=True, kw_only=True)
class Recording:
    """How much of a run is kept: the first grants (tick, channel, packet) and the first events of NAC."""

    grants: int = 0
    nac_events: int = 100_000


@dataclass(frozen=True, kw_only=True)
class EngineInputs:
    """One run. ``drb`` is None where packets do not move by FT-DRB."""

    model: NetworkModel
    options: EngineOptions
    transmission: Transmission
    drb: FtDrbSettings | None
    messages: Messages
    cables: CableEvents
    recording: Recording


def build_inputs(
    model: NetworkModel,
    injections: Injections,
    parameters: SimulationParameters,
    faults: Sequence[Fault],
    recording: Recording,
) -> EngineInputs:
    """A run in ticks. ``faults`` must be of the model's network (``check_faults``)."""
    flits, size = _sizes(parameters, injections)
    transmission = build_transmission(model, parameters, flits)
    options = _options(model, parameters, injections, int(np.max(transmission.ticks, initial=1)))
    slowest = with_slowest_link(model.network, parameters)
    return EngineInputs(
        model=model,
        options=options,
        transmission=transmission,
        drb=build_settings(slowest) if parameters.routing == "ft-drb" else None,
        messages=_messages(model, parameters, injections, size),
        cables=_cable_events(model, faults, options.end),
        recording=recording,
    )


def copied(kind: Callable[..., Copy], source: object, **given: object) -> Copy:
    """A named tuple whose fields are as given, or else as those of the same name in ``source``."""
    names = inspect.signature(kind).parameters.keys() - given.keys()
    return kind(**given, **{name: getattr(source, name) for name in names})


def _options(
    model: NetworkModel,
    parameters: SimulationParameters,
    injections: Injections,
    longest_packet: int,
) -> EngineOptions:
    nac = parameters.nac
    last = int(injections.time_ps[-1]) // PS_PER_TICK if len(injections) else 0
    retry_s, enabled = (
        nac.retry_s,
        parameters.deadlock == "nac" or (None if parameters.routing != "ft-drb" else False),
    )
    if retry_s is None:
        retry_s = nac.control_s * (
            model.largest_side + 1 if model.is_ring else 4 * model.largest_side
        )
    return EngineOptions(
        fifo=parameters.arbitration == "fifo",
        head_release=parameters.hop.release == "head",
        credit_delay=ticks(parameters.hop.credit_delay_s),
        turnaround=ticks(parameters.hop.turnaround_s),
        lanes_in_turn=parameters.hop.lanes == "in-turn",
        keep_class=parameters.hop.dateline == "ring" and parameters.routing != "ft-drb",
        end=last + ticks(parameters.drain_s),
        # A packet that is being transmitted is progress, even over the slowest link.
        watchdog=max(ticks(parameters.watchdog_s), 2 * longest_packet),
        timeout=ticks(parameters.timeout_s) if parameters.deadlock == "disha" else 0,
        bubble=parameters.deadlock == "bubble",
        hop_cap=parameters.ft_drb.hop_cap_diameters * max(model.paths.diameter, 1),
        nac=copied(
            NacSettings, nac, enabled=enabled, control=ticks(nac.control_s), retry=ticks(retry_s)
        ),
    )


def build_settings(parameters: SimulationParameters) -> FtDrbSettings:
    """FT-DRB's options in ticks, next to the zero-load latencies that its thresholds stand on."""
    drb, size = parameters.ft_drb, parameters.packet_bytes + parameters.header_bytes
    one, two = (zero_load_ticks(parameters, routers, size) for routers in (1, 2))
    return copied(
        FtDrbSettings,
        drb,
        mark_by_count=drb.marking != "clock",
        mark_by_clock=drb.marking != "ack",
        marking_ticks=ticks(drb.marking_s),
        probe_by_count=drb.probing != "clock",
        probe_by_clock=drb.probing != "request",
        probe_ticks=ticks(drb.probe_s),
        threshold=float(drb.threshold),
        tolerance=float(drb.tolerance),
        base_ticks=one,
        hop_ticks=two - one,
        notify_by_router=drb.notifier == "router",
        link_up_by_router=drb.link_up == "router",
        synthetic_probes=drb.probes == "synthetic",
        seed=parameters.seed,
    )


def _sizes(parameters: SimulationParameters, injections: Injections) -> tuple[IntArray, IntArray]:
    """Return the sizes of packets, in flits, and the index of the size of each message.

    Under FT-DRB the first size is that of an ACK (``ACK_SIZE``).
    """
    acks = [flits_of(parameters.ft_drb.ack_bytes)] if parameters.routing == "ft-drb" else []
    if injections.size_bytes is None:
        of_messages = np.array([flits_of(parameters.packet_bytes + parameters.header_bytes)])
        index = np.zeros(len(injections), dtype=np.int64)
    else:
        size_bytes = injections.size_bytes.astype(np.int64) + parameters.header_bytes
        of_messages, index = np.unique(-(-size_bytes // FLIT_BYTES), return_inverse=True)
    flits = np.concatenate([np.array(acks, dtype=np.int64), of_messages])
    return flits, (index + len(acks)).astype(np.int64)


def _messages(
    model: NetworkModel, parameters: SimulationParameters, injections: Injections, size: IntArray
) -> Messages:
    count = len(injections)
    variants = len(model.routes.next_link)
    drawn = np.zeros(count, dtype=np.uint8)
    if variants > 1:
        drawn = (
            np.random.default_rng([parameters.seed, 7])
            .integers(variants, size=count)
            .astype(np.uint8)
        )
    first = np.full(count, NONE, dtype=np.int32)
    if model.relation.detour != NO_DETOUR:
        first = (
            np.random.default_rng([parameters.seed, 8])
            .integers(model.layout.routers, size=count)
            .astype(np.int32)
        )
        drawn[:] = FIRST if model.relation.detour == VALIANT else UNDECIDED
    return Messages(
        born=(injections.time_ps // PS_PER_TICK).astype(np.int64),
        source=injections.source,
        destination=injections.destination,
        size=size,
        variant=drawn,
        first=first,
    )


def _cable_events(model: NetworkModel, faults: Sequence[Fault], end: int) -> CableEvents:
    index = {switch.id: i for i, switch in enumerate(model.network.switches)}
    cable = model.links.cable
    latest = max(end, ticks(FORGOTTEN_S))
    between = {
        frozenset((int(a), int(b))): int(c)
        for a, b, c in zip(model.links.start, model.links.end, cable, strict=True)
        if c >= 0
    }
    events: list[tuple[int, int, int]] = []
    for fault in faults:
        number = between[frozenset(index[end] for end in fault.ends)]
        events.append((ticks(fault.start_s), number, 1))
        if fault.stop_s < MAX_S:
            events.append((max(ticks(fault.stop_s), ticks(fault.start_s) + 1), number, 0))
    events = sorted(event for event in events if event[0] <= latest)
    columns: list[Any] = (
        [list(column) for column in zip(*events, strict=True)] if events else [[], [], []]
    )
    order = [link for link in np.argsort(cable, kind="stable").tolist() if cable[link] >= 0]
    counts = np.bincount(cable[cable >= 0], minlength=model.cables)
    return CableEvents(
        tick=np.array(columns[0], dtype=np.int64),
        cable=np.array(columns[1], dtype=np.int32),
        down=np.array(columns[2], dtype=np.uint8),
        first=np.concatenate([[0], np.cumsum(counts)]).astype(np.int32),
        links=np.array(order, dtype=np.int32),
    )
