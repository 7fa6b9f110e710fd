"""Counts the packets that a block needs on real switches, while a link of the route is down.

Streams with N, N - 1 and N - 2 packets per block are sent.
"""

from experiments.stream.networks import NETWORKS, points_over
from experiments.stream.ror.counting_checks import counting_figures, judge_counts
from experiments.stream.ror.measured_routes import LABELS
from experiments.stream.ror.ror_by_counting import (
    arrived_with_links_down,
    as_row,
    claimed_sizes,
    counted,
    route_plan,
)
from testbed.model.code_description import BOTH_LABELS
from testbed.model.studies import Points, Results, Row, Study
from testbed.stream.planning import protectable_links

# Packets that are judged.
PACKETS = {"stratified": 15_000, "random": 40_000}
RATE_PPS = 750.0

# Packets per block of a stream with random labels. It is divided into blocks of every size
# afterwards.
WIDE_SIZE = 40


def points(quick: bool, seed: int) -> Points:
    """Return Swiss-T1, NSFNET and a mobile network with both orders of labels.

    ``quick``: Swiss-T1 with stratified labels.
    """
    if quick:
        return points_over(NETWORKS[:1], layers=0, labels="stratified", seed=seed)
    return points_over(NETWORKS, layers=0, labels=LABELS, seed=seed)


def measure(point: Row) -> Results:
    """Return the row of ``ror_by_counting`` for the most loaded link that a code can protect."""
    plan = route_plan(point, RATE_PPS)
    packets = PACKETS[point["labels"]]
    link = max(protectable_links(plan), key=lambda index: (plan.forward.load(index), -index))
    claimed = claimed_sizes(plan, link)
    if point["labels"] == "random":
        arrived = [arrived_with_links_down(plan, [link], packets, WIDE_SIZE, "emulation")] * 3
    else:
        arrived = []
        for fewer in range(3):
            size = claimed[0] - fewer
            arrived.append(arrived_with_links_down(plan, [link], packets, size, "emulation"))
    return as_row(plan, [counted(plan, link, claimed, arrived)])


STUDY = Study.of_module(
    __name__,
    title="ROR's block sizes, counted on real switches",
    ror_code=BOTH_LABELS,
    answers="Gabrielyan 2007, eq. 20, 23 and 25: "
    "a failure requires N packets per block; rival: N - 1, counted too",
    judge=judge_counts,
    figures=counting_figures,
    emulation=True,
    deviations=(
        "The most loaded link of each route fails; "
        "the study in the simulator has more links and routes.",
    ),
)
