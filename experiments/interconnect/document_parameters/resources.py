"""Measures the resources that FT-DRB needs, its longest waits, and failures of whole routers.

The document promises that no packet starves (Zarza 2011, 3.5) and that little is stored and sent
(3.5.3). It leaves out failures of routers (2.2). The waits of packets at the heads of router
buffers are computed from all grants of the simulator, under loads that fill the buffers.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np

from experiments.interconnect.figures import PERFORMANCE
from experiments.interconnect.runs import model_of, parameters_of
from experiments.interconnect.samples import COUNTED, at_most, failure_performances, mean
from experiments.interconnect.study_points import (
    LINK_PACKETS_PER_S,
    TEN_PERCENT,
    Run,
    drb_point,
    faults_of,
    network_of,
    seeds_of,
    traffic_of,
)
from testbed.arrays import IntArray
from testbed.faults.cable_faults import cable_fault, switch_cables
from testbed.faults.fault import Fault
from testbed.interconnect.engine_inputs import Recording
from testbed.interconnect.network_model import NetworkModel
from testbed.interconnect.parameters import TICKS_PER_S, SimulationParameters
from testbed.interconnect.results import SimulationResult, summarize
from testbed.interconnect.simulation import simulate
from testbed.interconnect.traffic.injection import Injections
from testbed.model.studies import (
    Check,
    Claim,
    Figures,
    Points,
    Results,
    Row,
    Rows,
    Study,
    Verdict,
    sum_of,
    where,
)
from testbed.report.drawing.charts import draw_bars
from topologies import Network

NETWORKS = ("torus:8x8", "fat-tree:4,3")


class Load(NamedTuple):
    """A load that fills buffers.

    Attributes:
        fraction: Fraction of a link that each node offers.
        seconds: Simulated time.
    """

    fraction: float
    seconds: float


# Loads by pattern. The root of gather receives nearly twice what its link carries.
WAITS = {"uniform": Load(0.4, 0.004), "gather": Load(0.03, 0.05)}
ARBITRATIONS = ("round-robin", "fifo")

# Largest number of grants that are recorded.
GRANTS = 4_000_000

# Numbers of routers that fail. Dimension order (d-mod-k on trees) runs with one.
FAILED_ROUTERS = (0, 1, 2, 3)
MAX_FAILED_ROUTERS = max(FAILED_ROUTERS)
FIXED_ROUTING = "dor"

ACK_BYTES = 64
MESSAGE_BYTES = 512

# A stored path is a latency of 4 bytes and two routers of 2 bytes each.
PATH_BYTES = 8

# A stored failed link is a cable of 2 bytes and the number of its notifications in a row.
CABLE_BYTES = 3


def points(quick: bool, seed: int) -> Points:
    """Return the points.

    Part "waits" has loads that fill buffers, by pattern and arbitration. Part "stored" has usual
    traffic. Both have a tenth of the links failed. In part "routers" whole routers fail.
    """
    seed_count = 2 if quick else 10
    seeds = list(seeds_of(seed, quick))[:seed_count]
    result: Points = []
    for run_seed, network in product(seeds, NETWORKS):
        failed: Results = {"faults": TEN_PERCENT[network], "fault_kind": "start", "quick": quick}
        for (pattern, load), arbitration in product(WAITS.items(), ARBITRATIONS):
            point = drb_point(
                network,
                pattern,
                run_seed,
                rate=load.fraction * LINK_PACKETS_PER_S,
                seconds=load.seconds / 4 if quick else load.seconds,
                **failed,
            )
            result.append({**point, "part": "waits", "arbitration": arbitration})
        point = drb_point(network, "uniform", run_seed, **failed)
        result.append({**point, "part": "stored"})
        for count in FAILED_ROUTERS:
            result.append(_router_point(network, run_seed, count, "ft-drb"))
        result.append(_router_point(network, run_seed, 1, FIXED_ROUTING))
    return result


def _router_point(network: str, seed: int, count: int, routing: str) -> Results:
    """Return the point of a run in which this number of routers fails."""
    point = drb_point(
        network,
        "uniform",
        seed,
        quick=True,
        faults=count,
        fault_kind="routers",
        routing=routing,
    )
    return {**point, "part": "routers"}


def measure(point: Row) -> Results:
    """Simulate one run.

    Returns:
        Numbers of messages, and the results of the point's part.
    """
    run = Run.of(point)
    arbitration = point.get("arbitration", "round-robin")
    parameters = replace(parameters_of(run), arbitration=arbitration)
    network = network_of(run.network)
    traffic = traffic_of(run)
    if point["part"] == "routers":
        # All runs of a seed have the same traffic, whatever the number of routers that fail.
        dead = dead_routers(network, MAX_FAILED_ROUTERS, run.seed)
        traffic = between_live(network, traffic, dead)
        faults = faults_of_routers(network, dead[: run.faults])
    else:
        faults = faults_of(run)
    model = model_of(run.network, parameters)
    grants = GRANTS if point["part"] == "waits" else 0
    result = simulate(model, traffic, parameters, faults, recording=Recording(grants=grants))
    row: Results = {
        "sent": result.sent,
        "received": result.received,
        "deadlocked": result.deadlocked,
    }
    if point["part"] == "waits":
        return row | _wait_results(model, result, parameters)
    return row | _storage_results(result, run.seconds)


def _wait_results(
    model: NetworkModel, result: SimulationResult, parameters: SimulationParameters
) -> Results:
    longest_s, passed_over = longest_wait(model, result)
    signals, credits_sent = flow_control_signals(model, result, parameters)
    return {
        "grants": len(result.trace),
        "longest_wait_s": longest_s,
        "passed_over": passed_over,
        "on_off_signals": signals,
        "credits": credits_sent,
    }


def _storage_results(result: SimulationResult, seconds: float) -> Results:
    """Return what sources store, and the links that messages and ACKs cross."""
    # A message that arrives crosses one link more than routers.
    message_links = int((result.hops + 1).sum())
    row: Results = {}
    for name, number in result.max_entries.items():
        row[f"most_{name}"] = number
    summary = summarize(result, start_s=0.0, end_s=seconds)
    row["latency_s"] = summary.destination_mean_latency_s
    row["message_links"] = message_links
    row["ack_links"] = int(result.carried.sum()) - message_links
    return row


def successive_grants(packet: IntArray) -> tuple[IntArray, IntArray]:
    """Return the pairs of successive grants of the same packet.

    Args:
        packet: The packet of each grant, in the order of time.

    Returns:
        The indices of the grants into buffers, and those of the grants out of these buffers.
    """
    order = np.argsort(packet, kind="stable")
    same_packet = packet[order][1:] == packet[order][:-1]
    return order[:-1][same_packet], order[1:][same_packet]


def longest_wait(model: NetworkModel, result: SimulationResult) -> tuple[float, int]:
    """Return the longest waits of packets at the heads of router buffers for a channel.

    A packet is at the head of its buffer when it has arrived there and the packet before it has
    been granted a channel.

    Returns:
        The longest wait (s), and the largest number of other packets that a channel took while a
        packet waited for it.
    """
    tick, channel, packet = result.trace.T
    entered, left = successive_grants(packet)
    head_tick = tick[entered] + model.channels.delay[channel[entered]]
    # Messages and control packets have different buffers.
    buffer = 2 * channel[entered] + (packet[left] >= result.sent)
    ahead, behind = _neighbours_in_buffer(buffer, left)
    head_tick[behind] = np.maximum(head_tick[behind], tick[left[ahead]])

    # One number for channel and tick, so that a sorted array gives the grants of a channel
    # between two ticks.
    span = result.stopped_tick + 2
    grants = np.sort(channel * span + tick)
    until = np.searchsorted(grants, channel[left] * span + tick[left])
    since = np.searchsorted(grants, channel[left] * span + head_tick)
    longest_ticks = (tick[left] - head_tick).max()
    return float(longest_ticks) / TICKS_PER_S, int((until - since).max())


def _neighbours_in_buffer(buffer: IntArray, left: IntArray) -> tuple[IntArray, IntArray]:
    """Return the pairs of packets that were granted their way out of a buffer in succession.

    Args:
        buffer: The buffer of each packet.
        left: The grant by which each packet left it.

    Returns:
        The indices of the first packets and of the second ones.
    """
    by_buffer = np.lexsort((left, buffer))
    same_buffer = buffer[by_buffer][1:] == buffer[by_buffer][:-1]
    return by_buffer[:-1][same_buffer], by_buffer[1:][same_buffer]


def flow_control_signals(
    model: NetworkModel, result: SimulationResult, parameters: SimulationParameters
) -> tuple[int, int]:
    """Return the signals of on/off flow control and of credits, for data between routers.

    On/off flow control sends "off" each time that a buffer behind a link fills, and "on" when it
    is no longer full. Credits are sent for every packet that has left such a buffer. A slot is
    free when the tail of its packet has left.

    Returns:
        The number of signals "on" and "off", and the number of credits.
    """
    data = result.trace[result.trace[:, 2] < result.sent]
    tick, channel, packet = data.T
    entered, granted_out = successive_grants(packet)
    behind_link = channel[entered] < model.layout.links
    entered = entered[behind_link]
    granted_out = granted_out[behind_link]
    packet_bytes = parameters.packet_bytes + parameters.header_bytes
    left_tick = tick[granted_out] + parameters.serialization_ticks(packet_bytes)

    # Each packet makes two events: it takes a slot of its buffer, and frees it.
    buffer = np.tile(channel[entered], 2)
    change = np.repeat((1, -1), len(entered))
    event_tick = np.concatenate((tick[entered], left_tick))
    # At the same tick a slot is freed before another one is taken.
    by_time = np.lexsort((change, event_tick, buffer))
    # Every packet that enters leaves, so that the count is 0 where the next buffer begins.
    occupied = np.cumsum(change[by_time])
    becomes_full = (occupied == parameters.slots) & (change[by_time] > 0)
    return 2 * int(becomes_full.sum()), len(entered)


def dead_routers(network: Network, count: int, seed: int) -> list[str]:
    """Return random routers that may fail.

    On a torus any router may fail. In a fat tree only those without attached nodes may fail.
    """
    hosts = {host.id for host in network.hosts}
    with_hosts = {link.source for link in network.links if link.target in hosts}
    routers = [switch.id for switch in network.switches]
    without_hosts = [router for router in routers if router not in with_hosts]
    candidates = without_hosts or routers
    order = np.random.default_rng([seed, 13]).permutation(len(candidates))
    return [candidates[index] for index in order[:count]]


def faults_of_routers(network: Network, dead: Sequence[str]) -> tuple[Fault, ...]:
    """Return the permanent failures of all cables of these routers, from the start."""
    faults = []
    for cable in switch_cables(network):
        if not set(dead).isdisjoint(cable):
            faults.append(cable_fault(cable))
    return tuple(faults)


def between_live(network: Network, traffic: Injections, dead: Sequence[str]) -> Injections:
    """Return the messages that neither come from nor go to a node of these routers."""
    numbers = {host.id: number for number, host in enumerate(network.hosts)}
    cut_off = []
    for link in network.links:
        if link.source in dead and link.target in numbers:
            cut_off.append(numbers[link.target])
    affected = np.isin(traffic.source, cut_off) | np.isin(traffic.destination, cut_off)
    live = ~affected
    return Injections(
        time_ps=traffic.time_ps[live],
        source=traffic.source[live],
        destination=traffic.destination[live],
    )


def judge(rows: Rows) -> Verdict:
    """Check waits, signals of flow control, storage, ACKs, and failures of routers."""
    waits = where(rows, part="waits")
    checks = []
    for pattern, arbitration in product(WAITS, ARBITRATIONS):
        checks.append(_wait_check(waits, pattern, arbitration))
    for arbitration in ARBITRATIONS:
        checks.append(_signals_check(waits, arbitration))
    notes = []
    for network in NETWORKS:
        stored = where(rows, part="stored", network=network)
        routers = where(rows, part="routers", network=network)
        checks += [
            _storage_check(stored, network),
            _ack_check(stored, network),
            _router_check(routers, network),
        ]
        notes.append(_router_note(routers, network))
    return Verdict.of(checks, notes)


def _wait_check(waits: Rows, pattern: str, arbitration: str) -> Check:
    """Check that no packet at the head of a buffer waits for long."""
    runs = where(waits, pattern=pattern, arbitration=arbitration)
    shares = [row["longest_wait_s"] / row["seconds"] for row in runs]
    passed_over = max(row["passed_over"] for row in runs)
    check = at_most(
        f"{pattern}, {arbitration}: longest wait of a head, over the time of the load",
        0.25,
        shares,
        f"at most {passed_over} others went before it",
    )
    check = check.cites("not indefinitely blocked (3.5)")
    check = check.against(1.0, "a head that starves waits until the load ends")
    return check.of(sum_of(runs, "grants"))


def _signals_check(waits: Rows, arbitration: str) -> Check:
    """Check that on/off flow control needs fewer signals than credits with uniform traffic."""
    uniform = where(waits, pattern="uniform", arbitration=arbitration)
    gather = where(waits, pattern="gather", arbitration=arbitration)
    check = at_most(
        f"uniform, {arbitration}: signals of on/off flow control for each credit",
        1.0,
        _signals_per_credit(uniform),
    )
    check = check.cites(
        "can greatly reduce the amount of sender signaling in certain cases (2.1.4)"
    )
    rival = float(np.mean(_signals_per_credit(gather)))
    check = check.against(rival, "as of gathered traffic, which keeps buffers full")
    return check.of(sum_of(uniform, "credits"))


def _signals_per_credit(rows: Rows) -> list[float]:
    return [row["on_off_signals"] / row["credits"] for row in rows]


def _storage_check(stored: Rows, network: str) -> Check:
    """Check the bytes that the source with the most entries stores."""
    paths = max(row["most_paths"] for row in stored)
    cables = max(row["most_cables"] for row in stored)
    destinations = len(network_of(network).hosts) - 1
    max_paths = destinations * stored[0]["paths"]
    limit_bytes = PATH_BYTES * max_paths + CABLE_BYTES * TEN_PERCENT[network]
    check = Claim(f"{network}: bytes that the source stores which stores the most").at_most(
        limit_bytes, PATH_BYTES * paths + CABLE_BYTES * cables
    )
    check = check.cites("latencies of paths and their intermediate nodes (3.5.3)")
    check = check.against(None, "none: the bound of four paths a destination and all failed links")
    return check.noting(f"{paths} paths, {cables} failed links")


def _ack_check(stored: Rows, network: str) -> Check:
    """Check that ACKs take as many bytes on links as one ACK per message."""
    percents = []
    for row in stored:
        ack_bytes = ACK_BYTES * row["ack_links"]
        message_bytes = MESSAGE_BYTES * row["message_links"]
        percents.append(100.0 * ack_bytes / message_bytes)
    one_ack_percent = 100.0 * ACK_BYTES / MESSAGE_BYTES
    check = at_most(
        f"{network}: bytes of ACKs over those of messages on links (%)",
        1.05 * one_ack_percent,
        percents,
    )
    check = check.cites("low overheads (3.5.3)")
    return check.against(2 * one_ack_percent, "as if each message had a failure told, too")


def _router_check(routers: Rows, network: str) -> Check:
    """Check that no message between live nodes is lost when routers fail."""
    drb = where(routers, routing="ft-drb")
    fixed = where(routers, routing=FIXED_ROUTING)
    name = (
        f"{network}: messages between live nodes that are lost "
        f"with up to {MAX_FAILED_ROUTERS} failed routers"
    )
    check = Claim(name).equal(0.0, _lost(drb))
    check = check.against(_lost(fixed), "as with one failed router and static routes")
    return check.of(sum_of(drb, "sent"), COUNTED)


def _lost(rows: Rows) -> float:
    return sum_of(rows, "sent") - sum_of(rows, "received")


def _router_note(routers: Rows, network: str) -> str:
    """Describe performance by the number of failed routers."""
    parts = []
    for count, values in failure_performances(where(routers, routing="ft-drb"), "faults").items():
        parts.append(f"{count}: {mean(values):.2f} %")
    return f"{network}: performance by the number of failed routers: {', '.join(parts)}"


def figures(rows: Rows) -> Figures:
    """Draw performance by the number of failed routers."""
    runs = where(rows, part="routers", routing="ft-drb")
    samples = {}
    for (network, count), values in failure_performances(runs, ("network", "faults")).items():
        samples[network, f"{count} routers"] = values
    title = "Routers that fail, under FT-DRB"
    return {"routers": draw_bars(title, samples, y=PERFORMANCE, low=80)}


STUDY = Study.of_module(
    __name__,
    name="interconnect_resources",
    title="Starvation, memory and ACKs of FT-DRB, and failures of routers",
    deviations=(
        "The document has no figure for any of these. The sizes of a latency, a router and a "
        "cable are ours.",
        "A router fails from the start with all its cables. The nodes that are attached to it "
        "take no part.",
    ),
    answers="Zarza 2011, 3.5 (no starvation) and 3.5.3 (required resources); 2.2 leaves out "
    "failures of routers",
    # It is negative if messages are lost and there are no ACKs: message_links counts a link for
    # each lost message that it did not cross.
    signed=("ack_links",),
)
