"""Chakra traces: times of messages computed by hand, in the protobuf and the JSON form.

Invalid traces are refused.
"""

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
    result = b""
    while value > 0x7F:
        result += bytes([value & 0x7F | 0x80])
        value >>= 7
    return result + bytes([value])


def bytes_field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def integer_field(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value)


def wire(nodes: list[dict[str, Any]], *, packed: bool = True) -> bytes:
    """Write a file in protobuf's wire format.

    Args:
        nodes: The nodes.
        packed: Whether the ids of dependencies are packed into one field.
    """
    messages = [bytes_field(1, b"0.0.4")]
    for node in nodes:
        message = integer_field(1, node["id"]) + bytes_field(2, b"n")
        message += integer_field(3, node["type"])
        if packed:
            message += bytes_field(5, b"".join(map(varint, node["after"])))
        else:
            message += b"".join(integer_field(5, node_id) for node_id in node["after"])
        message += integer_field(7, node.get("us", 0))
        for name, value in node.get("attr", {}).items():
            attribute = bytes_field(1, name.encode()) + integer_field(9, value)
            message += bytes_field(10, attribute)
        messages.append(message)
    return b"".join(varint(len(message)) + message for message in messages)


def in_json(nodes: list[dict[str, Any]]) -> bytes:
    """Write a file in protobuf's JSON format, with numbers of 64 bits as strings."""
    names = {4: "COMP_NODE", 5: "COMM_SEND_NODE", 6: "COMM_RECV_NODE"}
    objects: list[dict[str, Any]] = [{"version": "0.0.4"}]
    for node in nodes:
        attributes = []
        for name, value in node.get("attr", {}).items():
            attributes.append({"name": name, "int64Val": str(value)})
        objects.append(
            {
                "id": str(node["id"]),
                "type": names[node["type"]],
                "dataDeps": [str(node_id) for node_id in node["after"]],
                "durationMicros": str(node.get("us", 0)),
                "attr": attributes,
            }
        )
    return "\n".join(json.dumps(document, indent=1) for document in objects).encode()


def ends(source: int, sink: int) -> dict[str, int]:
    return {"comm_src": source, "comm_dst": sink, "comm_size": 2048, "comm_tag": 7}


# Rank 0 sends to rank 1, which computes for 100 us and sends to rank 2, which answers to rank 0.
CHAIN = [
    [
        {"id": 1, "type": 5, "after": [], "attr": ends(0, 1)},
        {"id": 2, "type": 6, "after": [1], "attr": ends(2, 0)},
    ],
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


def read(form: Any) -> list[tuple[TraceNode, ...]]:
    return [read_rank(form(nodes), rank, f"rank {rank}") for rank, nodes in enumerate(CHAIN)]


def test_wire_and_json_form_have_the_same_nodes() -> None:
    assert read(wire) == read(in_json) == read(lambda nodes: wire(nodes, packed=False))


def test_trace_starts_of_chain_are_those_computed_by_hand() -> None:
    """A message takes 8.192 us for 2048 bytes at 2 Gbit/s, and 0.127 us per router.

    No other packet delays it. On ring:4, the path from host 0 to 1 and from 1 to 2 has two routers,
    and that from 2 to 0 has three.
    """
    network = load_network("ring:4")
    run = trace_starts(read(wire), network, PARAMETERS)
    near, far = (zero_load_ticks(PARAMETERS, routers, 2048) / TICKS_PER_S for routers in (2, 3))
    assert (near, far) == pytest.approx((8.446e-6, 8.573e-6))
    assert run.starts_s == pytest.approx(
        {(0, 1): 0.0, (1, 3): near + 1e-4, (2, 10): 2 * near + 1e-4}, abs=2e-11
    )
    assert run.finished_s == pytest.approx(2 * near + 1e-4 + far, abs=3e-11)


def test_trace_starts_waits_for_last_dependency_in_contention() -> None:
    """Ranks 1 and 3 send to rank 0 at the same time, from either side and over its one cable.

    The second message arrives one packet later, and rank 0 answers then.
    """
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
    trace = [read_rank(wire(nodes), rank, "") for rank, nodes in enumerate(both)]
    run = trace_starts(trace, load_network("ring:4"), PARAMETERS)
    assert run.starts_s[0, 3] == pytest.approx(8.446e-6 + 8.192e-6, rel=0.02)
    assert run.turns >= 2


def changed_chain(rank: int, index: int, **change: Any) -> list[list[dict[str, Any]]]:
    """Return the chain with changed fields of one node."""
    chain = [list(nodes) for nodes in CHAIN]
    chain[rank][index] = chain[rank][index] | change
    return chain


@pytest.mark.parametrize(
    ("trace", "message"),
    [
        (changed_chain(1, 0, type=4), "1 sends and 0 receives"),
        (changed_chain(1, 0, after=[3]), "waits for itself"),
        (changed_chain(1, 1, after=[8]), "depends on 8"),
        (changed_chain(0, 0, type=7), "collective"),
        (changed_chain(0, 0, attr=ends(3, 1)), "one end rank 0"),
        ([[], []], "no rank sends"),
        ([[]] * 5, "5 ranks"),
    ],
)
def test_invalid_trace_is_refused(trace: list[list[dict[str, Any]]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ranks = [read_rank(wire(nodes), rank, f"rank {rank}") for rank, nodes in enumerate(trace)]
        trace_starts(ranks, load_network("ring:4"), PARAMETERS)


def test_read_rank_refuses_truncated_file() -> None:
    with pytest.raises(InputError, match="ends within a message"):
        read_rank(wire(CHAIN[0])[:-3], 0, "x.0.et")


@pytest.mark.parametrize(("form", "suffix"), [(wire, "et"), (in_json, "et.json")])
def test_simulate_command_runs_trace(
    form: Any, suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for rank, nodes in enumerate(CHAIN):
        (tmp_path / f"x.{rank}.{suffix}").write_bytes(form(nodes))
    argv = [
        "simulate",
        "ring:4",
        "--model",
        "thesis",
        "--buffer-size",
        "8192",
        "--results",
        str(tmp_path / "results"),
    ]
    assert main([*argv, "--traffic", str(tmp_path / f"x.{suffix}"), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["received"] == document["sent"] == 3
    assert document["chakra"]["messages"] == 3 and document["chakra"]["finished_s"] > 1e-4
    assert main([*argv, "--traffic", str(tmp_path / f"y.{suffix}")]) == 2
