"""A misspelt name is told the right one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from testbed.cli import main


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("straem ring:4", "'straem'; did you mean stream?"),
        ("topology shwo ring:4", "did you mean show?"),
        ("route ring:4 --from s0 --to s2 --routing capillry", "did you mean capillary"),
        ("route ring:4 --from s0 --to s2 --routing ECMP", "did you mean ecmp?"),
        (
            "route ring:4 --from s0 --to s2 --routing quickest",
            "choose one of single, ecmp, disjoint-2",
        ),
        ("route ring:4 --from S0 --to s2", "did you mean s0"),
        ("schedule ring:4 --scheduling liqid", "did you mean liquid"),
        ("bulk ring:4 --routing shortestpath", "did you mean shortest-path"),
        ("demands ring:4 --routing ksq:4", "did you mean ksp:K?"),
        ("demands ring:4 --routing quickest", "least-ror:B"),
        ("experiment run ror_layrs", "did you mean ror_layers"),
        ("experiment run nosuch", "testbed experiment list shows all"),
        ("campaign quik", "did you mean quick?"),
        ("stream ring:4 --form s0 --to s2", "unknown option --form; did you mean --from?"),
        ("stream ring:4 --form=s0 --to s2", "did you mean --from?"),
        ("stream ring:4 --to s2", "required: --from"),
        ("stream ring:4 --fro s1", "unknown option --fro; did you mean --from?"),
        ("stream ring:4 --from s0 --to s2 --hold-s 1", "did you mean --hold-time?"),
        ("stream ring:4 --from s0 --to s2 --symbol-bytes=10", "did you mean --symbol-size?"),
        ("up ring:4 --pcap s0->s9", "did you mean s0->s3 or s0->s1?"),
    ],
)
def test_the_right_name_is_told(words: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code: object = main(words.split())
    except SystemExit as end:
        code = end.code
    err = capsys.readouterr().err
    assert code == 2 and says in err and err.count("\n") == 1


def test_names_of_nodes_and_links_are_listed_as_they_are_written(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "net.json"
    file.write_text(
        '{"nodes": [{"id": "a->b"}, {"id": "Zürich HB"}], "links": [{"source": "a->b", "target": "Zürich HB"}]}'
    )
    assert main(["topology", "show", str(file), "--nodes"]) == 0
    assert capsys.readouterr().out == "a->b\nZürich HB\n"
    assert main(["topology", "show", str(file), "--links"]) == 0
    assert capsys.readouterr().out == '"a->b"->Zürich HB\nZürich HB->"a->b"\n'


@pytest.mark.parametrize(
    ("usual", "second"),
    [
        ("route ring:4 --from s0 --to s2 --routing ecmp", "--method ecmp"),
        ("schedule crossbar:3 --pattern all-to-all --scheduling exact", "--method=exact"),
        ("ror ring:4 --from s0 --to s2 --label-order random", "--labels random"),
    ],
)
def test_second_spelling_is_the_option(
    usual: str, second: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = usual.split()
    assert main([*words, "--json"]) == 0
    answer = capsys.readouterr().out
    assert main([*words[:-2], *second.split(), "--json"]) == 0
    again = capsys.readouterr().out
    assert re.sub('"seconds": [^,]*', "", again) == re.sub('"seconds": [^,]*', "", answer)


def test_option_given_twice_in_two_spellings_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main("schedule ring:4 --scheduling exact --method liquid".split()) == 2
    assert "--scheduling stands there already; give it once" in capsys.readouterr().err
