"""Measures ROR by routing method on packets, in the simulator, and compares the order of methods.

The order is compared with the predicted one, network by network.
"""

from experiments.stream.networks import points_over
from experiments.stream.ror.measured_routes import (
    LABELS,
    SAMPLED_LINKS,
    measure_route,
    study_networks,
)
from experiments.stream.ror.method_checks import METHODS, judge_methods, method_figures
from testbed.model.code_description import BOTH_LABELS
from testbed.model.studies import Points, Study


def points(quick: bool, seed: int) -> Points:
    """Return six methods on Swiss-T1, NSFNET and thirty mobile networks.

    ``quick``: one mobile network, stratified labels.
    """
    labels = ("stratified",) if quick else LABELS
    return points_over(study_networks(quick, seed), method=METHODS, labels=labels, seed=seed)


STUDY = Study.of_module(
    __name__,
    title="ROR by routing method, on packets",
    ror_code=BOTH_LABELS,
    answers="Gabrielyan 2007, section 4.4 and eq. 23: "
    "path diversity lowers ROR; rival: the swapped order of methods",
    measure=measure_route,
    judge=judge_methods,
    figures=method_figures,
    deviations=(
        SAMPLED_LINKS,
        "The document compares capillary routing with its own first layers; "
        "the other methods are ours.",
        "Thirty mobile networks of 40 to 115 nodes, one pair of end points each.",
        "A route cannot be measured if a link requires more than 255 packets per block, "
        "the limit of a Reed-Solomon code over GF(2^8). It is left out, and named in a note.",
    ),
)
