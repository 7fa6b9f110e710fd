"""ROR on packets by capillary layer on real switches: a sample of links spread over all loads fails."""

from experiments.stream.networks import NETWORKS, points_over
from experiments.stream.ror.layer_checks import FULL, LAYERS, judge_layers, layer_figures
from experiments.stream.ror.measured_routes import LABELS, measure_on_switches, mobile_networks
from testbed.model.code_description import BOTH_LABELS
from testbed.model.studies import Points, Study

MOST_LINKS, MOST_OF_ALL = 4, 12
"""Links of a route that fail, the most loaded, the least and some between: so few that all networks fit into a quarter
of an hour, and three times as many on the full route, which has up to 128 links: with four of them what they are off
would count 32 times."""


def points(quick: bool, seed: int) -> Points:
    """Every number of layers on Swiss-T1, NSFNET and six mobile networks of 40 nodes, and with random labels on the
    first four of them; quick: on Swiss-T1."""
    networks = list(NETWORKS[:1])
    if not quick:
        networks = [*NETWORKS[:2], *mobile_networks(seed, sizes=(40,), each=6)]
    chosen = {"stratified": networks, "random": [] if quick else networks[:4]}
    return [
        point | {"most_links": MOST_OF_ALL if point["layers"] == FULL else MOST_LINKS}
        for labels in LABELS
        for point in points_over(chosen[labels], layers=LAYERS, labels=labels, seed=seed)
    ]


STUDY = Study.of_module(
    __name__,
    title="ROR by capillary layer, on real switches",
    ror_code=BOTH_LABELS,
    answers="Gabrielyan 2007, eq. 20 to 23 and section 4.4: "
    "that ROR falls as layers are added, measured against predicted",
    measure=measure_on_switches,
    judge=judge_layers,
    figures=layer_figures,
    emulation=True,
    deviations=(
        "At most 4 links of a route fail (full route: 12), spread over the order by load; scaled up to all links.",
        "Mobile networks of 40 nodes; random labels on four of eight networks. The study in virtual time has more.",
    ),
)
