"""What FT-DRB needs and what it does not promise: does a packet starve, what do sources store and ACKs take, and what
if whole routers fail (Zarza 2011, 3.5, 3.5.3; 2.2 leaves routers out)?

Heads of buffers in routers are timed from every grant of the simulator, under loads that fill buffers.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from experiments.interconnect.figures import PERFORMANCE
from experiments.interconnect.runs import model_of, parameters_of
from experiments.interconnect.samples import COUNTED, at_most, of_failures
from experiments.interconnect.study_points import (
    TEN_PERCENT,
    Run,
    drb_point,
    faults_of,
    network_of,
    seeds_of,
    traffic_of,
)
from testbed.faults.cable_faults import cable_fault, switch_cables
from testbed.faults.fault import Fault
from testbed.interconnect.engine_inputs import Recording
from testbed.interconnect.network_model import NetworkModel
from testbed.interconnect.parameters import TICKS_PER_S, SimulationParameters
from testbed.interconnect.results import SimulationResult, summarize
from testbed.interconnect.simulation import simulate
from testbed.interconnect.traffic.injection import Injections
from testbed.model.studies import (
    Claim,
    Figures,
    Points,
    Results,
    Row,
    Rows,
    Study,
    Verdict,
    spread,
    sum_of,
    where,
)
from testbed.report.drawing.charts import draw_bars
from topologies import Network

NETWORKS = ("torus:8x8", "fat-tree:4,3")
LINK_RATE = 2e9 / (512 * 8)
WAITS = {"uniform": (0.4, 0.004), "gather": (0.03, 0.05)}
"""Pattern -> load (of a link a node; gather: nearly twice what its root takes), seconds."""
ARBITRATIONS, GRANTS = ("round-robin", "fifo"), 4_000_000
ROUTERS = (0, 1, 2, 3)
ACK_BYTES, MESSAGE_BYTES = 64, 512
PATH_BYTES, CABLE_BYTES = 8, 3
"""A latency of 4 bytes and two routers of 2; a cable of 2 bytes and its notifications in a row."""


def points(quick: bool, seed: int) -> Points:
    """Heads of buffers by pattern and arbitration; sources and ACKs with a tenth of the links failed; routers that
    fail, beside dimension order or d-mod-k, which do without FT-DRB."""
    found: Points = []
    for s, network in product(list(seeds_of(seed, quick))[: 2 if quick else 10], NETWORKS):
        failed: Results = {"faults": TEN_PERCENT[network], "fault_kind": "start", "quick": quick}
        for (pattern, (load, seconds)), arbitration in product(WAITS.items(), ARBITRATIONS):
            loaded: Results = {"rate": load * LINK_RATE, "seconds": seconds / (4 if quick else 1)}
            timed = drb_point(network, pattern, s, **failed, **loaded)
            found.append(timed | {"part": "waits", "arbitration": arbitration})
        found.append(drb_point(network, "uniform", s, **failed) | {"part": "stored"})
        for count, routing in [*((n, "ft-drb") for n in ROUTERS), (ROUTERS[1], "dor")]:
            point = drb_point(
                network,
                "uniform",
                s,
                quick=True,
                faults=count,
                fault_kind="routers",
                routing=routing,
            )
            found.append(point | {"part": "routers"})
    return found


def measure(point: Row) -> Results:
    """One run: what was sent and received, and what the part is about."""
    run = Run.of(point)
    network, traffic = network_of(run.network), traffic_of(run)
    parameters = replace(parameters_of(run), arbitration=point.get("arbitration", "round-robin"))
    if point["part"] == "routers":
        dead = dead_routers(network, max(ROUTERS), run.seed)
        traffic, faults = (
            between_live(network, traffic, dead),
            faults_of_routers(network, dead[: run.faults]),
        )
    else:
        faults = faults_of(run)
    model = model_of(run.network, parameters)
    recording = Recording(grants=GRANTS if point["part"] == "waits" else 0)
    done = simulate(model, traffic, parameters, faults, recording=recording)
    found: Results = {"sent": done.sent, "received": done.received, "deadlocked": done.deadlocked}
    if point["part"] == "waits":
        longest_s, passed = longest_wait(model, done)
        signals, credits_sent = flow_control_signals(model, done, parameters)
        found |= {"grants": len(done.trace), "longest_wait_s": longest_s, "passed_over": passed}
        return found | {"on_off_signals": signals, "credits": credits_sent}
    crossed = int(done.carried.sum()) - int((done.hops + 1).sum())
    stored = {f"most_{name}": number for name, number in done.most_entries.items()}
    latency_s = summarize(done, start_s=0.0, end_s=run.seconds).destination_mean_latency_s
    return (
        found
        | stored
        | {
            "latency_s": latency_s,
            "message_links": int((done.hops + 1).sum()),
            "ack_links": crossed,
        }
    )


def successive_grants(packet: NDArray[np.int_]) -> tuple[NDArray[np.int_], NDArray[np.int_]]:
    """Places of the trace's rows, given its packets, at which one was granted its way into a buffer and out of it."""
    order = np.argsort(packet, kind="stable")
    same = packet[order][1:] == packet[order][:-1]
    return order[:-1][same], order[1:][same]


def longest_wait(model: NetworkModel, run: SimulationResult) -> tuple[float, int]:
    """Of the heads of buffers in routers: the longest wait for a channel, and how many other packets the channel took
    meanwhile, the most. A packet is at the head of its buffer once it is there and the one before it has been granted
    its way out."""
    tick, channel, packet = run.trace.T
    before, later = successive_grants(packet)
    head = tick[before] + model.channels.delay[channel[before]]
    buffer = 2 * channel[before] + (packet[later] >= run.sent)
    by_buffer = np.lexsort((later, buffer))
    followed = buffer[by_buffer][1:] == buffer[by_buffer][:-1]
    behind, first = by_buffer[1:][followed], by_buffer[:-1][followed]
    head[behind] = np.maximum(head[behind], tick[later[first]])
    span = run.stopped_tick + 2
    taken = np.sort(channel * span + tick)
    until, since = (
        np.searchsorted(taken, channel[later] * span + at) for at in (tick[later], head)
    )
    return float((tick[later] - head).max()) / TICKS_PER_S, int((until - since).max())


def flow_control_signals(
    model: NetworkModel, run: SimulationResult, parameters: SimulationParameters
) -> tuple[int, int]:
    """Between routers, of data: signals "off" and "on", each time that a buffer behind a link fills and is no longer
    full, and credits, one for every packet that has left such a buffer. A slot is free when the packet's tail has left.
    """
    tick, channel, packet = run.trace[run.trace[:, 2] < run.sent].T
    pairs = np.stack(successive_grants(packet))
    before, later = pairs[:, channel[pairs[0]] < model.layout.links]
    left = tick[later] + parameters.serialization_ticks(
        parameters.packet_bytes + parameters.header_bytes
    )
    buffer, change = np.tile(channel[before], 2), np.repeat((1, -1), len(before))
    by_time = np.lexsort((change, np.concatenate((tick[before], left)), buffer))
    held = np.cumsum(change[by_time])  # every packet that enters leaves: each buffer begins at 0
    turns_full = (held == parameters.slots) & (change[by_time] > 0)
    return 2 * int(turns_full.sum()), len(before)


def dead_routers(network: Network, count: int, seed: int) -> list[str]:
    """Routers that may fail, drawn: on a torus any, in a fat tree those without nodes of their own."""
    hosts, every = {host.id for host in network.hosts}, [switch.id for switch in network.switches]
    attached = {link.source for link in network.links if link.target in hosts}
    able = [switch for switch in every if switch not in attached] or every
    return [able[i] for i in np.random.default_rng([seed, 13]).permutation(len(able))[:count]]


def faults_of_routers(network: Network, dead: Sequence[str]) -> tuple[Fault, ...]:
    """All cables of the routers, from the start and for good."""
    return tuple(cable_fault(cable) for cable in switch_cables(network) if set(cable) & set(dead))


def between_live(network: Network, traffic: Injections, dead: Sequence[str]) -> Injections:
    """The messages neither from nor to a node of these routers."""
    hosts = {host.id: i for i, host in enumerate(network.hosts)}
    gone = [
        hosts[link.target] for link in network.links if link.source in dead and link.target in hosts
    ]
    retained = ~(np.isin(traffic.source, gone) | np.isin(traffic.destination, gone))
    return Injections(
        time_ps=traffic.time_ps[retained],
        source=traffic.source[retained],
        destination=traffic.destination[retained],
    )


def judge(rows: Rows) -> Verdict:
    """No head waits for long; sources and ACKs take what three values a path and one ACK a message take; without a
    router all others are served."""
    checks, notes = [], []
    for pattern, arbitration in product(WAITS, ARBITRATIONS):
        own = where(rows, part="waits", pattern=pattern, arbitration=arbitration)
        shares = [row["longest_wait_s"] / row["seconds"] for row in own]
        most = max(row["passed_over"] for row in own)
        check = at_most(f"{pattern}, {arbitration}: longest wait of a head, over the time of the load", 0.25, shares,
                        f"at most {most} others went before it").cites("not indefinitely blocked (3.5)")  # fmt: skip
        checks.append(
            check.against(1.0, "a head that starves waits until the load ends").of(
                sum_of(own, "grants")
            )
        )
    for arbitration in ARBITRATIONS:
        few, many = (
            where(rows, part="waits", pattern=pattern, arbitration=arbitration) for pattern in WAITS
        )
        ratios, full = (
            [row["on_off_signals"] / row["credits"] for row in own] for own in (few, many)
        )
        checks.append(
            at_most(
                f"uniform, {arbitration}: signals of on/off flow control for each credit",
                1.0,
                ratios,
            )
            .cites("can greatly reduce the amount of sender signaling in certain cases (2.1.4)")
            .against(float(np.mean(full)), "as of gathered traffic, which keeps buffers full")
            .of(sum_of(few, "credits"))
        )
    for network in NETWORKS:
        own, nodes = where(rows, part="stored", network=network), len(network_of(network).hosts)
        paths, cables = (max(row[name] for row in own) for name in ("most_paths", "most_cables"))
        stored, pairs = PATH_BYTES * paths + CABLE_BYTES * cables, (nodes - 1) * own[0]["paths"]
        acks = [
            100.0 * ACK_BYTES * row["ack_links"] / (MESSAGE_BYTES * row["message_links"])
            for row in own
        ]
        one = 100.0 * ACK_BYTES / MESSAGE_BYTES
        checks += [
            Claim(f"{network}: bytes that the source stores which stores the most")
            .at_most(PATH_BYTES * pairs + CABLE_BYTES * TEN_PERCENT[network], stored)
            .cites("latencies of paths and their intermediate nodes (3.5.3)")
            .against(None, "none: the bound of four paths a destination and all failed links")
            .noting(f"{paths} paths, {cables} failed links"),
            at_most(
                f"{network}: bytes of ACKs over those of messages on links (%)", 1.05 * one, acks
            )
            .cites("low overheads (3.5.3)")
            .against(2 * one, "as if each message had a failure told, too"),
        ]
        routers = where(rows, part="routers", network=network)
        drb, fixed = where(routers, routing="ft-drb"), where(routers, routing="dor")
        lost, stuck = (sum_of(some, "sent") - sum_of(some, "received") for some in (drb, fixed))
        checks.append(
            Claim(
                f"{network}: messages between live nodes that are lost with up to {max(ROUTERS)} failed routers"
            )
            .equal(0.0, lost)
            .against(stuck, "as with one failed router and static routes")
            .of(sum_of(drb, "sent"), COUNTED)
        )
        retained = (
            f"{n}: {spread(values)[0]:.2f} %" for n, values in of_failures(drb, "faults").items()
        )
        notes.append(
            f"{network}: performance by the number of failed routers: {', '.join(retained)}"
        )
    return Verdict.of(checks, notes)


def figures(rows: Rows) -> Figures:
    """Performance by the number of failed routers."""
    own = where(rows, part="routers", routing="ft-drb")
    retained = of_failures(own, lambda row: (row["network"], f"{row['faults']} routers"))
    return {
        "routers": draw_bars("Routers that fail, under FT-DRB", retained, y=PERFORMANCE, low=80)
    }


STUDY = Study.of_module(
    __name__,
    name="interconnect_resources",
    title="Starvation, memory and ACKs of FT-DRB, and routers that fail",
    deviations=(
        "The document has no figure for any of it; bytes of a latency, a router and a cable are ours.",
        "A router fails with all its cables, from the start; nodes attached to it take no part.",
    ),
    answers="Zarza 2011, 3.5 (free of starvation) and 3.5.3 (required resources); 2.2 leaves failures of routers out",
    signed=(
        "ack_links",
    ),  # links crossed less those of whole ways, of messages too that a failed router took
)
