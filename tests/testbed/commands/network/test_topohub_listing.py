"""``topology list topohub``, the cities and lengths of its backbones, and delays by their length."""

from __future__ import annotations

import json

import pytest

from testbed.cli import main
from topologies import load_network
from topologies.errors import TopologyError
from topologies.files.formats import topohub_keys


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    assert main(["topology", *words]) == 0
    return capsys.readouterr().out.splitlines()


def test_topohub_s_keys_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, "list", "topohub")
    assert (
        lines == [f"topohub:{key}" for key in topohub_keys()] and "topohub:topozoo/Abilene" in lines
    )
    assert json.loads(printed(capsys, "list", "topohub", "--json")[0]) == {"networks": lines}


def test_one_family_is_listed_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert [
        one["name"] for one in json.loads(printed(capsys, "list", "torus", "--json")[0])["networks"]
    ] == ["torus"]
    assert main(["topology", "list", "torsu"]) == 2
    assert capsys.readouterr().err == "testbed: family 'torsu': did you mean torus?\n"


def test_cities_and_lengths_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, "show", "topohub:topozoo/Abilene", "--nodes", "--links")
    assert lines[:2] == ["0   New York", "1   Chicago"] and "0->1   1146.16 km" in lines
    lines = printed(capsys, "show", "topohub:topozoo/Abilene,delay=geo", "--links")
    assert lines[0] == "0->1   1146.16 km, 5.7308 ms"
    assert printed(capsys, "show", "ring:3", "--nodes")[:2] == ["s0", "s1"]


@pytest.mark.parametrize("key", topohub_keys()[::60])
def test_a_delay_by_length_is_five_microseconds_a_kilometre(key: str) -> None:
    near, far = load_network(f"topohub:{key}"), load_network(f"topohub:{key},delay=geo")
    assert [link.id for link in near.links] == [link.id for link in far.links]
    for plain, link in zip(near.links, far.links, strict=True):
        assert plain.delay_s == 0 and link.delay_s == pytest.approx(
            float(str(link.attributes["dist"])) * 5e-6, abs=1e-9
        )


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("delay=5", "delay=5: give geo"),
        ("x=1", "'x=1' is no parameter; topohub has delay=geo"),
        ("delay=", "give geo"),
    ],
)
def test_another_word_of_topohub_is_refused(words: str, says: str) -> None:
    with pytest.raises(TopologyError, match=says):
        load_network(f"topohub:topozoo/Abilene,{words}")
