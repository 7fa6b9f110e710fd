"""A route in which one path carries next to nothing: failures of whole cables are told from those that no code
stands."""

from __future__ import annotations

from typing import Any

from fec.redundancy.labels import LABELS
from testbed.stream.prediction.active_faults import exact_block_size
from testbed.stream.workload import stream_plan


def _ways(*capacities_bps: float) -> dict[str, Any]:
    """A network of a path of each capacity from a to b."""
    names = [f"m{i}" for i in range(len(capacities_bps))]
    links = [
        {"source": source, "target": target, "capacity_bps": rate}
        for name, rate in zip(names, capacities_bps, strict=True)
        for source, target in (("a", name), (name, "b"))
    ]
    return {"nodes": [{"id": name} for name in ("a", "b", *names)], "links": links}


def test_a_stream_of_which_one_path_carries_a_millionth_is_planned() -> None:
    plan = stream_plan(_ways(1e9, 1e4), "a", "b")
    heavy = max(plan.forward.loaded, key=plan.forward.load)
    assert plan.forward.load(heavy) == (LABELS - 1) / LABELS
    assert exact_block_size(plan)(tuple(plan.forward.intervals(heavy))) == 20 * LABELS


def test_cables_that_carry_all_labels_of_an_order_need_infinite_blocks() -> None:
    plan = stream_plan(_ways(1e9, 1e9, 2e4), "a", "b")
    heavy = [i for i in plan.forward.loaded if plan.forward.load(i) > 0.4]
    lost = tuple(sorted({interval for i in heavy for interval in plan.forward.intervals(i)}))
    assert sum(stop - start for start, stop in lost) == LABELS - 1
    assert (exact_block_size(plan)(lost) is None) == bool(plan.stream.label_slots)
