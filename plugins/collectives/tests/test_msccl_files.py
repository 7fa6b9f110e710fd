"""Schedules as algorithms of MSCCL: read again by a reader of its own, carried out, and spoilt in each way that it must
notice."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from testbed_collectives import lines
from testbed_collectives.reader import carry_out, check_all_to_all, read_algorithm
from testbed_collectives.writer import msccl_algorithm

from testbed.cli import main
from testbed.errors import InputError
from testbed.model.traffic import Traffic
from testbed.scheduling.methods import schedule_by_name
from testbed.scheduling.traffic.patterns import all_to_all, all_to_others
from topologies import load_network


def xml_of(network: str, method: str = "liquid", *, others: bool = False) -> str:
    traffic = (all_to_others if others else all_to_all)(load_network(network))
    return msccl_algorithm(traffic, schedule_by_name(traffic, method), "test")


@pytest.mark.parametrize(
    ("network", "method", "others"),
    [
        ("crossbar:4", "liquid", False),
        ("swiss-t1:allocation=2-1-1-0-0-0-1-0", "liquid", False),
        ("swiss-t1", "liquid", False),
        ("torus:3x3", "round-robin", True),
        ("fat-tree:4,2", "two-level", False),
    ],
)
def test_every_block_arrives_where_it_belongs(network: str, method: str, others: bool) -> None:
    algorithm = read_algorithm(xml_of(network, method, others=others))
    carried = carry_out(algorithm)
    check_all_to_all(carried)
    assert len(carried.arrivals) == algorithm.ranks * (algorithm.ranks - 1)


def test_each_rank_keeps_the_order_of_the_frames() -> None:
    traffic = all_to_all(load_network("swiss-t1:allocation=2-1-1-0-0-0-1-0"))
    schedule = schedule_by_name(traffic, "liquid")
    carried = carry_out(read_algorithm(msccl_algorithm(traffic, schedule, "test")))
    ranks = {a: n for n, a in enumerate(dict.fromkeys(a for a, _ in traffic.ends))}
    sinks = {b: n for n, b in enumerate(dict.fromkeys(b for _, b in traffic.ends))}
    frame = {
        (ranks[a], sinks[b]): int(schedule.frame_of[i]) for i, (a, b) in enumerate(traffic.ends)
    }
    for rank in range(len(ranks)):
        received = [frame[pair] for pair in carried.arrivals if pair[1] == rank]
        assert received == sorted(received)


def swapped(text: str) -> str:
    """GPU 0 sends its first two blocks to each other's destination."""
    first, second = 'srcoff="1" dstbuf="o" dstoff="0"', 'srcoff="2" dstbuf="o" dstoff="0"'
    return text.replace(first, "X", 1).replace(second, first, 1).replace("X", second, 1)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (swapped, "holds"),
        (lambda t: t.replace('type="s"', 'type="nop"', 1), "blocked permanently"),
        (lambda t: t.replace('type="r"', 'type="nop"', 1), "nobody receives"),
        (lambda t: t.replace('hasdep="1"', 'hasdep="0"', 1), "has no hasdep"),
        (lambda t: t.replace('nchunksperloop="4"', 'nchunksperloop="8"'), "i_chunks"),
        (lambda t: t.replace('send="1"', 'send="4"', 1), "peers"),
        (lambda t: t.replace('srcoff="1"', 'srcoff="9"', 1), "within"),
        (lambda t: t.replace('coll="alltoall"', 'coll="allreduce"'), "alltoall"),
        (lambda t: t[:100], "no XML"),
    ],
)
def test_a_spoilt_algorithm_is_found_out(spoil: Callable[[str], str], says: str) -> None:
    text = xml_of("crossbar:4")
    with pytest.raises(InputError, match=says):
        check_all_to_all(carry_out(read_algorithm(spoil(text))))


def test_what_is_no_all_to_all_is_refused() -> None:
    lone = Traffic.from_transfers([["a", "b"]])
    with pytest.raises(InputError, match="whose they are"):
        msccl_algorithm(lone, schedule_by_name(lone, "liquid"), "test")
    large = all_to_all(load_network("crossbar:110"))
    with pytest.raises(InputError, match="thread blocks"):
        msccl_algorithm(large, schedule_by_name(large, "round-robin"), "test")


def test_the_command_writes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "x.xml"
    assert main(["schedule", "crossbar:4", "--output", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["msccl"] == {"ranks": 4, "blocks_carried": 12}
    check_all_to_all(carry_out(read_algorithm(file.read_text())))
    assert (
        main(["schedule", "crossbar:4", "--pattern", "h0:h1", "--output", str(tmp_path / "y.xml")])
        == 2
    )
    assert not (tmp_path / "y.xml").exists()


def test_a_file_of_more_elements_than_any_algorithm_has_is_refused_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lines, "MAX_ELEMENTS", 3)
    with pytest.raises(InputError, match="line 2: more than 3 elements"):
        read_algorithm("<algo>\n" + "<gpu/>" * 9 + "</algo>")
