"""ROR on packets by routing method on real switches: a sample of links spread over all loads fails."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from experiments.stream.ror.figures import method_figures
from experiments.stream.ror.measured_routes import LABELS, measure_route, named_networks
from experiments.stream.ror.method_checks import METHODS, judge_methods
from testbed.model.code_description import BOTH_LABELS
from testbed.model.studies.study import Study


def points(quick: bool, seed: int) -> list[dict[str, Any]]:
    """Six methods on Swiss-T1, NSFNET and a mobile network, stratified labels; quick: on Swiss-T1."""
    return [
        {"network": name, "source": source, "sink": sink, "method": method, "labels": labels, "seed": seed}
        for name, source, sink in named_networks()[: 1 if quick else None]
        for labels in LABELS[:1]
        for method in METHODS
    ]


def measure(point: Mapping[str, Any]) -> dict[str, Any]:
    """One run on switches, repeated where the machine could not keep up."""
    return measure_route(point, "emulation")


STUDY = Study.of_module(
    __name__,
    name="ror_validation",
    title="ROR by routing method, on real switches",
    ror_code=BOTH_LABELS,
    does="ROR made of packets sent for a single path, two disjoint paths, ECMP, max-flow, capillary and least-FEC routing, on real switches",
    answers="Gabrielyan 2007, section 4.4 and eq. 23: that path diversity lowers ROR; rival: the methods swapped",
    judge=judge_methods,
    figures=method_figures,
    emulation=True,
    deviations=(
        "Stratified labels; the study in virtual time has random ones as well.",
        "At most 8 links of a route fail, spread evenly over the order by load; what they are off is scaled up to all links.",
    ),
)
