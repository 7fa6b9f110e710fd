"""A plan comes back equal from its JSON, and a document that is no plan is refused by its key."""

from __future__ import annotations

import json
from typing import Any

import pytest

from testbed.errors import InputError
from testbed.faults.fault import Fault
from testbed.stream.plan import StreamPlan, plan_to_json
from tests.helpers.stored_plans import plan_from_json
from tests.helpers.stream_plans import planned
from topologies import load_network

FAULT = Fault(
    link=("s1", "s2", 0),
    kind="loss",
    start_s=1,
    stop_s=2.5,
    loss_fraction=0.25,
    direction="forward",
)


@pytest.fixture(scope="module")
def plan() -> StreamPlan:
    made = planned(load_network("swiss-t1"), "s1", "s6", faults=(FAULT,), duration_s=4.0)
    return made


def test_plan_comes_back_equal_and_is_written_the_same_again(plan: StreamPlan) -> None:
    text = json.dumps(plan_to_json(plan))
    again = plan_from_json(json.loads(text))
    assert (
        again == plan and again.network == plan.network and json.dumps(plan_to_json(again)) == text
    )
    assert '"start_s": 1, "stop_s": 2.5' in text
    assert list(plan_to_json(plan)) == [
        "format", "network", "network_name", "method", "forward", "backward", "stream", "faults", "absent", "changes",
        "handover", "layers", "duration_s", "seed",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"format": 2}, "plan: format 2 is not 1"),
        ({"network": None}, "plan: network: a node-link document is a JSON object"),
        ({"stream": {"rate_pps": "fast"}}, "plan: stream: rate_pps: 'fast' is not a finite number"),
        ({"stream": {"rate_pps": 0}}, "plan: stream: rate_pps 0: give packets a second"),
        ({"faults": [{"kind": "down"}]}, r"plan: faults\[0\]: link is missing"),
        (
            {"faults": [{"link": ["s1", "s99", 0]}]},
            "plan: plan: fault on s1->s99, which is no link",
        ),
        (
            {"forward": {"source": "s1", "sink": "s6", "paths": []}},
            "plan: forward: label split: labels from 0",
        ),
        ({"handover": "never"}, "plan: handover: 'never' is not one of after, before"),
        ({"duration_s": None}, "plan: duration_s: None is not a finite number"),
    ],
)
def test_document_that_is_no_plan_is_refused_by_its_key(
    plan: StreamPlan, change: dict[str, Any], says: str
) -> None:
    with pytest.raises(InputError, match=f"^{says}"):
        plan_from_json(plan_to_json(plan) | change)
