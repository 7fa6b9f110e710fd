"""Counts the packets that a block needs while a link of its route is down.

The redundancy overall requirement (ROR) is computed from these block sizes N. The packet logs of
both ends show which packets arrived. From them the module ``counting`` finds the smallest N with
which blocks are decodable. It does not use the sender's policy, whose claim for N is checked.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from experiments.stream.networks import NETWORKS, Ends, points_over
from experiments.stream.ror.counting import (
    arrived_in_order,
    fewest_packets,
    packets_needed,
    short_blocks,
    tail,
    weighted_short_blocks,
)
from experiments.stream.ror.counting_checks import RARE, RATES, counting_figures, judge_counts
from experiments.stream.ror.measured_routes import LABELS, SYMBOL_BYTES, mobile_networks
from fec.redundancy.block_size import fec_block_size
from testbed.errors import InvalidRunError
from testbed.faults.fault import Fault
from testbed.model.code_description import BOTH_LABELS
from testbed.model.label_split import LABELS as LABEL_SPACE
from testbed.model.studies import Points, Results, Row, Study
from testbed.stream.fabric import open_fabric
from testbed.stream.measurements import BoolArray, StreamMeasurements
from testbed.stream.plan import StreamPlan
from testbed.stream.planning import choose_links
from testbed.stream.prediction.block_size_policy import block_size_policy, link_block_size
from testbed.stream.run_in_turn import run_and_judge
from testbed.stream.workload import stream_plan

# Methods other than capillary routing, on the named networks.
METHODS = ("disjoint-2", "ecmp", "max-flow", "least-fec:0.05")

# Further named and regular networks.
FURTHER_ENDS = (
    ("swiss-t1", "s3", "s4"),
    ("optical-cloud", "x2", "x13"),
    ("torus:4x4", "s0_0", "s2_2"),
    ("hypercube:4", "s0_0_0_0", "s1_1_1_1"),
    ("topohub:topozoo/Abilene", "0", "5"),
    ("topohub:topozoo/Geant2012", "0", "15"),
)

# Packets per block that are sent. Any size would do, because the arrived packets are divided into
# blocks of every size afterwards.
SENT_SIZE = 40

# Additional blocks. The first blocks after the failure do not count (``counting.SETTLED_S``).
LEAD_BLOCKS = 3

# Packets per failed link that are judged. Stratified labels: every label once, in order. Random
# labels: enough to count an error rate of 1e-3.
PACKETS = {"stratified": LABEL_SPACE, "random": 150_000}
# The same for the error rate RARE, which is estimated (``rare_errors``).
RARE_PACKETS = 100_000

# Maximum number of links of a route that fail, one per run.
MAX_LINKS = {"stratified": 4, "random": 2}


def points(quick: bool, seed: int) -> Points:
    """Return capillary routes of layer 1 and of all layers, and routes of other methods.

    The networks are named, regular and mobile ones. ``quick``: all layers on three networks.
    """
    if quick:
        return points_over(NETWORKS, layers=0, labels=LABELS, seed=seed)
    ends: list[Ends] = [*NETWORKS, *FURTHER_ENDS, *mobile_networks(seed, each=3)]
    by_layer = points_over(ends, layers=(1, 0), labels=LABELS, seed=seed)
    return by_layer + points_over(NETWORKS, method=METHODS, labels=LABELS, seed=seed)


def measure(point: Row) -> Results:
    """Count the block sizes of the links of one route.

    Returns:
        ``base`` is N in the steady state. The other fields are lists with an entry per failed link:

        - ``load``: The load of the link.
        - ``claimed``, ``counted``: N by the sender's policy, and N by the packet logs.
        - ``blocks``, ``short``: Numbers of all blocks and of undecodable ones, if blocks have N,
          N - 1 or N - 2 packets.
        - ``allowed``: Expected number of undecodable blocks (equation 25).
        - ``rare``: With random labels, the results of ``rare_errors``.

        With random labels there is an N for each error rate of RATES, so that entries are lists.
    """
    plan = route_plan(point)
    labels = point["labels"]
    # A seed for each point. Routes with the same labels would not be independent.
    seed = zlib.crc32(repr(sorted(point.items())).encode())
    entries = []
    for number, link in enumerate(choose_links(plan, MAX_LINKS[labels])):
        if plan.forward.load(link) == 1:
            # No code helps.
            continue
        seeded = replace(plan, seed=seed + number)
        arrived = arrived_with_links_down(seeded, [link], PACKETS[labels], SENT_SIZE)
        entry = counted(plan, link, claimed_sizes(plan, link), [arrived] * 3)
        if labels == "random":
            entry["rare"] = rare_errors(replace(seeded, seed=seed + 100 + number), link)
        entries.append(entry)
    return as_row(plan, entries)


def as_row(plan: StreamPlan, entries: Sequence[Results]) -> Results:
    """Return the row of a route, from an entry per link."""
    row: Results = {"base": block_size_policy(plan).base}
    for name in entries[0] if entries else ():
        row[name] = [entry[name] for entry in entries]
    return row


def claimed_sizes(plan: StreamPlan, link: int) -> list[int]:
    """Return the block sizes N that the policy claims while a link is down.

    With stratified labels there is one size, which suffices at whichever label a block begins. With
    random labels there is a size for each error rate of RATES, by equation 25.
    """
    if plan.stream.labels == "stratified":
        return [link_block_size(plan, link) or 0]
    load = plan.forward.load(link)
    return [fec_block_size(plan.stream.source_packets, load, rate) for rate in RATES]


@dataclass(frozen=True)
class _DownLinks:
    """Links that are down together.

    Attributes:
        links: Their indices.
        lost: Whether each label is lost.
    """

    links: list[int]
    lost: BoolArray

    @property
    def loss(self) -> float:
        """The fraction of labels that is lost."""
        return float(self.lost.mean())


def rare_errors(plan: StreamPlan, link: int) -> Results:
    """Estimate the fraction of short blocks at the error rate RARE, by importance sampling.

    A block is short if fewer than M of its packets arrive. At this error rate too few blocks are
    short to count them. Therefore further links of the route are down, so that about half of the
    blocks are short. Each block is weighted by its probability if only ``link`` is down, over its
    probability in this run. Blocks do not overlap.

    Returns:
        ``size``: N for this error rate by equation 25. ``lost``: the fraction of packets that is
        lost in this run. ``share``: the estimated fractions of short blocks if blocks have N and
        N - 1 packets. ``error``: their standard errors. ``expected``: the fractions by equation 25.
    """
    m = plan.stream.source_packets
    load = float(plan.forward.load(link))
    size = fec_block_size(m, load, RARE)
    # With this loss rate about half of the blocks are short.
    down = _links_for_loss(plan, link, (size - m + 1) / size)
    arrived = arrived_with_links_down(plan, down.links, RARE_PACKETS, SENT_SIZE)
    share, error = weighted_short_blocks(arrived, size, m, down.loss, load)
    share_if_fewer, error_if_fewer = weighted_short_blocks(arrived, size - 1, m, down.loss, load)
    return {
        "size": size,
        "lost": down.loss,
        "share": [share, share_if_fewer],
        "error": [error, error_if_fewer],
        "expected": [tail(m, size, load), tail(m, size - 1, load)],
    }


def _links_for_loss(plan: StreamPlan, link: int, loss: float) -> _DownLinks:
    """Return a link and others of its route that together have about this loss rate."""
    down = _DownLinks([link], labels_over(plan, link))
    for other in sorted(plan.forward.loaded, key=plan.forward.load):
        together = _DownLinks([*down.links, other], down.lost | labels_over(plan, other))
        if abs(together.loss - loss) < abs(down.loss - loss):
            down = together
    return down


def labels_over(plan: StreamPlan, link: int) -> BoolArray:
    """Return whether each label of the label space crosses the link."""
    crosses = np.zeros(LABEL_SPACE, dtype=np.bool_)
    for start, stop in plan.forward.intervals(link):
        crosses[start:stop] = True
    return crosses


def arrived_with_links_down(
    plan: StreamPlan, links: Sequence[int], packets: int, size: int, fabric: str = "simulator"
) -> BoolArray:
    """Return which packets arrive while links are down from the beginning to the end.

    Args:
        plan: The stream without faults.
        links: The links that are down.
        packets: Number of packets that are judged.
        size: Packets per block.
        fabric: "simulator" or "emulation".

    Raises:
        InvalidRunError: The run on switches is invalid.
    """
    blocks = packets / size + LEAD_BLOCKS
    duration_s = round(1 + blocks * plan.stream.block_s + plan.stream.playback_s, 4)
    faults = []
    for link in links:
        link_id = plan.network.links[link].id
        fault = Fault(link=link_id, start_s=0.0, stop_s=duration_s + 1, direction="forward")
        faults.append(fault)
    disturbed = replace(
        plan,
        stream=replace(plan.stream, block_size=size),
        faults=tuple(faults),
        duration_s=duration_s,
    )
    return np.asarray(arrived_in_order(_run(disturbed, size, fabric), size)[:packets])


def _run(plan: StreamPlan, size: int, fabric: str) -> StreamMeasurements:
    if fabric == "simulator":
        return open_fabric(fabric).run(plan, None)
    judged = run_and_judge(plan, open_fabric(fabric), repeats_if_invalid=2)
    if judged.verdict.invalid is not None:
        raise InvalidRunError(
            f"{plan.network.name}, N = {size}: {judged.verdict.invalid}; repeat it"
        )
    return judged.run


def route_plan(point: Row, rate_pps: float = 1000.0) -> StreamPlan:
    """Return the stream of a point, without faults."""
    settings = {key: point[key] for key in ("labels", "seed", "method") if key in point}
    return stream_plan(
        point["network"],
        point["source"],
        point["sink"],
        **settings,
        layers=point.get("layers") or None,
        symbol_bytes=SYMBOL_BYTES,
        rate_pps=rate_pps,
    )


def counted(
    plan: StreamPlan, link: int, claimed: Sequence[int], arrived: Sequence[BoolArray]
) -> Results:
    """Return the results for one failed link, with the fields of ``measure``.

    Args:
        plan: The stream.
        link: The link.
        claimed: The claimed N, for each error rate.
        arrived: Whether each packet arrived. The three arrays are divided into blocks of N, N - 1
            and N - 2 packets.
    """
    m = plan.stream.source_packets
    load = float(plan.forward.load(link))
    needed = packets_needed(arrived[0], m)
    # With stratified labels, N must be enough for every block.
    rates = RATES if plan.stream.labels == "random" else (0.0,)
    entry: Results = {
        "link": plan.network.links[link].label,
        "load": round(load, 9),
        "claimed": list(claimed),
        "counted": [],
        "short": [],
        "blocks": [],
        "allowed": [],
    }
    for n, rate in zip(claimed, rates, strict=False):
        short_counts = []
        block_counts = []
        expected_counts = []
        for fewer, arrived_packets in enumerate(arrived):
            size = n - fewer
            if size >= m:
                short, blocks = short_blocks(arrived_packets, size, m)
                short_counts.append(short)
                block_counts.append(blocks)
                expected_counts.append(round(tail(m, size, load) * blocks, 6))
        entry["counted"].append(fewest_packets(needed, rate))
        entry["short"].append(short_counts)
        entry["blocks"].append(block_counts)
        entry["allowed"].append(expected_counts)
    return entry


STUDY = Study.of_module(
    __name__,
    title="ROR's block sizes, counted at the receiver",
    ror_code=BOTH_LABELS,
    answers="Gabrielyan 2007, eq. 20, 23 and 25: "
    "a failure requires N packets per block; rival: N - 1, counted too",
    judge=judge_counts,
    figures=counting_figures,
    deviations=(
        "At most 4 links of a route fail (random labels: 2), spread over the order by load.",
        "Error rates of 0.1 to 0.001 are counted, "
        "the document's 0.00001 by importance sampling: more links are down.",
    ),
)
