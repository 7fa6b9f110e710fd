"""What the schedule command says of capacities, idle links and seconds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import testbed
from testbed.cli import main
from testbed.scheduling.exchange_time import exchange_time
from testbed.scheduling.traffic.patterns import other_pairs, traffic_of

CLUSTER = str(Path(__file__).parents[3] / "user_inputs" / "cluster_100g.json")


def answer(capsys: pytest.CaptureFixture[str], *argv: str) -> dict[str, object]:
    assert main(["schedule", *argv, "--json"]) == 0
    document: dict[str, object] = json.loads(capsys.readouterr().out)
    return document


def test_cluster_of_unequal_links_gets_bound_and_routing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """192 messages leave a leaf over two links of 200 Gbit/s: 3.84 ms for messages of 1 MB."""
    document = answer(capsys, CLUSTER, "--pattern", "all-to-others")
    assert document["unequal_capacities"] is True
    assert document["bound_s"] == pytest.approx(3.84e-3)
    assert document["length"] == 192
    assert document["length_balanced"] == 96
    assert document["seconds_per_exchange"] == pytest.approx(192 * 8e6 / 1e11)
    assert document["liquid"] is False
    assert document["proved"] == "unknown"
    assert document["optimal"] is False
    half = answer(capsys, CLUSTER, "--pattern", "all-to-others", "--message-size", "500kB")
    assert half["bound_s"] == pytest.approx(1.92e-3)


def test_words_of_unequal_links_come_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schedule", CLUSTER, "--pattern", "all-to-others"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "links of 100 Gbit/s and 200 Gbit/s count alike" in lines[0]
    assert "less than 3.84 ms" in lines[0]
    assert "leaves 8 links between switches idle" in lines[1]
    assert "--routing balanced gives 96 frames" in lines[1]
    assert not any("liquid, optimal" in line for line in lines)


def test_message_sizes_reach_the_bound(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    sizes = tmp_path / "sizes.json"
    sizes.write_text('{"sizes_bytes": 1000000}')
    options = ("--pattern", "all-to-others", "--routing", "balanced", "--message-sizes", str(sizes))
    document = answer(capsys, CLUSTER, *options)
    assert document["length"] == 48
    assert document["seconds_per_exchange"] == pytest.approx(3.84e-3)
    assert main(["schedule", CLUSTER, *options]) == 0
    assert "numbers of chunks" in capsys.readouterr().out


def test_equal_links_stay_liquid_and_get_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    document = answer(capsys, "swiss-t1")
    assert document["unequal_capacities"] is False
    assert document["optimal"] is True
    assert "length_balanced" not in document
    assert document["seconds_per_exchange"] == pytest.approx(48 * 8e6 / 1e7)


def test_frame_lasts_as_long_as_its_slowest_transfer() -> None:
    network = testbed.network(CLUSTER)
    traffic = traffic_of(network, other_pairs(network)[:31])
    schedule = testbed.schedule(traffic)
    rates = {link.label: link.capacity_bps for link in network.links}
    rates["n0->leaf0"] = 1e9
    exchange = exchange_time(traffic, schedule, rates, 1e6)
    assert exchange.seconds == pytest.approx(31 * 8e6 / 1e9)
    assert exchange.routed_bound_s == pytest.approx(exchange.seconds)
    assert exchange.unequal


def test_message_size_without_network_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "traffic.json"
    file.write_text('{"transfers": [["a"], ["b"]]}')
    assert main(["schedule", "--traffic", str(file), "--message-size", "1MB"]) == 2
    assert "NETWORK" in capsys.readouterr().err


def test_data_frame_of_a_schedule_names_both_ends() -> None:
    rows = testbed.data_frame(testbed.schedule("crossbar:2")).to_dict("records")
    assert [(row["source"], row["destination"]) for row in rows] == [
        ("t0", "r0"),
        ("t0", "r1"),
        ("t1", "r0"),
        ("t1", "r1"),
    ]


def test_values_have_short_representations() -> None:
    traffic = testbed.traffic("swiss-t1")
    schedule = testbed.schedule(traffic)
    plan = testbed.simulation_plan("crossbar:4", load=0.1, duration_s=0.001)
    verdict = testbed.run(plan).verdict
    for value in (traffic, schedule, verdict):
        assert len(repr(value)) < 120
    assert "liquid, method 'liquid'" in repr(schedule)


def test_simulation_names_the_capacities_it_uses(capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["simulate", CLUSTER, "--load", "0.1", "--duration", "0.0005"]
    assert main(argv) == 0
    said = "links of 100 Gbit/s to 200 Gbit/s, the network's own capacities"
    assert said in capsys.readouterr().out
    assert main(["simulate", "crossbar:4", "--load", "0.1", "--duration", "0.0005"]) == 0
    assert "capacities" not in capsys.readouterr().out
