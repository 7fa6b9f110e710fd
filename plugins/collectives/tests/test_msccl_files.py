"""Schedules as algorithms of MSCCL: an independent reader reads and executes them.

Algorithms with errors of each kind are refused.
"""

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
def test_every_block_arrives_at_its_destination(network: str, method: str, others: bool) -> None:
    algorithm = read_algorithm(xml_of(network, method, others=others))
    carried = carry_out(algorithm)
    check_all_to_all(carried)
    assert len(carried.arrivals) == algorithm.ranks * (algorithm.ranks - 1)


def test_each_rank_receives_in_the_order_of_the_frames() -> None:
    traffic = all_to_all(load_network("swiss-t1:allocation=2-1-1-0-0-0-1-0"))
    schedule = schedule_by_name(traffic, "liquid")
    carried = carry_out(read_algorithm(msccl_algorithm(traffic, schedule, "test")))
    source_ranks: dict[str, int] = {}
    sink_ranks: dict[str, int] = {}
    frame_of_pair = {}
    for transfer, (source, sink) in enumerate(traffic.ends):
        source_rank = source_ranks.setdefault(source, len(source_ranks))
        sink_rank = sink_ranks.setdefault(sink, len(sink_ranks))
        frame_of_pair[source_rank, sink_rank] = int(schedule.frame_of[transfer])
    for rank in range(len(source_ranks)):
        frames = [frame_of_pair[pair] for pair in carried.arrivals if pair[1] == rank]
        assert frames == sorted(frames)


def with_swapped_blocks(text: str) -> str:
    """Let GPU 0 send its first two blocks to each other's destination."""
    first = 'srcoff="1" dstbuf="o" dstoff="0"'
    second = 'srcoff="2" dstbuf="o" dstoff="0"'
    return text.replace(first, "X", 1).replace(second, first, 1).replace("X", second, 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (with_swapped_blocks, "holds"),
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
def test_wrong_algorithm_is_refused(change: Callable[[str], str], message: str) -> None:
    text = xml_of("crossbar:4")
    with pytest.raises(InputError, match=message):
        check_all_to_all(carry_out(read_algorithm(change(text))))


def test_writer_refuses_traffic_that_is_not_all_to_all_or_too_large() -> None:
    lone = Traffic.from_transfers([["a", "b"]])
    with pytest.raises(InputError, match="whose they are"):
        msccl_algorithm(lone, schedule_by_name(lone, "liquid"), "test")
    large = all_to_all(load_network("crossbar:110"))
    with pytest.raises(InputError, match="thread blocks"):
        msccl_algorithm(large, schedule_by_name(large, "round-robin"), "test")


def test_schedule_command_writes_algorithm(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "x.xml"
    assert main(["schedule", "crossbar:4", "--output", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["msccl"] == {"ranks": 4, "blocks_carried": 12}
    check_all_to_all(carry_out(read_algorithm(file.read_text())))
    refused = tmp_path / "y.xml"
    assert main(["schedule", "crossbar:4", "--pattern", "h0:h1", "--output", str(refused)]) == 2
    assert not refused.exists()


def test_file_with_too_many_elements_is_refused_early(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lines, "MAX_ELEMENTS", 3)
    with pytest.raises(InputError, match="line 2: more than 3 elements"):
        read_algorithm("<algo>\n" + "<gpu/>" * 9 + "</algo>")
