"""What failures cost is judged beside the same runs in which sources divert nothing."""

from __future__ import annotations

from typing import Any

import pytest

from experiments.interconnect import shapes
from experiments.interconnect.permanent import NO_DIVERSION, diversion_checks


@pytest.mark.parametrize(
    ("values", "alone", "said"),
    [
        ((99.0, 99.1), (97.0, 97.1), {"holds"}),
        ((99.0, 99.1), (98.5, 98.6), {"cannot-tell", "holds"}),
        ((99.0, 99.1), (99.0, 99.1), {"cannot-tell", "fails"}),
        ((97.0, 97.1), (96.0, 96.1), {"fails", "holds"}),
        ((99.0, 99.1), (), {"cannot-tell"}),
        ((97.0, 97.1), (), {"fails"}),
    ],
)
def test_a_bar_that_escapes_reach_cannot_tell(
    values: tuple[float, ...], alone: tuple[float, ...], said: set[str]
):
    checks = diversion_checks("performance", 98.0, 9 * values, 9 * alone, "above 98 %")
    assert {check.outcome for check in checks} == said
    assert all(check.rival_note for check in checks)


def test_a_gain_without_diverted_messages_is_undecided() -> None:
    def row(kind: str, seed: int, diverted: int, **more: Any) -> dict[str, Any]:
        return {
            "fault_kind": kind, "faults": int(kind != "none"), "seed": seed, "options": {}, "alternative": diverted,
            "latency_s": 4e-6 + 1e-9 * seed, "sent": 9, "received": 9, "deadlocked": False, "livelocked": 0, **more,
        }  # fmt: skip

    def outcome(diverted: int) -> str:
        shape = "shape:line:5"
        rows = [
            row(kind, seed, diverted * (kind == shape))
            for kind in ("none", shape)
            for seed in (1, 2)
        ]
        rows += [row(shape, seed, 0, options=NO_DIVERSION) for seed in (1, 2)]
        return shapes.judge(rows).checks[-1].outcome

    assert (outcome(0), outcome(5)) == ("cannot-tell", "fails")
