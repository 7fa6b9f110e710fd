"""Chakra traces: three messages in a chain against times computed by hand, wire and JSON form alike, and what is
refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from testbed_chakra.starts import trace_starts
from testbed_chakra.trace_files import TraceNode, read_rank

from testbed.cli import main
from testbed.errors import InputError
from testbed.interconnect.network_model import zero_load_ticks
from testbed.interconnect.parameters import TICKS_PER_S, SimulationParameters
from topologies import load_network

PARAMETERS = SimulationParameters(model="thesis", packet_bytes=2048, buffer_bytes=8192)


def varint(value: int) -> bytes:
    found = b""
    while value > 0x7F:
        found, value = found + bytes([value & 0x7F | 0x80]), value >> 7
    return found + bytes([value])


def sized(field: int, content: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(content)) + content


def whole(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def wire(nodes: list[dict[str, Any]], *, packed: bool = True) -> bytes:
    """As protobuf writes it: the metadata first, ids of dependencies packed or one by one."""
    messages = [sized(1, b"0.0.4")]
    for node in nodes:
        deps = (
            sized(5, b"".join(map(varint, node["after"])))
            if packed
            else b"".join(whole(5, n) for n in node["after"])
        )
        attributes = b"".join(
            sized(10, sized(1, name.encode()) + whole(9, value))
            for name, value in node.get("attr", {}).items()
        )
        messages.append(
            whole(1, node["id"])
            + sized(2, b"n")
            + whole(3, node["type"])
            + deps
            + whole(7, node.get("us", 0))
            + attributes
        )
    return b"".join(varint(len(message)) + message for message in messages)


def in_json(nodes: list[dict[str, Any]]) -> bytes:
    """As protobuf's JSON writes it: numbers of 64 bits as strings."""
    names = {4: "COMP_NODE", 5: "COMM_SEND_NODE", 6: "COMM_RECV_NODE"}
    objects: list[dict[str, Any]] = [{"version": "0.0.4"}]
    for node in nodes:
        attributes = [{"name": k, "int64Val": str(v)} for k, v in node.get("attr", {}).items()]
        objects.append(
            {
                "id": str(node["id"]),
                "type": names[node["type"]],
                "dataDeps": [str(n) for n in node["after"]],
            }
            | {"durationMicros": str(node.get("us", 0)), "attr": attributes}
        )
    return "\n".join(json.dumps(one, indent=1) for one in objects).encode()


def ends(source: int, sink: int) -> dict[str, int]:
    return {"comm_src": source, "comm_dst": sink, "comm_size": 2048, "comm_tag": 7}


CHAIN = [
    [{"id": 1, "type": 5, "after": [], "attr": ends(0, 1)}],
    [
        {"id": 1, "type": 6, "after": [], "attr": ends(0, 1)},
        {"id": 2, "type": 4, "after": [1], "us": 100},
        {"id": 3, "type": 5, "after": [2], "attr": ends(1, 2)},
    ],
    [
        {"id": 9, "type": 6, "after": [], "attr": ends(1, 2)},
        {"id": 10, "type": 5, "after": [9], "attr": ends(2, 0)},
    ],
    [],
]
"""0 sends to 1, which computes 100 us and sends to 2, which answers to 0 (receive below)."""
CHAIN[0].append({"id": 2, "type": 6, "after": [1], "attr": ends(2, 0)})


def read(form: Any) -> list[tuple[TraceNode, ...]]:
    return [read_rank(form(nodes), rank, f"rank {rank}") for rank, nodes in enumerate(CHAIN)]


def test_both_forms_say_the_same() -> None:
    assert read(wire) == read(in_json) == read(lambda nodes: wire(nodes, packed=False))


def test_a_chain_starts_when_by_hand_it_must() -> None:
    """8.192 us for 2048 bytes at 2 Gbit/s and 0.127 us a router, no other packet in the way; ring:4's hosts 0, 1, 2 are
    one, one and two switches apart."""
    network = load_network("ring:4")
    found = trace_starts(read(wire), network, PARAMETERS)
    near, far = (zero_load_ticks(PARAMETERS, routers, 2048) / TICKS_PER_S for routers in (2, 3))
    assert (near, far) == pytest.approx((8.446e-6, 8.573e-6))
    assert found.starts_s == pytest.approx(
        {(0, 1): 0.0, (1, 3): near + 1e-4, (2, 10): 2 * near + 1e-4}, abs=2e-11
    )
    assert found.finished_s == pytest.approx(2 * near + 1e-4 + far, abs=3e-11)


def test_a_message_waits_for_the_last_of_those_it_depends_on_in_contention() -> None:
    """Ranks 1 and 3 send to 0 from either side at once, over its one cable: the second comes a packet later, and 0
    answers then."""
    both = [
        [
            {"id": 1, "type": 6, "after": [], "attr": ends(1, 0)},
            {"id": 2, "type": 6, "after": [], "attr": ends(3, 0)},
            {"id": 3, "type": 5, "after": [1, 2], "attr": ends(0, 2)},
        ],
        [{"id": 1, "type": 5, "after": [], "attr": ends(1, 0)}],
        [{"id": 1, "type": 6, "after": [], "attr": ends(0, 2)}],
        [{"id": 1, "type": 5, "after": [], "attr": ends(3, 0)}],
    ]
    trace = [read_rank(wire(own), k, "") for k, own in enumerate(both)]
    found = trace_starts(trace, load_network("ring:4"), PARAMETERS)
    assert found.starts_s[0, 3] == pytest.approx(8.446e-6 + 8.192e-6, rel=0.02)
    assert found.turns >= 2


def spoilt(rank: int, place: int, **change: Any) -> list[list[dict[str, Any]]]:
    return [
        [node | change if (k, n) == (rank, place) else node for n, node in enumerate(own)]
        for k, own in enumerate(CHAIN)
    ]


@pytest.mark.parametrize(
    ("trace", "says"),
    [
        (spoilt(1, 0, type=4), "1 sends and 0 receives"),
        (spoilt(1, 0, after=[3]), "waits for itself"),
        (spoilt(1, 1, after=[8]), "depends on 8"),
        (spoilt(0, 0, type=7), "collective"),
        (spoilt(0, 0, attr=ends(3, 1)), "one end rank 0"),
        ([[], []], "no rank sends"),
        ([[]] * 5, "5 ranks"),
    ],
)
def test_what_is_no_trace_is_refused(trace: list[list[dict[str, Any]]], says: str) -> None:
    with pytest.raises(InputError, match=says):
        trace_starts(
            [read_rank(wire(own), k, f"rank {k}") for k, own in enumerate(trace)],
            load_network("ring:4"),
            PARAMETERS,
        )


def test_a_file_cut_short_is_refused() -> None:
    with pytest.raises(InputError, match="ends within a message"):
        read_rank(wire(CHAIN[0])[:-3], 0, "x.0.et")


@pytest.mark.parametrize(("form", "suffix"), [(wire, "et"), (in_json, "et.json")])
def test_the_command_runs_a_trace(
    form: Any, suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for rank, nodes in enumerate(CHAIN):
        (tmp_path / f"x.{rank}.{suffix}").write_bytes(form(nodes))
    words = [
        "simulate",
        "ring:4",
        "--model",
        "thesis",
        "--buffer-size",
        "8192",
        "--results",
        str(tmp_path / "results"),
    ]
    assert main([*words, "--traffic", str(tmp_path / f"x.{suffix}"), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["received"] == document["sent"] == 3
    assert document["chakra"]["messages"] == 3 and document["chakra"]["finished_s"] > 1e-4
    assert main([*words, "--traffic", str(tmp_path / f"y.{suffix}")]) == 2
