"""A placement by hand is read, or refused in one line that says what is wrong with it."""

from __future__ import annotations

from typing import Any

import pytest

from testbed.errors import InputError
from testbed.machines.partition import parse_placement
from topologies import load_network

RING = load_network("ring:4")


def test_hosts_lie_with_their_switch_unless_they_are_named() -> None:
    found = parse_placement(
        {"machines": [["s0", "s1", "h3"], ["s2", "s3"]]}, RING, "place.json", machines=2
    )
    assert found.machines == 2
    assert found.machine_of == {
        "s0": 0,
        "s1": 0,
        "s2": 1,
        "s3": 1,
        "h0": 0,
        "h1": 0,
        "h2": 1,
        "h3": 0,
    }


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ([], 'place.json: give {"machines": [[node, ...], ...]}, one list per machine'),
        (
            {"machines": [["s0"], "s1"]},
            'place.json: give {"machines": [[node, ...], ...]}, one list per machine',
        ),
        (
            {"machines": [["s0", "s1"], ["s2", "s9"]]},
            "place.json: machine 1: ring:4 has no node 's9'",
        ),
        ({"machines": [["s0", "s1"], ["s2", 3]]}, "place.json: machine 1: ring:4 has no node '3'"),
        (
            {"machines": [["s0", "s1"], ["s1"]]},
            "place.json: node s1 is on machine 0 and on machine 1; name it once",
        ),
        (
            {"machines": [["s0", "s1"], ["s2"]]},
            "place.json: switch s3 has no machine; name every switch",
        ),
        (
            {"machines": [["s0", "s1", "s2", "s3"], []]},
            "place.json: machine 1 has no node; give it one",
        ),
        (
            {"machines": [["s0", "s1", "s2", "s3"]]},
            "place.json: nodes are placed on 1 machines; give lists for 2",
        ),
        ({"machines": [["s0"], ["s1"]], "host": 1}, "place.json: "),
    ],
)
def test_errors_are_reported_in_one_line(document: Any, words: str) -> None:
    with pytest.raises(InputError) as raised:
        parse_placement(document, RING, "place.json", machines=2)
    assert str(raised.value).startswith(words)
    assert "\n" not in str(raised.value)
