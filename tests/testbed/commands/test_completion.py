"""Completion in shells: commands, options, and values from where commands look them up."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path
from pkgutil import resolve_name

import pytest

from testbed.cli import main
from testbed.commands import completion
from tests.helpers.warm import TESTBED, run

pytest.importorskip("argcomplete", reason="the extra completion is not installed")
BREAKS = " \t\n\"'><=;|&(:"
"""Characters at which bash parts words."""


def offered(line: str, folder: Path, shell: str = "bash") -> list[str]:
    """What the command tells a shell in which that line has been typed."""
    out = folder / "offered"
    told = {
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_IFS": "\n",
        "_ARGCOMPLETE_SHELL": shell,
        "COMP_TYPE": "9",
    }
    told |= {"COMP_LINE": line, "COMP_POINT": str(len(line))}
    told |= {"_ARGCOMPLETE_COMP_WORDBREAKS": BREAKS} if shell == "bash" else {}
    told |= {"_ARGCOMPLETE_STDOUT_FILENAME": str(out)}
    run(TESTBED, cwd=folder, env={**os.environ, **told}, capture_output=True)
    return [word.strip().replace("\\", "") for word in out.read_text().split("\n")]


@pytest.mark.parametrize(
    ("line", "expected", "strange"),
    [
        ("testbed ", {"stream", "topology", "--version"}, {"--from"}),
        ("testbed help str", {"stream"}, {"route"}),
        ("testbed topology ", {"show", "draw", "list"}, {"stream"}),
        ("testbed stream swiss-t1 --fau", {"--faults", "--fault-kind"}, {"--from"}),
        ("testbed stream ", {"swiss-t1", "manet", "net.json"}, {"capillary"}),
        ("testbed stream net.json --from ", {"a", "b"}, {"s1"}),
        ("testbed stream lab.py:mytopo --from ", {""}, {"s1"}),
        ("testbed route swiss-t1 --routing ", {"capillary", "smore:K"}, {"balanced", "ft-drb"}),
        ("testbed bulk swiss-t1 --routing ", {"balanced", "up-down"}, {"capillary"}),
        ("testbed demands swiss-t1 --routing ", {"capillary", "max-min"}, {"balanced"}),
        ("testbed schedule swiss-t1 --scheduling ", {"liquid", "two-level"}, {"first-fit"}),
        ("testbed simulate torus:4x4 --deadlock-avoidance n", {"nac", "none"}, {"bubble"}),
        ("testbed experiment run ror_by_", {"ror_by_layer", "ror_by_method"}, {"failure_cost"}),
        ("testbed campaign q", {"quick"}, {"thousands"}),
        ("testbed report ", {"results/stream/20260102T030405Z-seed1"}, {"stream"}),
        ("testbed stream swiss-t1 --seed ", {""}, {"net.json"}),
    ],
)
def test_values_come_from_where_the_command_looks(
    line: str, expected: set[str], strange: set[str], tmp_path: Path
) -> None:
    (tmp_path / "net.json").write_text(
        '{"nodes": [{"id": "a"}, {"id": "b"}], "links": [{"source": "a", "target": "b"}]}'
    )
    run = tmp_path / "results/stream/20260102T030405Z-seed1"
    run.mkdir(parents=True)
    (run / "manifest.json").write_text("{}")
    found = set(offered(line, tmp_path))
    assert expected <= found and not strange & found


def test_parts_of_a_word_behind_a_colon_are_completed(tmp_path: Path) -> None:
    pytest.importorskip("topohub", reason="the extra networks is not installed")
    assert offered("testbed topology show topohub:topozoo/Abi", tmp_path) == ["topozoo/Abilene"]
    assert offered("testbed topology show topohub:topozoo/Abi", tmp_path, "fish") == [
        "topohub:topozoo/Abilene"
    ]


def test_networks_that_are_up_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "testbed.emulation.sandbox.control_socket.network_names", lambda: ("lab", "up-4711")
    )
    action = argparse.Action([], "name", metavar="NAME")
    assert list(completion.values("exec", action, "", None)) == ["lab", "up-4711"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "tcsh"])
def test_each_shell_has_a_script_that_asks_the_command(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--print-completion", shell]) == 0
    assert "testbed" in capsys.readouterr().out


def test_bash_completes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["--print-completion", "bash"])
    asked = f"""{capsys.readouterr().out}
        testbed() {{ {sys.executable} -m testbed.cli "$@"; }}; export -f testbed
        COMP_LINE='testbed stream --fau'; COMP_POINT=20; COMP_TYPE=9
        _python_argcomplete testbed --fau stream; echo "${{COMPREPLY[@]}}" """
    done = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=False)
    assert set(done.stdout.split()) >= {"--faults", "--fault-kind", "--fault-loss"}, done.stderr


def test_every_place_that_words_come_from_exists() -> None:
    places = {place for found in completion.WORDS.values() for place in found if ":" in place}
    assert len(places) > 8 and all(resolve_name(place) for place in places)
