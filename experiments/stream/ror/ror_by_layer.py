"""ROR on packets by capillary layer, in virtual time, under stratified and under random labels.

The sender knows neither route nor failure; it diagnoses what failed from the labels that are lost.
"""

from __future__ import annotations

from typing import Any

from experiments.stream.ror.figures import layer_figures
from experiments.stream.ror.layer_checks import FULL, LAYERS, judge_layers
from experiments.stream.ror.measured_routes import LABELS, measure_route, mobile_networks, named_networks
from testbed.model.code_description import BOTH_LABELS
from testbed.model.studies.study import Study


def points(quick: bool, seed: int) -> list[dict[str, Any]]:
    """Swiss-T1, NSFNET and thirty mobile networks at six numbers of layers; quick: Swiss-T1, NSFNET and one, at three."""
    networks = named_networks()
    if not quick:
        networks = [ends for ends in networks if not ends[0].startswith("manet")] + mobile_networks(seed)
    return [
        {"network": name, "source": source, "sink": sink, "layers": layers, "labels": labels, "seed": seed}
        for name, source, sink in networks
        for layers in ((1, 3, FULL) if quick else LAYERS)
        for labels in LABELS
    ]


STUDY = Study.of_module(
    __name__,
    name="ror_by_layer",
    title="ROR by capillary layer, on packets",
    ror_code=BOTH_LABELS,
    does="ROR made of packets sent, by capillary layer, while up to 16 links of a route fail in turn, in virtual time",
    answers="Gabrielyan 2007, eq. 20 to 23 and Figures 60 and 61: that ROR falls as layers are added, measured against predicted",
    measure=measure_route,
    judge=judge_layers,
    figures=layer_figures,
    deviations=(
        "At most 16 links of a route fail, spread evenly over the order by load; what they are off is scaled up to all links.",
        "The document computes ROR; here it is made of packets that a sender sent in virtual time.",
        "Thirty mobile networks of 40 to 115 nodes, one pair of end points each, in place of 300 frames of 115 nodes and 150 of 120.",
        "One static tolerance, 5 %; Figures 60 and 61 have fifteen, from 3.6 % to 7.8 %.",
    ),
)
