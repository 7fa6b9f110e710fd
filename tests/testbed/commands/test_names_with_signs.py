"""Options take nodes, pairs, links and faults with the signs of the grammar in their names, and say which name is
none."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from testbed.bulk.workload import bulk_plan
from testbed.cli import main
from testbed.commands.network.exec import resolve_host
from testbed.download.workload import download_plan
from testbed.errors import InputError
from testbed.faults.reading import read_faults
from testbed.model.naming.names import parse_captures
from testbed.scheduling.traffic.patterns import read_pattern
from testbed.simulation.options import SimulationOptions
from testbed.simulation.planning import split_faults
from topologies import load_network


def _ring(folder: Path, *ids: str) -> str:
    file = folder / "net.json"
    links = [{"source": a, "target": b} for a, b in zip(ids, [*ids[1:], ids[0]], strict=True)]
    file.write_text(json.dumps({"nodes": [{"id": name} for name in ids], "links": links}))
    return str(file)


@pytest.mark.parametrize(
    ("ids", "text", "ends"),
    [
        (("of:01", "of:02", "of:03"), "of:01:of:03", ("of:01", "of:03")),
        (("::1", "fe80::2", "a"), "::1:fe80::2", ("::1", "fe80::2")),
        (("a->b", "c,d", "e#1", "f@2"), "a->b:e#1", ("a->b", "e#1")),
        (("São Paulo", "Zürich HB", "東京"), " São Paulo : 東京", ("São Paulo", "東京")),
        (("a", "b", "a:b"), '"a":"b"', ("a", "b")),
    ],
)
def test_a_further_flow(
    ids: tuple[str, ...],
    text: str,
    ends: tuple[str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["route", _ring(tmp_path, *ids), f"--flow={text}", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["source"], document["sink"]) == ends


def test_a_stream_with_faults_on_such_links(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network = _ring(tmp_path, "a->b", "c,d", "e#1", "f@2")
    words = [
        "stream",
        network,
        "--from",
        "a->b",
        "--to",
        "e#1",
        "--fabric",
        "simulator",
        "--json",
        "--results",
        str(tmp_path),
    ]
    assert main([*words, "--faults", "a->b->c,d@1-2, f@2->a->b@3-3.5"]) == 0
    found = json.loads(capsys.readouterr().out)["per_fault"]
    assert [fault["link"] for fault in found] == ['"a->b"->c,d', 'f@2->"a->b"']
    labels = ",".join(f"{fault['link']}@1-2" for fault in found)
    assert [fault.ends for fault in read_faults(labels, load_network(network))] == [
        ("a->b", "c,d"),
        ("f@2", "a->b"),
    ]


def test_recordings_patterns_and_traces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    network = load_network(_ring(tmp_path, "a=b", "c d/e", "trace:x", "y,z"))
    assert parse_captures(["a=b->c d/e=x=1.pcap"], network, named=True) == {
        ("a=b", "c d/e", 0): Path("x=1.pcap")
    }
    assert parse_captures(["a=b -> c d/e"], network, named=False) == {
        ("a=b", "c d/e", 0): Path("a-b---c-d-e.pcap")
    }
    assert read_pattern("trace:x:y,z,a=b:c d/e", network) == (("trace:x", "y,z"), ("a=b", "c d/e"))
    assert split_faults(SimulationOptions("ring:4", faults="y,z-a=b@1-2"), network) == (
        "y,z-a=b@1-2",
        None,
    )


def test_a_text_longer_than_a_file_name_is_read(tmp_path: Path) -> None:
    network = load_network(_ring(tmp_path, *(f"node{i}" for i in range(30))))
    pairs = [(f"node{i}", f"node{j}") for i in range(30) for j in range(30) if i != j]
    assert read_pattern(",".join(map(":".join, pairs)), network) == tuple(pairs)
    assert len(read_faults(",".join(f"node{i}->node{i + 1}@1-2" for i in range(29)), network)) == 29


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--flow", "a:b:c"), 'can be read in two ways; write "a":"b:c" or "a:b":"c"'),
        (
            ("--flow", "a:b:x"),
            "no two nodes of 'net' with a colon between; testbed topology show --nodes lists them",
        ),
        (("--flow", "a"), "write A:B"),
    ],
)
def test_unknown_and_ambiguous_names(
    words: tuple[str, ...], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["route", _ring(tmp_path, "a", "b", "c", "a:b", "b:c"), *words]) == 2
    err = capsys.readouterr().err
    assert says in err and err.count("\n") == 1


def test_a_recording_that_can_be_of_two_links(tmp_path: Path) -> None:
    file = tmp_path / "two.json"
    links = [{"source": "a", "target": "b"}, {"source": "a", "target": "b=c"}]
    file.write_text(
        json.dumps({"nodes": [{"id": name} for name in ("a", "b", "b=c")], "links": links})
    )
    with pytest.raises(InputError, match='write "a"->"b" or "a"->"b=c"'):
        parse_captures(["a->b=c"], load_network(str(file)), named=False)


@pytest.mark.parametrize("words", ["none", "[]", " none ", "[ ]"])
def test_no_faults(words: str) -> None:
    network = load_network("ring:4")
    assert read_faults(words, network) == ()
    assert split_faults(SimulationOptions("ring:4", faults=words), network) == (None, None)
    assert download_plan(network, "s0", "s2", faults=words, file_bytes=10_000).faults == ()
    assert bulk_plan("crossbar:3", faults=words).faults == ()


@pytest.mark.parametrize(
    ("source", "sink"),
    [(" São Paulo ", '"東京"'), ('"São Paulo"', " 東京"), (' "São Paulo" ', "東京")],
)
@pytest.mark.parametrize(
    "command",
    ["route NET --from {} --to {}", "route NET --flow {}:{}", "ror NET --from {} --to {}"],
)
def test_ends_with_spaces_or_in_quotes(
    command: str, source: str, sink: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network = _ring(tmp_path, "São Paulo", "Zürich HB", "東京")
    ends = iter((source, sink))
    words = [
        network if word == "NET" else re.sub("{}", lambda _: next(ends), word)
        for word in command.split()
    ]
    assert main([*words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["source"], document["sink"]) == ("São Paulo", "東京")


@pytest.mark.parametrize("command", ["stream", "download", "mobility"])
def test_ends_of_a_run_in_quotes(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network = _ring(tmp_path, "a b", "c", "d")
    more = {
        "stream": ["--faults", "none", "--duration", "3"],
        "download": ["--faults", "none", "--file-size", "20kB"],
        "mobility": [_ring(tmp_path, "a b", "c", "d"), "--frame-duration", "3"],
    }
    run = [
        "--from",
        '"a b"',
        "--to",
        " d ",
        "--fabric",
        "simulator",
        "--results",
        str(tmp_path / "results"),
        "--json",
    ]
    code = main([command, network, *more[command], *run])
    assert code in (0, 5), capsys.readouterr().err


def test_an_id_with_spaces_or_quotes_comes_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network = _ring(tmp_path, "a", " a", '"a"')
    for text in ("a", " a", '"a"'):
        assert (
            main(["route", network, "--from", text, "--to", "a" if text != "a" else " a", "--json"])
            == 0
        )
        assert json.loads(capsys.readouterr().out)["source"] == text


@pytest.mark.parametrize(
    ("text", "host"),
    [
        (" h 1 ", "h 1"),
        ('"h 1"', "h 1"),
        (' "s1" ', "s1"),
        (" s1", " s1"),
        ("no", "no"),
        ('"', '"'),
    ],
)
def test_a_host_of_a_network_that_is_up(text: str, host: str) -> None:
    described = {
        "network": "up",
        "hosts": [{"name": "h 1"}],
        "switches": [{"name": "s1"}, {"name": " s1"}],
    }
    assert resolve_host(text, described) == host
