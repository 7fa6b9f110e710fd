"""The block sizes that ROR is made of, counted at the receiver: each link of a route is down throughout, and the packet
logs of both ends tell with how many packets a block the stream decodes, and with how many it does not.

Nothing that counts knows what the sender's policy claims (``counting``).
"""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

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
from testbed.stream.measurements import BoolArray
from testbed.stream.plan import StreamPlan
from testbed.stream.planning import choose_links
from testbed.stream.prediction.block_size_policy import block_size_policy, link_block_size
from testbed.stream.run_in_turn import run_and_judge
from testbed.stream.workload import stream_plan

METHODS = ("disjoint-2", "ecmp", "max-flow", "least-fec:0.05")
"""Beside capillary routing, on the named networks."""
OTHERS = (
    ("swiss-t1", "s3", "s4"),
    ("optical-cloud", "x2", "x13"),
    ("torus:4x4", "s0_0", "s2_2"),
    ("hypercube:4", "s0_0_0_0", "s1_1_1_1"),
    ("topohub:topozoo/Abilene", "0", "5"),
    ("topohub:topozoo/Geant2012", "0", "15"),
)
SENT_SIZE = 40
"""Of the blocks that are sent; any size would do, since what arrives is cut into blocks of every size afterwards."""
LEAD_BLOCKS = 3
PACKETS = {"stratified": LABEL_SPACE, "random": 150_000}
"""Judged of each link: every label once, in order; or enough for an error rate of 1e-3."""
RARE_PACKETS = 100_000
MOST_LINKS = {"stratified": 4, "random": 2}


def points(quick: bool, seed: int) -> Points:
    """Capillary routes of layer 1 and of all on named, regular and mobile networks, and other methods; quick: the named
    networks, all layers."""
    if quick:
        return points_over(NETWORKS, layers=0, labels=LABELS, seed=seed)
    ends: list[Ends] = [*NETWORKS, *OTHERS, *mobile_networks(seed, each=3)]
    by_layer = points_over(ends, layers=(1, 0), labels=LABELS, seed=seed)
    return by_layer + points_over(NETWORKS, method=METHODS, labels=LABELS, seed=seed)


def measure(point: Row) -> Results:
    """A list for each figure, an entry a link: ``load``, ``claimed`` N, ``counted`` N; how many of ``blocks`` blocks
    were ``short`` at N, N - 1 and N - 2. With random labels N is that of each error rate of ``RATES`` (lists of lists),
    and ``allowed`` is how many blocks equation 25 expects to be short; ``rare``: see ``rare_errors``. ``base``: N at
    rest."""
    plan, labels, found = route_plan(point), point["labels"], []
    own = zlib.crc32(
        repr(sorted(point.items())).encode()
    )  # routes with the same labels would not be independent
    for number, link in enumerate(choose_links(plan, MOST_LINKS[labels])):
        if plan.forward.load(link) == 1:  # no code helps
            continue
        seeded = replace(plan, seed=own + number)
        arrived = arrived_with_links_down(seeded, [link], PACKETS[labels], SENT_SIZE)
        found.append(
            counted(plan, link, claimed_sizes(plan, link), dict.fromkeys(range(3), arrived))
        )
        if labels == "random":
            found[-1]["rare"] = rare_errors(replace(seeded, seed=own + 100 + number), link)
    return as_row(plan, found)


def as_row(plan: StreamPlan, links: Sequence[Results]) -> Results:
    """The lists of a row, from an entry a link."""
    names = links[0] if links else ()
    return {"base": block_size_policy(plan).base} | {
        name: [one[name] for one in links] for name in names
    }


def claimed_sizes(plan: StreamPlan, link: int) -> list[int]:
    """What the policy says: the worst window of stratified labels, or N of each of ``RATES`` by equation 25."""
    m, load = plan.stream.source_packets, plan.forward.load(link)
    if plan.stream.labels == "stratified":
        return [link_block_size(plan, link) or 0]
    return [fec_block_size(m, load, rate) for rate in RATES]


def rare_errors(plan: StreamPlan, link: int) -> Results:
    """Short blocks at an error rate too rare to be counted, by importance sampling: other links of the route are down
    too, until so many packets are lost (``lost``, a share) that blocks of ``size`` packets, N of that rate by equation
    25, often are short; each weighs as much as it is likelier with ``link`` down alone.

    ``share``: of the blocks that are short with N and N - 1 packets, ``error`` its standard error, ``expected`` by
    equation 25. Blocks are laid one after another.
    """
    m, load = plan.stream.source_packets, float(plan.forward.load(link))
    size = fec_block_size(m, load, RARE)
    down, gone, often = [link], labels_over(plan, link), (size - m + 1) / size
    for other in sorted(plan.forward.loaded, key=plan.forward.load):
        together = gone | labels_over(plan, other)
        if abs(together.mean() - often) < abs(gone.mean() - often):
            down, gone = [*down, other], together
    lost = float(gone.mean())
    arrived = arrived_with_links_down(plan, down, RARE_PACKETS, SENT_SIZE)
    found = [weighted_short_blocks(arrived, n, m, lost, load) for n in (size, size - 1)]
    expected = [tail(m, n, load) for n in (size, size - 1)]
    return {
        "size": size,
        "lost": lost,
        "share": [share for share, _ in found],
        "error": [error for _, error in found],
        "expected": expected,
    }


def labels_over(plan: StreamPlan, link: int) -> BoolArray:
    """Shape (labels,): which of all labels cross the link."""
    crosses = np.zeros(LABEL_SPACE, dtype=np.bool_)
    for start, stop in plan.forward.intervals(link):
        crosses[start:stop] = True
    return crosses


def arrived_with_links_down(
    plan: StreamPlan, links: Sequence[int], packets: int, size: int, fabric: str = "simulator"
) -> BoolArray:
    """Which packets of a stream of fixed block size arrive while links carry nothing, from start to end."""
    lasts = round(
        1 + (packets / size + LEAD_BLOCKS) * plan.stream.block_s + plan.stream.playback_s, 4
    )
    ids = [plan.network.links[link].id for link in links]
    faults = tuple(
        Fault(link=name, start_s=0.0, stop_s=lasts + 1, direction="forward") for name in ids
    )
    disturbed = replace(
        plan, stream=replace(plan.stream, block_size=size), faults=faults, duration_s=lasts
    )
    if fabric == "simulator":
        run = open_fabric(fabric).run(disturbed, None)
    else:
        judged = run_and_judge(disturbed, open_fabric(fabric), repeats_if_invalid=2)
        if judged.verdict.invalid is not None:
            raise InvalidRunError(
                f"{plan.network.name}, N = {size}: {judged.verdict.invalid}; repeat it"
            )
        run = judged.run
    return np.asarray(arrived_in_order(run, size)[:packets])


def route_plan(point: Row, rate_pps: float = 1000.0) -> StreamPlan:
    """The stream of a point, without faults."""
    settings = {key: point[key] for key in ("labels", "seed", "method") if key in point}
    settings |= {
        "layers": point.get("layers") or None,
        "symbol_bytes": SYMBOL_BYTES,
        "rate_pps": rate_pps,
    }
    return stream_plan(point["network"], point["source"], point["sink"], **settings)


def counted(
    plan: StreamPlan, link: int, claimed: Sequence[int], arrived: Mapping[int, BoolArray]
) -> Results:
    """A failed link's entry in each list of a row; ``arrived``: of the packets of which ``less`` a block fewer than N
    are judged."""
    m, share = plan.stream.source_packets, float(plan.forward.load(link))
    rates = RATES if plan.stream.labels == "random" else (0.0,)
    needed = packets_needed(arrived[0], m)
    shorts = [
        [short_blocks(own, n - less, m) for less, own in arrived.items() if n - less >= m]
        for n in claimed
    ]
    return {
        "link": plan.network.links[link].label,
        "load": round(share, 9),
        "claimed": list(claimed),
        "counted": [fewest_packets(needed, rate) for rate, _ in zip(rates, claimed, strict=False)],
        "short": [[short for short, _ in own] for own in shorts],
        "blocks": [[blocks for _, blocks in own] for own in shorts],
        "allowed": [
            [round(tail(m, n - less, share) * blocks, 6) for less, (_, blocks) in enumerate(own)]
            for n, own in zip(claimed, shorts, strict=True)
        ],
    }


STUDY = Study.of_module(
    __name__,
    title="ROR's block sizes, counted at the receiver",
    ror_code=BOTH_LABELS,
    answers="Gabrielyan 2007, eq. 20, 23 and 25: that a failure calls for N packets a block; rival: N - 1, counted too",
    judge=judge_counts,
    figures=counting_figures,
    deviations=(
        "At most 4 links of a route fail (random labels: 2), spread over the order by load.",
        "Error rates of 0.1 to 0.001 are counted, the document's 0.00001 by importance sampling: more links are down.",
    ),
)
