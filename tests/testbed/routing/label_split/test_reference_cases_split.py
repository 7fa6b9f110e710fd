"""Every reference case of capillary routing as a label split: each link's load to less than two labels in
65,536."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest

from testbed.model.label_split import LABELS
from testbed.model.routes import SplitRoute
from testbed.routing.label_split.spraying import SLIVER, spray
from tests.helpers.paths import ROOT
from topologies.network import Link, Network, Node

CASES = ROOT / "tests" / "oracles" / "cases" / "capillary_cases.json"


def cases_with_a_route() -> list[Any]:
    return [c for c in json.loads(CASES.read_text()) if "r" in c]


@pytest.mark.parametrize("case", cases_with_a_route(), ids=lambda case: str(case["name"]))
def test_reference_case_splits_to_less_than_two_labels(case: dict[str, Any]) -> None:
    network = Network(
        name=case["name"],
        nodes=tuple(Node(id=f"n{i}", kind="switch") for i in range(case["n"])),
        links=tuple(Link(source=f"n{a}", target=f"n{b}") for a, b in case["arcs"]),
    )
    loads = tuple(Fraction(r) for r in case["r"])
    source, sink = f"n{case['source']}", f"n{case['sink']}"
    split = spray(
        SplitRoute(network=network, source=source, sink=sink, method="capillary", loads=loads),
        budget=300,
    )
    assert all(abs(split.load(i) - load) < Fraction(SLIVER, LABELS) for i, load in enumerate(loads))
    at_least_a_label = {i for i, load in enumerate(loads) if load * LABELS >= 1}
    assert at_least_a_label <= set(split.loaded) <= {i for i, load in enumerate(loads) if load}
