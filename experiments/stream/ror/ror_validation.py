"""Measures ROR by routing method on real switches, while some links of a route fail in turn.

The links that fail are spread over the order by load.
"""

from experiments.stream.networks import NETWORKS, points_over
from experiments.stream.ror.measured_routes import measure_on_switches
from experiments.stream.ror.method_checks import METHODS, judge_methods, method_figures
from testbed.model.code_description import BOTH_LABELS
from testbed.model.studies import Points, Study


def points(quick: bool, seed: int) -> Points:
    """Return six methods on Swiss-T1, NSFNET and a mobile network (``quick``: on Swiss-T1)."""
    networks = NETWORKS[:1] if quick else NETWORKS
    return points_over(networks, method=METHODS, labels="stratified", seed=seed)


STUDY = Study.of_module(
    __name__,
    title="ROR by routing method, on real switches",
    ror_code=BOTH_LABELS,
    answers="Gabrielyan 2007, section 4.4 and eq. 23: "
    "path diversity lowers ROR; rival: the swapped order of methods",
    measure=measure_on_switches,
    judge=judge_methods,
    figures=method_figures,
    emulation=True,
    deviations=(
        "Stratified labels; the study in the simulator has random ones too.",
        "At most 8 links of a route fail, spread over the order by load; "
        "their differences are scaled up to all links.",
    ),
)
