"""Measures ROR by capillary layer on real switches, while some links of a route fail in turn.

The links that fail are spread over the order by load.
"""

from collections.abc import Sequence

from experiments.stream.networks import NETWORKS, Ends, points_over
from experiments.stream.ror.layer_checks import FULL, LAYERS, judge_layers, layer_figures
from experiments.stream.ror.measured_routes import measure_on_switches, mobile_networks
from testbed.model.code_description import BOTH_LABELS
from testbed.model.studies import Points, Study

# Links of a route that fail: the most loaded, the least loaded and some between. With so few, all
# networks are measured within a quarter of an hour. The full route has up to 128 links; with four
# of them, each difference would count 32 times, so three times as many fail there.
MAX_LINKS = 4
MAX_LINKS_OF_FULL_ROUTE = 12


def points(quick: bool, seed: int) -> Points:
    """Return every number of layers on Swiss-T1, NSFNET and six mobile networks of 40 nodes.

    Random labels are used on the first four networks. ``quick``: stratified labels on Swiss-T1.
    """
    if quick:
        return _points_over(NETWORKS[:1], "stratified", seed)
    networks = [*NETWORKS[:2], *mobile_networks(seed, sizes=(40,), each=6)]
    return [
        *_points_over(networks, "stratified", seed),
        *_points_over(networks[:4], "random", seed),
    ]


def _points_over(networks: Sequence[Ends], labels: str, seed: int) -> Points:
    result = points_over(networks, layers=LAYERS, labels=labels, seed=seed)
    for point in result:
        is_full = point["layers"] == FULL
        point["most_links"] = MAX_LINKS_OF_FULL_ROUTE if is_full else MAX_LINKS
    return result


STUDY = Study.of_module(
    __name__,
    title="ROR by capillary layer, on real switches",
    ror_code=BOTH_LABELS,
    answers="Gabrielyan 2007, eq. 20 to 23 and section 4.4: "
    "ROR falls as layers are added; measured against predicted",
    measure=measure_on_switches,
    judge=judge_layers,
    figures=layer_figures,
    emulation=True,
    deviations=(
        "At most 4 links of a route fail (full route: 12), "
        "spread over the order by load; scaled up to all links.",
        "Mobile networks of 40 nodes; random labels on four of eight networks. "
        "The study in the simulator has more.",
    ),
)
