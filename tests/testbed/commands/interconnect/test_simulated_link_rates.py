"""``testbed simulate`` gives each link its rate of the network file, or all links one rate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from testbed import simulation_plan
from testbed.model.naming.names import has_own_rates
from tests.helpers.commands import in_process
from topologies import load_network

CLUSTER = {
    "nodes": [
        {"id": "leaf0", "kind": "switch"},
        {"id": "leaf1", "kind": "switch"},
        *({"id": f"n{k}", "kind": "host"} for k in range(4)),
    ],
    "links": [
        {"source": "leaf0", "target": "leaf1", "capacity": "200Gbps"},
        *({"source": f"n{k}", "target": f"leaf{k // 2}", "capacity": "100Gbps"} for k in range(4)),
    ],
}
MESSAGE = {"messages": [{"source": "n0", "destination": "n2", "time_s": 0}]}
PACKET_US = 8 * 2048 / 100e9 * 1e6


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the cluster, and one message across it."""
    (tmp_path / "cluster.json").write_text(json.dumps(CLUSTER))
    (tmp_path / "message.json").write_text(json.dumps(MESSAGE))
    return tmp_path


def document(folder: Path, *words: str) -> Any:
    done = in_process("simulate", *words, "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_links_have_the_rates_of_the_file(folder: Path) -> None:
    """One packet takes 0.16 us over the links of hosts, and two routers of 127 ns."""
    answer = document(folder, "cluster.json", "--traffic", "message.json", "--model", "thesis")
    assert answer["mean_latency_s"] * 1e6 == pytest.approx(0.254 + PACKET_US, abs=1e-4)
    assert answer["link_rates"] == {
        "slowest_bps": 100e9,
        "fastest_bps": 200e9,
        "load_1_bps": 100e9,
    }
    said = json.dumps(answer["verdict"])
    assert "links of 100 Gbit/s to 200 Gbit/s, the network's own capacities; a load is" in said


def test_load_is_a_share_of_the_link_of_a_host(folder: Path) -> None:
    answer = document(folder, "cluster.json", "--load", "0.2", "--duration", "2e-5")
    assert answer["rate_packets_per_s"] == pytest.approx(0.2 * 100e9 / (8 * 2048))
    assert "carries at most 21.33 Gbit/s with the delays of the model booksim" in json.dumps(answer)


def test_link_rate_replaces_the_rates_of_the_file(folder: Path) -> None:
    words = ("cluster.json", "--traffic", "message.json", "--model", "thesis")
    answer = document(folder, *words, "--link-rate", "1Gbps")
    assert answer["mean_latency_s"] * 1e6 == pytest.approx(0.254 + 100 * PACKET_US, abs=1e-4)
    assert set(answer["link_rates"].values()) == {1e9}
    note = "links of 1 Gbit/s, all alike: --link-rate replaces the network's own capacities"
    assert f"{note} (100 Gbit/s to 200 Gbit/s)" in json.dumps(answer["verdict"])


def test_links_of_the_catalogue_have_2_gbit_s(folder: Path) -> None:
    answer = document(folder, "ring:4", "--load", "0.1", "--duration", "1e-3")
    assert set(answer["link_rates"].values()) == {2e9}
    assert answer["verdict"]["notes"] == []


def test_delays_of_links_are_left_out_and_a_note_says_so(folder: Path) -> None:
    words = ("--load", "0.1", "--duration", "1e-3")
    plain = document(folder, "ring:4", *words)
    delayed = document(folder, "ring:4,delay_s=0.005", *words)
    assert delayed["mean_latency_s"] == plain["mean_latency_s"]
    (note,) = delayed["verdict"]["notes"]
    assert note.startswith("the links' own delays (up to 5 ms) are left out: every hop has")


@pytest.mark.parametrize(
    ("network", "rates"),
    [("gpu-machines:2,2", (1e6, 10e6)), ("ring:4,capacity_bps=1e9", (1e9, 1e9))],
)
def test_capacities_of_a_catalogue_network_that_are_chosen_are_used(
    network: str, rates: tuple[float, float], folder: Path
) -> None:
    found = document(folder, network, "--load", "0.1", "--duration", "0.1")["link_rates"]
    assert (found["slowest_bps"], found["fastest_bps"]) == rates


@pytest.mark.parametrize(
    "network, capacities",
    [
        ("ring:4", False),
        ("ring:4,capacity_bps=1e9", True),
        (load_network("ring:4"), False),
        (load_network("ring:4,capacity_bps=1e9"), True),
        (CLUSTER, True),
    ],
    ids=["name", "name with rates", "catalogue value", "value with rates", "document"],
)
def test_library_uses_the_rates_that_somebody_chose(network: Any, capacities: bool) -> None:
    plan = simulation_plan(network, 0.1, duration_s=1e-4)
    assert plan.experiment.parameters.capacities is capacities


@pytest.mark.parametrize(
    "name, own",
    [
        ("cluster.json", True),
        (Path("cluster.json"), True),
        ("lab.py:office", True),
        ("ring:4", False),
        ("ring", False),
        ("./ring", True),
    ],
)
def test_rates_of_files_are_the_users(
    name: Any, own: bool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A catalogue name wins over a file of the same name."""
    (folder / "ring").write_text(json.dumps(CLUSTER))
    monkeypatch.chdir(folder)
    assert has_own_rates(name, load_network("ring:4")) is own


def test_sender_offers_no_more_than_its_link_carries(folder: Path) -> None:
    done = in_process("simulate", "cluster.json", "--packet-rate", "7e6", cwd=folder)
    assert done.returncode == 2 and "6.10352e+06 packets a second" in done.stderr
