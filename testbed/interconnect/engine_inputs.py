"""The inputs of an engine: a run in whole ticks, built from parameters, messages and faults.

Tests compare the two engines (``compiled/`` and the reference engine of
``tests/oracles/interconnect/``), so neither imports anything from the other. They share only the
network's tables (``network_model.py``, ``static_paths.py``) and the values of this module.
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

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

Record = TypeVar("Record")
# Index of the size of an ACK among the sizes of a run with FT-DRB.
ACK_SIZE = 0
# Failures and repairs are left out if they come after the end of the run and later than this.
FORGOTTEN_S = 20.0


class NacSettings(NamedTuple):
    """The options of ``NacOptions`` under the same names, with times in ticks.

    Attributes:
        enabled: Whether NAC is used. None if FT-DRB is not used either: numba then leaves out the
            code of both.
        control: Time t_f of a control packet over one hop.
        retry: Time after which an input that is still blocked identifies itself again.
        repeat_when_full: Whether identification packets are repeated while the avoidance buffer is
            full.
        own_request: Whether the avoidance buffer requests the crossbar independently of its input.
        reserve: Whether a freed slot is reserved for the cycle.
        stop_local: Whether local injection stops while a router is blocked or recovers.
        recovery_run: Whether the recovery signal travels round the cycle.
        slack: An output counts as full if it has at most this many free slots.
        strict_slot: Whether the avoidance buffer is in use until the tail of its packet has left.
        stop_output: Whether an output that a blocked input requests is closed from detection on.
        identify_anew: Whether each router that the recovery signal reaches identifies the cycle
            itself.
        ask_anew: Whether heads of inputs are routed again when a cable fails or is repaired.
    """

    enabled: bool | None
    control: int
    retry: int
    repeat_when_full: bool
    own_request: bool
    reserve: bool
    stop_local: bool
    recovery_run: bool
    slack: int
    strict_slot: bool
    stop_output: bool
    identify_anew: bool
    ask_anew: bool


class EngineOptions(NamedTuple):
    """The behaviour of the routers of a run, with times in ticks.

    Attributes:
        fifo: Whether arbitration grants the request that has waited longest, instead of round
            robin.
        head_release: Whether a slot is free when the head of its packet has left, instead of the
            tail.
        credit_delay: Time until the credit of a freed slot has returned.
        turnaround: Time from the tail of a packet to the next head out of the same queue of a
            router, or into the same lane behind a router.
        lanes_in_turn: Whether a packet takes the lane with room that follows the lane of the
            previous packet of its queue, instead of the first lane with room.
        keep_class: Whether a packet keeps its half of the lanes while it is in a ring, instead of
            until it has crossed the dateline.
        end: Tick at which the run ends. Messages that have not arrived by then are undelivered.
        watchdog: The run has made no progress if no packet has moved for this long.
        timeout: A head that has waited this long is treated as deadlocked; 0: no recovery.
        bubble: Whether a packet that enters a ring must leave a slot free.
        hop_cap: Number of links after which a packet counts as livelocked.
        nac: The settings of NAC.
    """

    fifo: bool
    head_release: bool
    credit_delay: int
    turnaround: int
    lanes_in_turn: bool
    keep_class: bool
    end: int
    watchdog: int
    timeout: int
    bubble: bool
    hop_cap: int
    nac: NacSettings


class FtDrbSettings(NamedTuple):
    """The options of ``FtDrbOptions``, with times in ticks.

    The two fields that are not options are zero-load latencies. ``base_ticks`` is the latency of a
    packet whose source and destination are on one router, and ``hop_ticks`` is what each link
    between routers adds to it. The thresholds are multiples of them.
    """

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
    hop_ticks: int
    notify_by_router: bool
    notify_queued: bool
    reuse_notifications: bool
    link_up_by_router: bool
    synthetic_probes: bool
    seed: int


class Messages(NamedTuple):
    """All messages of a run, with one entry per message in each array, in order of ``born``.

    The number of a message is its index.

    Attributes:
        born: Tick at which the message is generated.
        source: Number of the source host.
        destination: Number of the destination host.
        size: Index of its size in the transmission times.
        variant: The routing table that it follows, which decides the direction round a ring if both
            are equally long. With a routing relation: the part of its path that it is on
            (``route_tables``).
        first: The router that its detour leads over; NONE: no detour.
    """

    born: IntArray
    source: IntArray
    destination: IntArray
    size: IntArray
    variant: IntArray
    first: IntArray


class CableEvents(NamedTuple):
    """Failures and repairs of cables in order of time, and the links of each cable.

    Attributes:
        tick: Time of each event.
        cable: The cable that fails or is repaired.
        down: 1 for a failure, 0 for a repair.
        first: Index in ``links`` at which the links of each cable begin.
        links: The links of all cables, grouped by cable.
    """

    tick: IntArray
    cable: IntArray
    down: IntArray
    first: IntArray
    links: IntArray


@dataclass(frozen=True, kw_only=True)
class Recording:
    """The amount of history that a run stores.

    Attributes:
        grants: Number of first grants (tick, channel, packet) to store.
        nac_events: Number of first events of NAC to store.
    """

    grants: int = 0
    nac_events: int = 100_000


@dataclass(frozen=True, kw_only=True)
class EngineInputs:
    """The inputs of one run. ``drb`` is None if packets are not routed by FT-DRB."""

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
    """Return the inputs of an engine, in ticks.

    Args:
        model: Tables of the network.
        injections: The messages.
        parameters: Parameters of routers and links.
        faults: Failures of the model's network, checked by ``check_faults``.
        recording: The amount of history to store.
    """
    flits, size = _sizes(parameters, injections)
    transmission = build_transmission(model, parameters, flits)
    options = _options(model, parameters, injections, int(np.max(transmission.ticks, initial=1)))
    drb = None
    if parameters.routing == "ft-drb":
        drb = build_settings(with_slowest_link(model.network, parameters))
    return EngineInputs(
        model=model,
        options=options,
        transmission=transmission,
        drb=drb,
        messages=_messages(model, parameters, injections, size),
        cables=_cable_events(model, faults, options.end),
        recording=recording,
    )


def copied(kind: Callable[..., Record], source: object, **values: object) -> Record:
    """Return a named tuple with these values, and with the fields of ``source`` for the others.

    Args:
        kind: The class of the named tuple.
        source: An object with a field of the same name for each field that has no value here.
        values: Fields that ``source`` does not have, or has in another unit.
    """
    names = inspect.signature(kind).parameters.keys() - values.keys()
    return kind(**values, **{name: getattr(source, name) for name in names})


def _options(
    model: NetworkModel,
    parameters: SimulationParameters,
    injections: Injections,
    longest_packet: int,
) -> EngineOptions:
    """Return the behaviour of the routers.

    Args:
        model: Tables of the network.
        parameters: Parameters of routers and links.
        injections: The messages, the last of which determines the end of the run.
        longest_packet: Longest transmission time of a packet, in ticks.
    """
    nac = parameters.nac
    last = 0
    if len(injections):
        last = int(injections.time_ps[-1]) // PS_PER_TICK
    enabled: bool | None = True
    if parameters.deadlock != "nac":
        enabled = False if parameters.routing == "ft-drb" else None
    timeout = 0
    if parameters.deadlock == "disha":
        timeout = ticks(parameters.timeout_s)
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
        timeout=timeout,
        bubble=parameters.deadlock == "bubble",
        hop_cap=parameters.ft_drb.hop_cap_diameters * max(model.paths.diameter, 1),
        nac=copied(
            NacSettings,
            nac,
            enabled=enabled,
            control=ticks(nac.control_s),
            retry=ticks(_retry_s(model, parameters)),
        ),
    )


def _retry_s(model: NetworkModel, parameters: SimulationParameters) -> float:
    """Return NAC's retry time in seconds, as requested or by default.

    The default is (n + 1) t_f on a ring of n routers, and 4 k t_f on other networks, where k is the
    largest side of a torus or mesh, or the diameter.
    """
    nac = parameters.nac
    if nac.retry_s is not None:
        return nac.retry_s
    if model.is_ring:
        return nac.control_s * (model.largest_side + 1)
    return nac.control_s * (4 * model.largest_side)


def build_settings(parameters: SimulationParameters) -> FtDrbSettings:
    """Return FT-DRB's options in ticks, and the zero-load latencies that its thresholds need."""
    drb = parameters.ft_drb
    size_bytes = parameters.packet_bytes + parameters.header_bytes
    base_ticks = zero_load_ticks(parameters, 1, size_bytes)
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
        base_ticks=base_ticks,
        hop_ticks=zero_load_ticks(parameters, 2, size_bytes) - base_ticks,
        notify_by_router=drb.notifier == "router",
        link_up_by_router=drb.link_up == "router",
        synthetic_probes=drb.probes == "synthetic",
        seed=parameters.seed,
    )


def _sizes(parameters: SimulationParameters, injections: Injections) -> tuple[IntArray, IntArray]:
    """Return the sizes of packets, in flits, and the index of the size of each message.

    Under FT-DRB the first size is that of an ACK (``ACK_SIZE``).
    """
    ack_flits = []
    if parameters.routing == "ft-drb":
        ack_flits.append(flits_of(parameters.ft_drb.ack_bytes))
    if injections.size_bytes is None:
        packet_bytes = parameters.packet_bytes + parameters.header_bytes
        message_flits = np.array([flits_of(packet_bytes)])
        index = np.zeros(len(injections), dtype=np.int64)
    else:
        size_bytes = injections.size_bytes.astype(np.int64) + parameters.header_bytes
        message_flits, index = np.unique(-(-size_bytes // FLIT_BYTES), return_inverse=True)
    flits = np.concatenate([np.array(ack_flits, dtype=np.int64), message_flits])
    return flits, (index + len(ack_flits)).astype(np.int64)


def _messages(
    model: NetworkModel, parameters: SimulationParameters, injections: Injections, size: IntArray
) -> Messages:
    """Return the messages in ticks, with the routing variant and the detour that each draws.

    The seeds of the two draws differ in their last number, so that the draws are independent.
    """
    count = len(injections)
    variants = len(model.routes.next_link)
    variant = np.zeros(count, dtype=np.uint8)
    if variants > 1:
        rng = np.random.default_rng([parameters.seed, 7])
        variant = rng.integers(variants, size=count).astype(np.uint8)
    first = np.full(count, NONE, dtype=np.int32)
    if model.relation.detour != NO_DETOUR:
        rng = np.random.default_rng([parameters.seed, 8])
        first = rng.integers(model.layout.routers, size=count).astype(np.int32)
        variant[:] = FIRST if model.relation.detour == VALIANT else UNDECIDED
    return Messages(
        born=(injections.time_ps // PS_PER_TICK).astype(np.int64),
        source=injections.source,
        destination=injections.destination,
        size=size,
        variant=variant,
        first=first,
    )


def _cable_events(model: NetworkModel, faults: Sequence[Fault], end: int) -> CableEvents:
    """Return the failures and repairs until the tick ``end``, or FORGOTTEN_S if that is later."""
    events = _sorted_events(model, faults)
    latest = max(end, ticks(FORGOTTEN_S))
    events = [event for event in events if event[0] <= latest]
    cable = model.links.cable
    links_by_cable = [
        link for link in np.argsort(cable, kind="stable").tolist() if cable[link] >= 0
    ]
    counts = np.bincount(cable[cable >= 0], minlength=model.cables)
    return CableEvents(
        tick=np.array([tick for tick, _, _ in events], dtype=np.int64),
        cable=np.array([number for _, number, _ in events], dtype=np.int32),
        down=np.array([down for _, _, down in events], dtype=np.uint8),
        first=np.concatenate([[0], np.cumsum(counts)]).astype(np.int32),
        links=np.array(links_by_cable, dtype=np.int32),
    )


def _sorted_events(model: NetworkModel, faults: Sequence[Fault]) -> list[tuple[int, int, int]]:
    """Return (tick, cable, 1 for a failure or 0 for a repair) of all faults, in order of time."""
    router_number = {switch.id: i for i, switch in enumerate(model.network.switches)}
    links = model.links
    cable_between = {}
    for a, b, cable in zip(links.start, links.end, links.cable, strict=True):
        if cable >= 0:
            cable_between[frozenset((int(a), int(b)))] = int(cable)
    events: list[tuple[int, int, int]] = []
    for fault in faults:
        number = cable_between[frozenset(router_number[end] for end in fault.ends)]
        start = ticks(fault.start_s)
        events.append((start, number, 1))
        if fault.stop_s < MAX_S:
            # A repair comes at least one tick after its failure, or it would be sorted before it.
            events.append((max(ticks(fault.stop_s), start + 1), number, 0))
    return sorted(events)
