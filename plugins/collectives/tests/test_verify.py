"""Verification of schedules in each format: valid files pass, and each kind of error is reported."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import testbed_collectives.checker as checker_module
from testbed_collectives.checker import Move, check_moves

from testbed.cli import main
from topologies import load_network

RING = {
    "nodes": [{"id": str(n), "kind": "switch"} for n in range(4)],
    "directed": True,
    "multigraph": False,
    "graph": {},
}
RING_FILE = {
    **RING,
    "links": [
        {"source": str(a), "target": str((a + s) % 4), "capacity_bps": 8e9}
        for a in range(4)
        for s in (1, 3)
    ],
}
"""A ring of four GPUs that forward chunks. Each link carries 1 GB/s in each direction."""


def teccl() -> dict[str, Any]:
    """Return an all-to-all exchange on the ring in the JSON of TE-CCL, with chunks of 1 GB.

    Neighbours receive their chunks in epoch 0. The chunk for the opposite node takes both
    directions of the ring, one half each, in epochs 1 and 2.
    """
    paths: dict[str, Any] = {}
    for a in range(4):
        for step in (1, 3):
            b = (a + step) % 4
            paths[f"Demand at {b} for chunk 0 from {a} met by epoch 0"] = [
                [[0, f"{a}->{b} with volume 1.0 in epoch 0"]]
            ]
        far = (a + 2) % 4
        paths[f"Demand at {far} for chunk 0 from {a} met by epoch 2"] = [
            [
                [1, f"{a}->{(a + s) % 4} with volume 0.5 in epoch 1"],
                [2, f"{(a + s) % 4}->{far} with volume 0.5 in epoch 2"],
            ]
            for s in (1, 3)
        ]
    return {
        "1-Epoch_Duration": 1.0, "3-Epochs_Required": 3, "4-Collective_Finish_Time": 3.0,
        "5-Algo_Bandwidth": 4 / 3, "8-Chunk paths": paths,
    }  # fmt: skip


def relayed() -> str:
    """Return an algorithm of MSCCL for three ranks, whose steps have two chunks each.

    The chunks from rank 0 to rank 2 pass through the scratch buffer of rank 1.
    """

    def gpu(rank: int, scratch: int, blocks: list[tuple[int, int, list[str]]]) -> str:
        text = "".join(
            f'\n<tb id="{n}" send="{send}" recv="{recv}" chan="0">'
            + "".join("\n" + step for step in steps)
            + "</tb>"
            for n, (send, recv, steps) in enumerate(blocks)
        )
        return f'\n<gpu id="{rank}" i_chunks="6" o_chunks="6" s_chunks="{scratch}">{text}</gpu>'

    def step(
        n: int,
        kind: str,
        source: str,
        sink: str,
        waits: tuple[int, int] = (-1, -1),
        marked: int = 0,
    ) -> str:
        buffers = f'srcbuf="{source[0]}" srcoff="{source[1]}" dstbuf="{sink[0]}" dstoff="{sink[1]}"'
        after = f'depid="{waits[0]}" deps="{waits[1]}" hasdep="{marked}"'
        return f'<step s="{n}" type="{kind}" {buffers} cnt="2" {after}/>'

    own = [(-1, -1, [step(0, "cpy", f"i{2 * r}", f"o{2 * r}")]) for r in range(3)]
    receive_2, receive_4 = [step(0, "r", "i0", "o2")], [step(0, "r", "i0", "o4")]
    sends = [step(0, "s", "i2", "o0"), step(1, "s", "i4", "s0")]
    first = gpu(0, 0, [(1, -1, sends), (-1, 1, receive_2), (-1, 2, receive_4), own[0]])
    second = gpu(1, 2, [
        (-1, 0, [step(0, "r", "i2", "o0"), step(1, "r", "i4", "s0", marked=1)]), (0, -1, [step(0, "s", "i0", "o2")]),
        (2, -1, [step(0, "s", "s0", "o0", (0, 1)), step(1, "s", "i4", "o2")]), (-1, 2, receive_4), own[1],
    ])  # fmt: skip
    last = [step(0, "r", "s0", "o0"), step(1, "r", "i4", "o2")]
    third = gpu(
        2,
        0,
        [
            (-1, 1, last),
            (0, -1, [step(0, "s", "i0", "o4")]),
            (1, -1, [step(0, "s", "i2", "o4")]),
            own[2],
        ],
    )
    head = '<algo name="relayed" proto="Simple" nchannels="1" nchunksperloop="6" ngpus="3" coll="alltoall" inplace="0">'
    return head + first + second + third + "\n</algo>\n"


@pytest.fixture
def ring(tmp_path: Path) -> str:
    file = tmp_path / "ring.json"
    file.write_text(json.dumps(RING_FILE))
    return str(file)


def verified(
    capsys: pytest.CaptureFixture[str], file: Path, content: str, network: str
) -> tuple[int, dict[str, Any], str]:
    file.write_text(content)
    capsys.readouterr()
    code = main(["schedule", "--verify", str(file), "--network", network, "--json"])
    out, err = capsys.readouterr()
    return code, json.loads(out) if out else {}, err


def test_a_schedule_of_te_ccl_holds(
    tmp_path: Path, ring: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found, _ = verified(capsys, tmp_path / "t.json", json.dumps(teccl(), indent=1), ring)
    assert (code, found["valid"], found["chunks"], found["format"]) == (0, True, 12, "TE-CCL")
    assert (found["length"], found["flow_bound"]) == (pytest.approx(3), pytest.approx(2))


def replaced(old: str, new: str) -> Callable[[str], str]:
    def spoil(text: str) -> str:
        assert old in text
        return text.replace(old, new, 1)

    return spoil


@pytest.mark.parametrize(
    ("spoil", "kind"),
    [
        (replaced("0->1 with volume 0.5 in epoch 1", "0->1 with volume 0.5 in epoch 2"), "order"),
        (
            replaced("1->2 with volume 0.5 in epoch 2", "1->2 with volume 0.4 in epoch 2"),
            "delivery",
        ),
        (
            replaced("0->1 with volume 1.0 in epoch 0", "0->1 with volume 1.0 in epoch 1"),
            "capacity",
        ),
        (
            replaced(
                "0->1 with volume 1.0 in epoch 0", "0->1 with volume 1.0 in epoch 0 via switches 2"
            ),
            "link",
        ),
        (
            replaced("0->1 with volume 1.0 in epoch 0", "0->3 with volume 1.0 in epoch 0"),
            "delivery",
        ),
        (replaced('"1-Epoch_Duration": 1.0', '"1-Epoch_Duration": 0.9'), "capacity"),
    ],
)
def test_a_spoilt_schedule_of_te_ccl_is_told_with_its_line(
    spoil: Callable[[str], str],
    kind: str,
    tmp_path: Path,
    ring: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = spoil(json.dumps(teccl(), indent=1))
    code, found, _ = verified(capsys, tmp_path / "t.json", text, ring)
    assert code == 1 and not found["valid"] and kind in found["kinds"]
    first = next(one for one in found["violations"] if one["kind"] == kind)
    assert kind == "delivery" or "->" in text.splitlines()[first["line"] - 1]


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda t: t[: len(t) // 2], "no JSON"),
        (replaced("0->1 with", "0->9 with"), "node 9"),
        (replaced("0->1 with volume 1.0", "0->1 with volume much"), "line"),
        (replaced('"1-Epoch_Duration": 1.0', '"1-Epoch_Duration": -1'), "above 0"),
        (replaced("Demand at", "Wish at"), "line 7"),
        (replaced('"8-Chunk paths"', '"8-Nothing"'), "chunk paths"),
    ],
)
def test_te_ccl_reader_refuses_other_files_in_one_line(
    spoil: Callable[[str], str],
    says: str,
    tmp_path: Path,
    ring: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, found, err = verified(
        capsys, tmp_path / "t.json", spoil(json.dumps(teccl(), indent=1)), ring
    )
    assert (code, found) == (2, {}) and says in err and len(err.splitlines()) == 1


def test_an_algorithm_with_scratch_counts_and_relays_holds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found, err = verified(capsys, tmp_path / "a.xml", relayed(), "ring:3")
    assert (code, found.get("valid"), err) == (0, True, ""), (found, err)
    assert found["chunks"] == 18 and found["length"] >= found["flow_bound"] == pytest.approx(4)


@pytest.mark.parametrize(
    ("spoil", "code", "says"),
    [
        (replaced('type="s" srcbuf="s"', 'type="s" srcbuf="i"'), 1, "delivery"),
        (replaced('depid="0" deps="1"', 'depid="-1" deps="-1"'), 1, "nothing is yet"),
        (replaced('type="s"', 'type="rrcs"'), 2, "line 4"),
        (replaced('cnt="2"', 'cnt="9"'), 2, "line 4"),
        (replaced('srcbuf="i"', 'srcbuf="x"'), 2, "line 4"),
        (replaced('recv="1"', 'recv="2"'), 1, "blocked"),
        (lambda t: t[:-20], 2, "no XML"),
        (lambda t: '<!DOCTYPE x [<!ENTITY a "b">]>' + t, 2, "declares"),
    ],
)  # fmt: skip
def test_a_spoilt_algorithm_is_told(
    spoil: Callable[[str], str],
    code: int,
    says: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    got, found, err = verified(capsys, tmp_path / "a.xml", spoil(relayed()), "ring:3")
    assert got == code and says in err + str(found), (got, err, found)
    assert code != 2 or len(err.splitlines()) == 1


def test_a_network_with_too_few_end_points_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert verified(capsys, tmp_path / "a.xml", relayed(), "crossbar:1")[0] == 2


def test_written_schedule_verifies_and_spoilt_ones_do_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = tmp_path / "w.json"
    words = [
        "schedule",
        "bipartite:2,2",
        "--pattern",
        "all-switches",
        "--parts",
        "2",
        "--output",
        str(written),
    ]
    assert main(words) == 0
    document = json.loads(written.read_text())
    code, found, _ = verified(capsys, tmp_path / "x.json", json.dumps(document), "bipartite:2,2")
    assert (code, found["over_flow_bound"]) == (0, pytest.approx(1))
    merged = {
        **document,
        "frames": [document["frames"][0] + document["frames"][1], *document["frames"][2:]],
    }
    assert verified(capsys, tmp_path / "x.json", json.dumps(merged), "bipartite:2,2")[1][
        "kinds"
    ].keys() == {"capacity"}
    forgotten = {**document, "frames": document["frames"][1:]}
    assert (
        "delivery"
        in verified(capsys, tmp_path / "x.json", json.dumps(forgotten), "bipartite:2,2")[1]["kinds"]
    )
    assert verified(capsys, tmp_path / "x.json", json.dumps(document), "ring:3")[0] == 2


def test_an_algorithm_that_schedule_wrote_holds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "w.xml"
    assert main(["schedule", "torus:3x3", "--output", str(file)]) == 0
    assert 'minBytes="0" maxBytes="0"' in file.read_text()
    code, found, _ = verified(capsys, tmp_path / "x.xml", file.read_text(), "torus:3x3")
    assert code == 0 and found["over_flow_bound"] >= 1
    assert main(["schedule", "--verify", str(file), "--network", "torus:3x3"]) == 0
    assert "verdict            holds" in capsys.readouterr().out


def test_the_referee_imports_no_scheduler_and_no_reader() -> None:
    tree = ast.parse(Path(str(checker_module.__file__)).read_text())
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported == {
        "__future__",
        "collections",
        "collections.abc",
        "dataclasses",
        "topologies.network",
    }


def test_half_a_chunk_cannot_be_sent_on_whole() -> None:
    network = load_network("ring:3")
    capacity = {(k.source, k.target): 1.0 for k in network.links}
    moves = [
        Move(chunk=0, nodes=("s0", "s1"), slot=0, volume=0.5),
        Move(chunk=0, nodes=("s1", "s2"), slot=1),
    ]
    assert [one.kind for one in check_moves({0: ("s0", "s2")}, moves, capacity)] == ["order"]
