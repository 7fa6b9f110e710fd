"""Measures ROR by capillary layer on packets, in the simulator, for both orders of labels.

The sender knows neither route nor failure. It diagnoses what failed from the labels that are lost.
"""

from experiments.stream.networks import points_over
from experiments.stream.ror.layer_checks import FULL, LAYERS, judge_layers, layer_figures
from experiments.stream.ror.measured_routes import (
    LABELS,
    SAMPLED_LINKS,
    measure_route,
    study_networks,
)
from testbed.model.code_description import BOTH_LABELS
from testbed.model.studies import Points, Study


def points(quick: bool, seed: int) -> Points:
    """Return six numbers of layers on Swiss-T1, NSFNET and thirty mobile networks.

    ``quick``: three numbers of layers, and one mobile network.
    """
    layers = (1, 3, FULL) if quick else LAYERS
    return points_over(study_networks(quick, seed), layers=layers, labels=LABELS, seed=seed)


STUDY = Study.of_module(
    __name__,
    title="ROR by capillary layer, on packets",
    ror_code=BOTH_LABELS,
    answers="Gabrielyan 2007, eq. 20 to 23 and Figures 60 and 61: "
    "ROR falls as layers are added; measured against predicted",
    measure=measure_route,
    judge=judge_layers,
    figures=layer_figures,
    deviations=(
        SAMPLED_LINKS,
        "The document computes ROR; "
        "here it is measured on packets that a sender sent in the simulator.",
        "Thirty mobile networks of 40 to 115 nodes, one pair each, "
        "for 300 frames of 115 nodes and 150 of 120.",
        "One static tolerance, 5 %; Figures 60 and 61 have fifteen, from 3.6 % to 7.8 %.",
    ),
)
