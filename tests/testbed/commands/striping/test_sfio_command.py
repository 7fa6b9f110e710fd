"""``testbed sfio`` and ``testbed run`` from the outside: JSON, exit codes, one line for bad input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.helpers.commands import in_process


def test_the_simulated_fabric_gives_one_document_with_verified_content(tmp_path: Path) -> None:
    words = "sfio swiss-t1 --compute-nodes 3 --io-nodes 2 --file-size 300kB --operation both --fabric simulator --json"
    done = in_process(
        *words.split(), "--stripe-unit", "75", "--subfile-dir", str(tmp_path / "kept"), cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (
        found["bytes"] == 600_000
        and found["verified"] is True
        and found["verdict"]["passed"] is True
    )
    assert found["throughput_bps"] == pytest.approx(found["predicted"]["throughput_bps"], rel=0.01)
    assert found["messages"] == 12 and found["disk_calls"] == 12, (
        "one message and one disk call a pair and operation"
    )
    sizes = [(tmp_path / "kept" / node / "data").stat().st_size for node in ("r0", "r1")]
    assert sizes == [150_000, 150_000]
    assert (Path(tmp_path) / found["results"] / "page.html").is_file()
    assert not list((tmp_path / "results").glob(".subfiles*"))


@pytest.mark.parametrize("words", ["none", "[]"])
def test_no_faults_need_no_switches(words: str, tmp_path: Path) -> None:
    command = "sfio crossbar:4 --compute-nodes 1 --io-nodes 2 --scheduling liquid --fabric simulator --json --faults"
    done = in_process(*command.split(), words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("sfio crossbar:4 --compute-nodes 1 --io-nodes 2 --stripe-unit 0", "--stripe-unit: '0'"),
        ("sfio crossbar:4 --compute-nodes 1 --io-nodes 9", "--io-nodes 9"),
        ("sfio crossbar:4 --compute-nodes 1 --io-nodes 2 --file-size lots", "--file-size: 'lots'"),
        ("sfio crossbar:4 --compute-nodes 1 --io-nodes 2 --faults s1->r9@1-2", "s1->r9"),
        ("sfio crossbar:4 --compute-nodes 1 --io-nodes 2 --faults s1->r1@2-1", "before stop"),
        ("sfio crossbar:4 --compute-nodes 1 --io-nodes 2 --kill t0@1", "'t0' is not an I/O node"),
        (
            "sfio crossbar:4 --compute-nodes 1 --io-nodes 2 --kill r1@1 --scheduling liquid",
            "--faults and --kill need packet",
        ),
        (
            "sfio crossbar:4 --compute-nodes 1 --io-nodes 2 --kill r1@1 --switching circuit",
            "--faults and --kill need",
        ),
        (
            "sfio crossbar:4 --compute-nodes 1 --io-nodes 2 --faults s1->r1@1-2 --scheduling liquid --switching packet",
            "--faults and --kill need packet switching without a schedule; leave out --scheduling,"
            " --schedule and --switching",
        ),
        (
            "sfio crossbar:4 --compute-nodes 1 --io-nodes 2 --kill r1@1 --fabric simulator",
            "--kill needs the emulated fabric",
        ),
        ("sfio nowhere --compute-nodes 1 --io-nodes 2", "nowhere"),
        ("run crossbar:4 --compute-nodes 1 --io-nodes 2", "no program to run"),
        ("run crossbar:4 --compute-nodes 7 --io-nodes 2 -- true", "--compute-nodes 7"),
        ("run crossbar:4 --compute-nodes 1 --io-nodes 2 -- no-such-program", "no-such-program"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(words: str, named: str, tmp_path: Path) -> None:
    done = in_process(*words.split(), cwd=tmp_path)
    assert done.returncode == 2
    assert named in done.stderr and len(done.stderr.strip().splitlines()) == 1
    assert done.stdout == ""
