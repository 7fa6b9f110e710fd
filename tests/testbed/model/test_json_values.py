"""Dataclasses come back from JSON as their annotations say, and what is wrong in a document is named by its key."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.errors import InputError
from testbed.model.json_values import from_json, json_ready, parse_json, read_json


class Ground:
    """What a document leaves out."""


@dataclass(frozen=True, kw_only=True)
class Leg:
    length: Fraction
    ends: tuple[str, str, int] = ("a", "b", 0)
    ground: Ground

    def __post_init__(self) -> None:
        if self.length > 9:
            raise InputError(f"length {self.length}; give at most 9")


@dataclass(frozen=True, kw_only=True)
class Walk:
    name: str
    legs: tuple[Leg, ...] = ()
    pace: float | None = None
    kind: Literal["slow", "fast"] = "slow"
    steps: int = 0
    dry: bool = True
    notes: Mapping[str, Any] = field(default_factory=dict)


GROUND = Ground()
WALK = Walk(
    name="w",
    legs=(Leg(length=Fraction(1, 3), ground=GROUND),),
    pace=2,
    kind="fast",
    notes={"a": [1, None]},
)


def test_a_dataclass_is_an_object_and_comes_back_equal() -> None:
    document = json_ready(WALK, without=Ground)
    assert document["legs"] == [{"length": "1/3", "ends": ["a", "b", 0]}]
    assert list(document) == ["name", "legs", "pace", "kind", "steps", "dry", "notes"]
    assert from_json(Walk, json.loads(json.dumps(document)), "walk", {Ground: GROUND}) == WALK


def test_a_whole_number_stays_whole_so_that_it_is_written_again_as_it_was() -> None:
    found = from_json(Walk, {"name": "w", "pace": 2, "unknown": 1}, "walk")
    assert json.dumps(json_ready(found.pace)) == "2" and found == Walk(name="w", pace=2)
    assert json_ready({"x": math.inf, "y": (math.nan, Fraction(2))}) == {
        "x": None,
        "y": [None, "2"],
    }


def test_numbers_of_numpy_become_those_of_python() -> None:
    """A study's page asks of each whether it is an empty list, which numpy answers with an array."""
    found = json_ready({"float": np.float64(0.5), "int": np.int64(2), "list": np.array([1.5])})
    assert [type(value) for value in found.values()] == [float, int, list]
    assert all(value not in ([], {}) for value in found.values())


@pytest.mark.parametrize(
    ("document", "says"),
    [
        (7, "walk: not a JSON object"),
        ({}, "walk: name is missing"),
        ({"name": 7}, "walk: name: 7 is not a text"),
        ({"name": "w", "pace": "quick"}, "walk: pace: 'quick' is not a finite number"),
        ({"name": "w", "pace": True}, "walk: pace: True is not a finite number"),
        ({"name": "w", "pace": math.nan}, "walk: pace: nan is not a finite number"),
        ({"name": "w", "steps": 1.0}, "walk: steps: 1.0 is not a whole number"),
        ({"name": "w", "dry": 1}, "walk: dry: 1 is not true or false"),
        ({"name": "w", "kind": "idle"}, "walk: kind: 'idle' is not one of slow, fast"),
        ({"name": "w", "kind": []}, "walk: kind: [] is not one of slow, fast"),
        ({"name": "w", "notes": []}, "walk: notes: [] is not an object"),
        ({"name": "w", "legs": {}}, "walk: legs: {} is not a list"),
        ({"name": "w", "legs": [{"length": 1}, {}]}, "walk: legs[1]: length is missing"),
        (
            {"name": "w", "legs": [{"length": "1/0"}]},
            "walk: legs[0]: length: '1/0' is not a fraction such as \"1/3\"",
        ),
        (
            {"name": "w", "legs": [{"length": None}]},
            "walk: legs[0]: length: None is not a finite number",
        ),
        (
            {"name": "w", "legs": [{"length": 1, "ends": ["a"]}]},
            "walk: legs[0]: ends: ['a'] is not a list of 3",
        ),
        (
            {"name": "w", "legs": [{"length": 1, "ends": ["a", "b", "c"]}]},
            "walk: legs[0]: ends[2]: 'c' is not a whole number",
        ),
        ({"name": "w", "legs": [{"length": 10}]}, "walk: legs[0]: length 10; give at most 9"),
        (
            {"name": "w" * 99, "steps": "x" * 99},
            "walk: steps: '" + "x" * 39 + "… is not a whole number",
        ),
    ],
)
def test_errors_name_their_key(document: Any, says: str) -> None:
    with pytest.raises(InputError) as caught:
        from_json(Walk, document, "walk", {Ground: GROUND})
    assert str(caught.value) == says


def test_a_file_that_cannot_be_read_or_is_no_json_is_named_with_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    with pytest.raises(
        InputError, match=r"^--it: cannot be read \(No such file or directory\); give another$"
    ):
        read_json(file, "--it", hint="give another")
    for content, says in (
        (
            b"{\n 1",
            "not JSON at line 2, column 2: Expecting property name enclosed in double quotes; name a JSON file",
        ),
        (b"", "not JSON at line 1, column 1"),
        (b"\xff", r"not text in UTF-8 \(byte 0\)"),
        (b"[" * 100_000, "not JSON that can be read"),
    ):
        file.write_bytes(content)
        with pytest.raises(InputError, match=f"^{file}: {says}"):
            read_json(file)
    file.write_text("\ufeff[1]")
    assert read_json(file) == [1] == parse_json("[1]", "here")


@dataclass(frozen=True)
class Loaded:
    load: Fraction


@pytest.mark.parametrize(
    "text",
    ["1e400000000", "1e999999999/3", "9" * 5000, "1/" + "9" * 5000, "1_0", "1/0", "inf", "", "0x1"],
)
def test_a_fraction_that_takes_the_machine_is_refused_at_once(text: str) -> None:
    with pytest.raises(InputError, match=r"here: load: .* is not a fraction"):
        from_json(Loaded, {"load": text}, "here")


@pytest.mark.parametrize(
    "text", ["1/3", "-2", "0.125", "1e-3", "2.5E+2", " 7/8 ", f"1/{'9' * 900}"]
)
def test_fractions_are_read_as_before(text: str) -> None:
    assert from_json(Loaded, {"load": text}, "here").load == Fraction(text)


@given(st.fractions())
def test_every_fraction_comes_back(value: Fraction) -> None:
    assert from_json(Loaded, json_ready(Loaded(value)), "here").load == value


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
def test_a_file_may_be_in_any_unicode_encoding(encoding: str, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes('{"é": [1]}'.encode(encoding))
    assert read_json(tmp_path / "x.json") == {"é": [1]}
    (tmp_path / "x.json").write_bytes(b'{"\xe9": [1]}')
    with pytest.raises(InputError, match="not text in UTF-8"):
        read_json(tmp_path / "x.json")
