"""DataFrames of every kind of value have plain columns."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import testbed
from testbed.api.plain_tables import plain_frame
from testbed.api.tables import rows_of
from testbed.bulk.measurements import LinkCount
from testbed.errors import UsageError

PLANS = {
    "stream": lambda: testbed.stream_plan(
        "ring:4", "s0", "s2", faults=["s0->s1@2-3"], duration_s=4, rate_pps=200
    ),
    "bulk": lambda: testbed.bulk_plan("crossbar:3", message_bytes=10_000),
    "download": lambda: testbed.download_plan("swiss-t1", "s1", "s6", file_bytes=200_000),
    "simulation": lambda: testbed.simulation_plan("mesh:3x3", duration_s=0.001, repetitions=2),
    "wavelengths": lambda: testbed.wavelength_plan("optical-cloud"),
}
VALUES = {
    "route": lambda: testbed.route("ring:4", "s0", "s2"),
    "ror": lambda: testbed.ror("ring:4", "s0", "s2"),
    "rors": lambda: [testbed.ror("ring:4", "s0", "s2", m) for m in ("single", "capillary")],
    "demands": lambda: testbed.demands("ring:4", routing="ecmp", labels="random", links=True),
    "schedule": lambda: testbed.schedule("crossbar:3"),
    "traffic": lambda: testbed.traffic("crossbar:3"),
    "network": lambda: testbed.network("manet:nodes=9"),
    "networks": testbed.networks,
    "verdict": lambda: testbed.run(PLANS["simulation"](), "simulator").verdict,
    "counters": lambda: {("s0", "s1", 0): LinkCount(packets=1, bytes=2, queue_drops=3)},
}


def values() -> dict[str, Any]:
    runs = {
        name: (lambda make=make: testbed.run(make(), "simulator")) for name, make in PLANS.items()
    }
    return {**VALUES, **runs}


@pytest.mark.parametrize("name", values())
def test_table_of_every_value_has_plain_columns(name: str) -> None:
    value = values()[name]()
    frame = testbed.data_frame(value)
    assert len(frame) == len(rows_of(value)) > 0
    for column in frame.columns:
        entries = frame[column].dropna().tolist()
        kinds = {type(entry) for entry in entries}
        assert len(kinds) <= 1 and kinds <= {int, float, str, bool}, (column, kinds)
        assert frame[column].dtype != object, column


def test_pairs_and_structures_are_columns() -> None:
    frame = testbed.data_frame(testbed.run(PLANS["stream"](), "simulator"))
    assert frame.interval_low[0] < 0.5 < frame.interval_high[0]
    assert frame.predicted_block_size[0] == 40 and frame.diagnosis_right[0]
    assert frame.diagnosis_cables[0] == "s0-s1, s1-s2"


@pytest.mark.parametrize(
    ("entries", "kind"),
    [
        ([1, None], "float64"),
        ([None, None], "float64"),
        ([True, None], "boolean"),
        ([0.5, 2], "float64"),
        (["a", None], "str"),
        ([10**30, None], "float64"),
    ],
)
def test_missing_entries_leave_a_column_its_kind(entries: list[Any], kind: str) -> None:
    frame = plain_frame([{"x": entry} for entry in entries])
    assert str(frame.x.dtype) in (kind, "object" if kind == "str" else kind)


def test_schedule_names_source_and_destination() -> None:
    frame = testbed.data_frame(testbed.schedule("crossbar:2"))
    assert frame.columns.tolist() == ["transfer", "source", "destination", "links", "frame"]
    assert sorted(zip(frame.source, frame.destination, strict=True))[0] == ("t0", "r0")


@pytest.mark.parametrize("value", ["ring:4", 5, None, [], ["a"], {"a": 1}, SimpleNamespace()])
def test_value_without_a_table_is_usage_error(value: Any) -> None:
    with pytest.raises(UsageError, match=r"data_frame: .* give a run, a stored run or its folder"):
        testbed.data_frame(value)


def test_empty_result_is_an_empty_table() -> None:
    import pandas

    assert isinstance(plain_frame([]), pandas.DataFrame) and plain_frame([]).empty
