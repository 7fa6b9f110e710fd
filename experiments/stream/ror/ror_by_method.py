"""ROR on packets by routing method, in virtual time: is the order of the methods the predicted one, network by network?"""

from __future__ import annotations

from typing import Any

from experiments.stream.ror.figures import method_figures
from experiments.stream.ror.measured_routes import LABELS, measure_route, mobile_networks, named_networks
from experiments.stream.ror.method_checks import METHODS, judge_methods
from testbed.model.code_description import BOTH_LABELS
from testbed.model.studies.study import Study


def points(quick: bool, seed: int) -> list[dict[str, Any]]:
    """Six methods on Swiss-T1, NSFNET and thirty mobile networks; quick: on Swiss-T1, NSFNET and one, stratified labels."""
    networks = named_networks()
    if not quick:
        networks = [ends for ends in networks if not ends[0].startswith("manet")] + mobile_networks(seed)
    return [
        {"network": name, "source": source, "sink": sink, "method": method, "labels": labels, "seed": seed}
        for name, source, sink in networks
        for method in METHODS
        for labels in (LABELS[:1] if quick else LABELS)
    ]


STUDY = Study.of_module(
    __name__,
    name="ror_by_method",
    title="ROR by routing method, on packets",
    ror_code=BOTH_LABELS,
    does="ROR made of packets sent for a single path, two disjoint paths, ECMP, max-flow, capillary and least-FEC routing, in virtual time",
    answers="Gabrielyan 2007, section 4.4 and eq. 23: that path diversity lowers ROR; rival: the methods swapped",
    measure=measure_route,
    judge=judge_methods,
    figures=method_figures,
    deviations=(
        "At most 16 links of a route fail, spread evenly over the order by load; what they are off is scaled up to all links.",
        "The document compares capillary routing with its own first layers; the other methods are ours.",
        "Thirty mobile networks of 40 to 115 nodes, one pair of end points each.",
        "A route of which a link asks for more than 255 packets a block, the most of a Reed-Solomon code over GF(2^8), cannot be measured: it is "
        "left out, and named in a note.",
    ),
)
