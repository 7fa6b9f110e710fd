"""Whatever a session records is read back equal, and whatever else stands in a file is refused in one line."""

from __future__ import annotations

import json
from fractions import Fraction
from functools import partial
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from testbed.errors import InputError
from testbed.model.json_values import from_json
from testbed.model.run_records import (
    FaultRecord,
    LinkLoad,
    SessionRecord,
    SummaryRecord,
    TimelineRecord,
    manifest_from_json,
    record_from_json,
    record_to_json,
)
from testbed.model.verdict import Check, Verdict
from tests.helpers.drawn import drawn

numbers = st.floats(-1e9, 1e9, allow_nan=False)
maybe = st.none() | numbers
words = st.text(max_size=12)
counts = st.integers(0, 10**6)
checks = st.builds(
    Check,
    name=words,
    predicted=maybe,
    measured=maybe,
    tolerance=maybe,
    passed=st.booleans(),
    detail=words,
)
verdicts = st.builds(
    Verdict,
    checks=st.tuples(checks) | st.just(()),
    invalid=st.none() | words,
    notes=st.tuples(words),
)
links = st.builds(
    LinkLoad,
    source=words,
    target=words,
    key=counts,
    load=st.fractions(0, 1),
    layer=counts,
    intervals=st.tuples(st.tuples(counts, counts)),
)
sessions = st.builds(
    SessionRecord,
    session=counts,
    title=words,
    network=st.just({"nodes": [], "links": []}),
    source=words,
    sink=words,
    method=words,
    fabric=words,
    links=st.tuples(links),
    parameters=st.dictionaries(words, numbers | words, max_size=2),
    duration_s=numbers,
)
faults = st.builds(
    FaultRecord,
    session=counts,
    link=words,
    kind=words,
    predicted_loss=numbers,
    measured_loss=maybe,
    interval=st.none() | st.tuples(numbers, numbers),
    reaction_s=maybe,
    mean_block_size=maybe,
    undecodable_blocks=counts,
    passed=st.none() | st.booleans(),
)
timelines = st.integers(0, 4).flatmap(
    lambda n: st.builds(
        TimelineRecord,
        session=counts,
        bin_s=numbers,
        t_s=st.tuples(*[numbers] * n),
        sent_pps=st.tuples(*[numbers] * n),
        loss=st.tuples(*[maybe] * n),
        block_size=st.tuples(*[maybe] * n),
        redundancy=st.tuples(*[maybe] * n),
    )
)
summaries = st.builds(
    SummaryRecord,
    session=counts,
    verdict=verdicts,
    ror_predicted=maybe,
    ror_measured=maybe,
    infinite_links=st.tuples(words),
    base_block_size=maybe,
)
values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)


@drawn(60)
@given(record=sessions | faults | timelines | summaries)
def test_record_comes_back_equal_through_json(record: Any) -> None:
    line = json.dumps(record_to_json(record), allow_nan=False)
    assert record_from_json(json.loads(line), "here") == record


@given(verdict=verdicts)
def test_verdict_comes_back_equal_through_json(verdict: Verdict) -> None:
    assert from_json(Verdict, json.loads(json.dumps(verdict.to_json())), "here") == verdict


@given(
    kind=st.sampled_from(["session", "fault", "timeline", "summary"]),
    document=values,
    key=st.data(),
)
def test_anything_else_is_refused_with_its_place(
    kind: str, document: Any, key: st.DataObject
) -> None:
    sample = record_to_json(
        FaultRecord(session=0, link="a->b", kind="down", predicted_loss=0.5)
        if kind == "fault"
        else SessionRecord(
            session=0, title="", network={}, source="a", sink="b", method="m", fabric="f",
            links=(LinkLoad(source="a", target="b", load=Fraction(1, 3)),),
        )
    )  # fmt: skip
    sample["record"] = kind
    sample[key.draw(st.sampled_from(sorted(sample)))] = document
    for read in (record_from_json, manifest_from_json, partial(from_json, Verdict)):
        for candidate in (document, sample):
            try:
                read(candidate, "file:3")
            except InputError as error:
                assert str(error).startswith("file:3")
