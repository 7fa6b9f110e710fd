"""No option is dropped in silence: what has no meaning beside the other options is refused, by name, before anything
runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from testbed.cli import main
from testbed.faults.fault import injection_check

SWISS = ("swiss-t1", "--from", "s1", "--to", "s6")
SFIO = ("swiss-t1", "--compute-nodes", "4", "--io-nodes", "4")
REFUSED = [
    (("stream", *SWISS, "--faults", "FILE", "--fault-kind", "blackhole"), "--fault-kind"),
    (("stream", *SWISS, "--faults", "none", "--fault-kind", "down"), "--fault-kind"),
    (("stream", *SWISS, "--faults", "none", "--max-faults", "3"), "--max-faults"),
    (("stream", *SWISS, "--faults", "none", "--one-way"), "--one-way"),
    (
        ("stream", *SWISS, "--faults", "poisson:rate=1,lasts=1", "--loss-precision", "2"),
        "--loss-precision",
    ),
    (("stream", *SWISS, "--probe-link", "s1->s2", "--faults", "none"), "--probe-link"),
    (("stream", *SWISS, "--probe-link", "s1->s2"), "--probe-link"),
    (("stream", *SWISS, "--probe-blocks", "1000"), "--probe-blocks"),
    (("stream", *SWISS, "--probe-block-size", "--max-faults", "3"), "--max-faults"),
    (("stream", *SWISS, "--fault-loss", "0.5"), "--fault-loss"),
    (("stream", *SWISS, "--routing", "ft-drb", "--m", "20"), "--m"),
    (("stream", *SWISS, "--routing", "recomputed", "--max-paths", "4"), "--max-paths"),
    (("stream", *SWISS, "--thl", "2"), "--thl"),
    (("stream", *SWISS, "--routing", "ecmp", "--layers", "2"), "--layers"),
    (("stream", *SWISS, "--mtu", "1500"), "--mtu"),
    (("stream", *SWISS, "--pcap", "s1->s2=x.pcap"), "--pcap"),
    (("route", *SWISS, "--routing", "ecmp", "--layers", "2"), "--layers"),
    (("ror", *SWISS, "--large-blocks", "--m", "20"), "--m"),
    (("demands", "swiss-t1", "--matrix", "own", "--end-points", "hosts"), "--end-points"),
    (
        (
            "mobility",
            "manet:nodes=9",
            "manet:nodes=9",
            "--from",
            "n0",
            "--to",
            "n1",
            "--frames",
            "3",
        ),
        "--frames",
    ),
    (("schedule", "--traffic", "FILE", "--pattern", "FILE"), "--pattern"),
    (("schedule", "--verify", "FILE", "--scheduling", "exact"), "--scheduling"),
    (("schedule", "ring:4", "--verify", "FILE", "--network", "ring:4"), "--verify"),
    (("schedule", "--verify", "FILE", "--network", "ring:4", "--output", "FILE"), "--verify"),
    (("schedule", "--verify", "FILE", "--network", "ring:4", "--wormhole"), "--verify"),
    (
        ("bulk", "swiss-t1", "--no-comparison", "--switching", "packet", "--inject-packets", "3"),
        "--inject-packets",
    ),
    (("bulk", "swiss-t1", "--save-messages", "DIR"), "--save-messages"),
    (("sfio", *SFIO, "--access-block-size", "1000"), "--access-block-size"),
    (("sfio", *SFIO, "--kill", "r2@1"), "--kill"),
    (
        (
            "run",
            "crossbar:4",
            "--compute-nodes",
            "2",
            "--io-nodes",
            "2",
            "--machines",
            "2",
            "--mpi",
            "--",
            "true",
        ),
        "--mpi",
    ),
    (("up", "ring:3", "--machine-placement", "x.json"), "--machine-placement"),
    (("sfio", *SFIO, "--machines", "2", "--kill", "r2@1"), "--kill"),
    (("sfio", *SFIO, "--machines", "2", "--scheduling", "liquid"), "--scheduling"),
    (("sfio", *SFIO, "--machines", "2", "--switching", "circuit"), "--switching"),
    (("sfio", *SFIO, "--machine-placement", "FILE"), "--machine-placement"),
    (("campaign", "thousands", "--workers", "2", "--dask", "tcp://x:1"), "--workers"),
    (("campaign", "--list", "--resume"), "--resume"),
    (("campaign", "thousands", "--tls-ca", "FILE"), "--tls-ca"),
    (("replicate", "--without-tls"), "--without-tls"),
    (("up", "ring:3", "--machines", "2", "--tls-key", "FILE"), "--tls-key"),
    (("replicate", "--report-only", "--max-hours", "1"), "--max-hours"),
    (("wavelengths", "optical-cloud", "--packets-per-path", "20"), "--packets-per-path"),
    (("simulate", "torus:4x4", "--traffic", "FILE", "--load", "0.1"), "--load"),
    (("simulate", "torus:4x4", "--burst-length", "1"), "--burst-length"),
    (("simulate", "torus:4x4", "--synchronised"), "--synchronised"),
    (("run", *SFIO, "--subfile-dir", "DIR", "--results", "DIR", "--", "true"), "--results"),
]
"""Contradictions, and the option that each names; values are often the default, which is no excuse."""
FABRIC = {"stream", "bulk", "sfio", "mobility"}


@pytest.mark.parametrize(("words", "named"), REFUSED, ids=[" ".join(w) for w, _ in REFUSED])
def test_an_option_without_a_meaning_is_refused_by_name(
    words: tuple[str, ...],
    named: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.execv", lambda *_: pytest.fail("the command went on"))
    fabric = ("--fabric", "simulator") if words[0] in FABRIC else ()
    assert main([*words, *fabric]) == 2
    said = capsys.readouterr()
    assert said.err.startswith(f"testbed: {named}") and said.err.count("\n") == 1 and not said.out


def test_an_option_that_may_stand_once_is_refused_twice(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (
        ["up", "ring:3", "--mtu", "1500"],
        ["route", "ring:4", "--layers", "1"],
        ["campaign", "quick", "--workers", "2"],
    ):
        assert main([*words, *words[2:]]) == 2
        assert f"{words[2]} stands there already; give it once" in capsys.readouterr().err


@pytest.mark.parametrize("other", ["--calibrate", "--strict"])
def test_doctor_does_one_thing(other: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--compile", other]) == 2
    assert f"{other}: not allowed with argument --compile" in capsys.readouterr().err


def test_a_fault_after_the_stream_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "faults.json"
    file.write_text(json.dumps([{"link": "s1->s2", "start_s": 30, "stop_s": 31}]))
    words = ["stream", *SWISS, "--fabric", "simulator", "--faults", str(file), "--duration", "3"]
    assert main(words) == 2
    assert "begins at 30 s, and the stream ends after 3 s" in capsys.readouterr().err


def test_a_fault_that_never_came_is_not_a_pass(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not injection_check((), 1.0)
    late, early = injection_check((("r2", 300.0),), 0.5), injection_check((("r2", 0.3),), 0.5)
    assert [c.outcome for c in (*late, *early)] == ["cannot-tell", "holds"]
    assert "over after 0.50 s, before r2 at 300 s" in late[0].detail
    file = tmp_path / "faults.json"
    file.write_text(json.dumps([{"link": "s1->s2", "start_s": 3000, "stop_s": 3001}]))
    run = [
        "--fabric",
        "simulator",
        "--faults",
        str(file),
        "--results",
        str(tmp_path / "results"),
        "--json",
    ]
    for words in (
        ["bulk", "swiss-t1", "--message-size", "10kB"],
        ["download", *SWISS, "--file-size", "100kB"],
    ):
        assert main([*words, *run]) == 5
        verdict = json.loads(capsys.readouterr().out)["verdict"]
        assert not verdict["passed"] and any(
            name.startswith("every fault came") for name in verdict["failed"]
        )
