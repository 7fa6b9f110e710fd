"""What people type out of habit is understood, or answered with what to type instead."""

from __future__ import annotations

import pytest

from testbed.cli import main
from testbed.emulation.attach.prompt import Prompt


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("list", "did you mean topology list, experiment list, plugins list"),
        ("networks", "did you mean topology list?"),
        ("show swiss-t1", "did you mean topology show?"),
    ],
)
def test_word_of_another_command_names_the_command(
    words: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words.split()) == 2
    error = capsys.readouterr().err
    assert hint in error and error.count("\n") == 1


@pytest.mark.parametrize("words", ["", "stream", "topology", "topology list", "up", "ror"])
def test_version_may_be_asked_of_any_command(
    words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--version"]) == 0
    version = capsys.readouterr().out
    assert main([*words.split(), "--version"]) == 0
    assert capsys.readouterr().out == version


def test_version_of_a_program_is_the_program_s(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["exec", "no-such-network", "h0", "--version"]) == 2
    assert "testbed 0" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("word", "near"), [("hlep", "help"), ("pingal", "pingall"), ("lnk", "link"), ("h00", "h0")]
)
def test_prompt_names_the_nearest_command(word: str, near: str) -> None:
    prompt = Prompt.__new__(Prompt)
    prompt.mn = {"h0": None, "h1": None}
    assert prompt._near(word) == f"did you mean {near}? "
    assert prompt._near("zzzz") == ""
