"""The block sizes that ROR is made of, counted on real switches: streams of N, N - 1 and N - 2 packets a block, while a
link of the route is down throughout.
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

PACKETS = {"stratified": 15_000, "random": 40_000}
RATE_PPS = 750.0
WIDE = 40
"""With random labels one stream of so many packets a block is cut into blocks of each size afterwards."""


def points(quick: bool, seed: int) -> Points:
    """Swiss-T1, NSFNET and a mobile network, both orders of labels; quick: Swiss-T1, stratified labels."""
    networks = NETWORKS[: 1 if quick else None]
    return points_over(networks, layers=0, labels=LABELS[: 1 if quick else None], seed=seed)


def measure(point: Row) -> Results:
    """The row of ``ror_by_counting`` for the most loaded link that a code can do without."""
    plan, packets = route_plan(point, RATE_PPS), PACKETS[point["labels"]]
    link = max(protectable_links(plan), key=lambda i: (plan.forward.load(i), -i))
    claimed = claimed_sizes(plan, link)
    if point["labels"] == "random":
        arrived = dict.fromkeys(
            range(3), arrived_with_links_down(plan, [link], packets, WIDE, "emulation")
        )
    else:
        sizes = {less: claimed[0] - less for less in range(3)}
        arrived = {
            less: arrived_with_links_down(plan, [link], packets, n, "emulation")
            for less, n in sizes.items()
        }
    return as_row(plan, [counted(plan, link, claimed, arrived)])


STUDY = Study.of_module(
    __name__,
    title="ROR's block sizes, counted on real switches",
    ror_code=BOTH_LABELS,
    answers="Gabrielyan 2007, eq. 20, 23 and 25: that a failure calls for N packets a block; rival: N - 1, counted too",
    judge=judge_counts,
    figures=counting_figures,
    emulation=True,
    deviations=(
        "The most loaded link of each route fails; the study in virtual time has more links and routes.",
    ),
)
