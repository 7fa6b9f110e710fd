"""Every reference case of capillary routing, exactly."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest

from testbed.routing import capillary_route
from testbed.routing.capillary import route as capillary_recursion
from tests.helpers.paths import ROOT
from topologies.errors import NoPathError
from topologies.network import Link, Network, Node

CASES = ROOT / "tests" / "oracles" / "cases" / "capillary_cases.json"


def read_cases() -> list[Any]:
    return list(json.loads(CASES.read_text()))


def as_network(case: dict[str, Any]) -> Network:
    return Network(
        name=case["name"],
        nodes=tuple(Node(id=f"n{i}", kind="switch") for i in range(case["n"])),
        links=tuple(Link(source=f"n{a}", target=f"n{b}") for a, b in case["arcs"]),
    )


@pytest.fixture(params=[False, True], ids=["integers", "compiled"])
def arithmetic(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capillary_recursion, "COMPILE_FROM_LINKS", 0 if request.param else 10**9)


@pytest.mark.usefixtures("arithmetic")
@pytest.mark.parametrize("case", read_cases(), ids=lambda case: str(case["name"]))
def test_reference_case_comes_out_exactly(case: dict[str, Any]) -> None:
    network, ends = as_network(case), (f"n{case['source']}", f"n{case['sink']}")
    if "expected_error" in case:
        with pytest.raises(NoPathError, match="no path leads from 'n0'"):
            capillary_route(network, *ends)
        return
    route = capillary_route(network, *ends)
    assert list(route.loads) == [Fraction(r) for r in case["r"]]
    assert list(route.link_layers) == case["layer"]
    assert [layer.load for layer in route.layers] == [Fraction(x) for x in case["lambda"]]
    assert [layer.factor for layer in route.layers] == [Fraction(x) for x in case["F"]]
    assert [len(layer.bottlenecks) for layer in route.layers] == case["bottlenecks_per_layer"]
