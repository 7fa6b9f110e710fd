"""A network's file from somebody else reads no file but traces beside it, shows nothing of them, and takes little
memory and time."""

from __future__ import annotations

import gzip
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from testbed.errors import InputError
from testbed.faults.fault import Fault
from testbed.faults.grammar import parse_fault, parse_fault_document
from tests.helpers.warm import TESTBED, run
from topologies import TopologyError, load_network
from topologies.files.containerlab import MAX_VALUES, parse_yaml
from topologies.impairments import parse_impairments
from topologies.text import text_file
from topologies.text.text_file import MAX_NETWORK_BYTES

SECRET = "root:*:20228:0:99999:7:::"


def with_trace(folder: Path, name: str) -> Path:
    (folder / "net").mkdir(exist_ok=True)
    link = {"source": "a", "target": "b", "impairments": f"trace:{name}"}
    path = folder / "net" / "n.json"
    path.write_text(json.dumps({"nodes": [{"id": "a"}, {"id": "b"}], "links": [link]}))
    return path


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder with a file that is not the network's, and all kinds of ways to it from the folder ``net``."""
    (tmp_path / "secret").write_text(SECRET)
    net = tmp_path / "net"
    net.mkdir()
    (net / "link").symlink_to(tmp_path / "secret")
    (net / "up").symlink_to(tmp_path)
    (net / "near").symlink_to("plain.mahi")
    (net / "plain.mahi").write_text("0\n5\n10\n")
    (net / "secret").write_text(SECRET)
    os.mkfifo(net / "pipe")
    (net / "zero").symlink_to("/dev/zero")
    return tmp_path


PLACES = [
    "/etc/shadow", "/dev/zero", "/dev/stdin", "/proc/self/environ", "../secret", "up/secret", "link", "zero", "pipe",
    "near", ".", "up", "secret", "no-such-file", "sub/../../secret",
]  # fmt: skip


@pytest.mark.parametrize("name", PLACES)
def test_a_network_s_trace_lies_in_its_folder_and_is_a_plain_file(name: str, outside: Path) -> None:
    began = time.monotonic()
    with pytest.raises(TopologyError, match=r"links\[0\]: ") as caught:
        load_network(with_trace(outside, name))
    said = str(caught.value)
    assert "20228" not in said and "\n" not in said and time.monotonic() - began < 1


def test_a_trace_in_the_folder_or_deeper_is_read(outside: Path) -> None:
    (outside / "net" / "deep").mkdir()
    (outside / "net" / "deep" / "t.mahi").write_text("0\n5\n10\n")
    for name in ("plain.mahi", "deep/t.mahi"):
        assert load_network(with_trace(outside, name)).links[0].impairments == "trace:ms=0+5x2"


def test_the_same_holds_for_faults_in_files_and_in_stored_runs(outside: Path) -> None:
    network = load_network("ring:4")
    fault = {"link": "s0->s1", "start_s": 1, "stop_s": 2, "impairments": "trace:link"}
    with pytest.raises(InputError, match="outside the folder"):
        parse_fault_document([fault], network, "here", outside / "net")
    with pytest.raises(InputError, match="no file is read here"):
        Fault(
            link=("s0", "s1", 0),
            start_s=1,
            stop_s=2,
            kind="impaired",
            impairments=f"trace:{outside}/net/plain.mahi",
        )
    typed = parse_fault(f"s0->s1@1-2 trace:{outside}/net/plain.mahi", network)
    assert typed.impairments == "trace:ms=0+5x2"


@pytest.mark.parametrize(
    "words", ["trace:/dev/zero", "trace:/dev/null", f"trace:ms={10**13}", "trace:ms=1" + "0" * 3000]
)
def test_typed_traces_are_bounded_too(words: str) -> None:
    with pytest.raises(TopologyError):
        parse_impairments(words)


@pytest.mark.parametrize("name", ["/dev/zero", "/dev/null", "/", "n.json/x"])
def test_a_network_is_a_file_or_a_pipe(name: str) -> None:
    with pytest.raises(TopologyError, match=r"not a regular file|cannot be read"):
        load_network(Path(name))


def test_a_network_comes_through_a_pipe() -> None:
    command = [*TESTBED, "topology", "show", "/dev/stdin"]
    done = run(
        command, input=b'{"nodes": [{"id": "a"}], "links": []}', capture_output=True, check=True
    )
    assert b"switches       1   a" in done.stdout and done.stderr == b""


def test_a_pipe_is_read_when_somebody_writes_and_given_up_when_nobody_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_file, "WRITER_MS", 200)
    pipe = tmp_path / "net.json"
    os.mkfifo(pipe)
    with pytest.raises(TopologyError, match="no program writes into this pipe"):
        load_network(pipe)
    slow = subprocess.Popen(
        ["sh", "-c", 'exec >"$0"; sleep 0.6; echo \'{"nodes": [{"id": "a"}], "links": []}\'', pipe]
    )
    monkeypatch.setattr(text_file, "WRITER_MS", 400)
    assert [node.id for node in load_network(pipe).nodes] == ["a"]
    assert slow.wait() == 0


LAUGHS = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 10)
)
LAB = "topology: {nodes: {a: {}, b: {}}, links: [{endpoints: ['a:1', 'b:1']}]}\n"
HUGE: dict[str, Callable[[], bytes]] = {
    "laughs.clab.yml": lambda: f"{LAUGHS}name: *a9\n{LAB}".encode(),
    "laughs in a node.clab.yml": lambda: f"{LAUGHS}topology: {{nodes: {{a: {{env: *a9}}}}}}\n".encode(),
    "deep.clab.yml": lambda: b"[" * 100_000,
    "deep.gml": lambda: b"graph [" + b"a [ " * 100_000,
    "deep.json": lambda: b'{"nodes": [{"id": ' + b"[" * 100_000,
    "open.dot": lambda: b'graph { "' + b"x" * 2_000_000,
    "open.gml": lambda: b'graph [ a "' + b"x" * 2_000_000,
    "bomb.graphml.gz": lambda: gzip.compress(b"<graphml>" + b" " * (MAX_NETWORK_BYTES + 1)),
    "cut.graphml.gz": lambda: gzip.compress(b"<graphml/>" * 100)[:30],
    "entities.graphml": lambda: (
        b'<!DOCTYPE r [<!ENTITY a "%b">]><graphml>%b</graphml>' % (b"x" * 50_000, b"&a;" * 50_000)
    ),
    "other files.graphml": lambda: b'<!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/passwd">]>'
    b'<graphml><graph><node id="a"/>&x;</graph></graphml>',
    "objects.json": lambda: b'{"nodes": [' + b'{"id": 1}, ' * 1_000_001,
    "words.dot": lambda: b"graph {" + b"a;" * 500_001,
    "words.gml": lambda: b"graph [" + b" a 1" * 500_001,
    "tags.clab.yml": lambda: b'name: !!python/object/apply:os.system ["touch PWNED"]\n' + LAB.encode(),
}  # fmt: skip


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.long] if n == "words.dot" else []) for n in HUGE]
)
def test_unboundedly_growing_files_are_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(HUGE[name]())
    command = [sys.executable, "-m", "testbed.cli", "topology", "show", name]
    limit = (1_500_000_000, 1_500_000_000)
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, timeout=60, text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, limit),
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )  # fmt: skip
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr[-500:]
    assert sorted(p.name for p in tmp_path.iterdir()) == [name]


def test_aliases_count_as_what_they_stand_for() -> None:
    assert parse_yaml("a: &x [1, 2]\nb: [*x, *x]\n") == {
        "a": ["1", "2"],
        "b": [["1", "2"], ["1", "2"]],
    }
    began = time.monotonic()
    with pytest.raises(TopologyError, match=f"more than {MAX_VALUES} values"):
        parse_yaml(LAUGHS)
    assert time.monotonic() - began < 0.5


def test_many_parallel_links_take_no_square_of_time(tmp_path: Path) -> None:
    link = {"source": "a", "target": "b"}
    path = tmp_path / "n.json"
    path.write_text(
        json.dumps(
            {"multigraph": True, "nodes": [{"id": "a"}, {"id": "b"}], "links": [link] * 20_000}
        )
    )
    network = load_network(path)
    assert [k.key for k in network.links[::2]] == list(range(20_000))


NODES = '{"nodes": [{"id": "a"}, {"id": "b"}], "links": [{"source": "a", "target": "b"}]}'


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("n.graph", f"NODES {'9' * 5000}\nlabel x y\n", "line 1: give 'NODES NUMBER'"),
        (
            "n.json",
            NODES.replace('"a"}', '"a", "position": [1e308, 0]}', 1),
            "two numbers [x, y], below 1e100",
        ),
        ("n.json", NODES.replace('"a"}', '[], "kind": "host"}', 1), "id [] must be text"),
        (
            "n.json",
            NODES.replace('"a"}', '"a", "kind": "host"}').replace('"source": "a"', '"source": []'),
            "source []",
        ),
    ],
)
def test_values_that_are_none_are_named(name: str, text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(TopologyError) as caught:
        load_network(tmp_path / name)
    assert said in str(caught.value)


def test_a_name_that_is_no_text_is_written_as_one(tmp_path: Path) -> None:
    place = os.fsencode(tmp_path) + b"/Z\xfcrich.json"
    Path(os.fsdecode(place)).write_text(NODES)
    assert load_network(os.fsdecode(place)).name == "Z\\udcfcrich"
    (tmp_path / "n.json").write_text(NODES.replace("{", '{"graph": {"name": "\\ud800"}, ', 1))
    assert load_network(tmp_path / "n.json").name == "\\ud800"
