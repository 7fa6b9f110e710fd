"""Former spellings of options and of the library's keyword arguments: each is taken, said and becomes the present
one."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest

import testbed
from testbed.cli import build_parser, main
from testbed.commands.former_options import FORMER, present_words
from testbed.commands.parsing import OneLineParser
from testbed.errors import UsageError
from testbed.model.options.former_keys import ALIASES
from testbed.model.options.former_keywords import KEYWORDS, present_keywords

ROWS = [(command, former) for command, table in FORMER.items() for former in table]


def options(command: str) -> dict[str, Any]:
    if command == "experiment":
        from experiments.interconnect import collectives
        from testbed.commands.studies.study_runner import study_parser

        return study_parser(collectives.STUDY)._option_string_actions
    parser = next(a for a in build_parser(command)._actions if a.dest == "command").choices[command]  # type: ignore[index]
    assert isinstance(parser, OneLineParser)
    return parser._option_string_actions


@pytest.mark.parametrize(("command", "former"), ROWS)
def test_a_former_spelling_is_said_and_becomes_an_option_of_its_command(
    command: str, former: str, capsys: pytest.CaptureFixture[str]
) -> None:
    known, present = options(command), FORMER[command][former]
    values: dict[str, str] = {"7": present} if isinstance(present, str) else dict(present)
    for value, now in values.items():
        name = now.split()[0]
        assert name in known and (former not in known or not isinstance(present, str))
        takes = known[name].nargs != 0
        given = [value] * (now.count("{}") or (1 if takes else 0))
        words = present_words(command, ["NET", former, *given, "--", former], known)
        expected = now.format(*given).split() if "{}" in now or not isinstance(present, str) else [name, *given]
        assert words == ["NET", *expected, "--", former], "what follows -- belongs to a program"
        assert capsys.readouterr().err.startswith(f"testbed: {former}")
        if "{}" not in now and isinstance(present, str) and takes:
            assert present_words(command, [f"{former}={value}"], known) == [f"{name}={value}"]


def test_a_former_switch_can_still_be_negated(capsys: pytest.CaptureFixture[str]) -> None:
    known = options("simulate")
    assert present_words("simulate", ["--no-nac-reserve"], known) == ["--no-nac-reserve-slot"]
    assert capsys.readouterr().err == "testbed: --no-nac-reserve is now --no-nac-reserve-slot\n"


def test_a_rate_with_its_unit_is_a_load_or_packets_a_second() -> None:
    known = options("simulate")
    words = ["--rate", "0.2", "--rate-unit", "fraction"]
    assert present_words("simulate", words, known) == ["--load", "0.2"]
    words = ["--rate-unit=packets/s", "--rate=4e4"]
    assert present_words("simulate", words, known) == ["--packet-rate=4e4"]
    assert main(["simulate", "ring:4", "--rates", "1:3:1", "--rate-unit", "packets/s"]) == 2


@pytest.mark.parametrize(
    "words",
    [
        ["download", "ring:4", "--from", "s0", "--to", "s2", "--size", "1MB", "--file-size", "1MB"],
        ["route", "ring:4", "--from", "s0", "--to", "s2", "--method", "ecmp", "--routing", "ecmp"],
        ["simulate", "ring:4", "--seed", "1", "--seed", "1"],
        ["simulate", "ring:4", "--hysteresis", "--no-hysteresis"],
    ],
)
def test_an_option_is_given_once_in_whatever_spelling(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert "give it once" in capsys.readouterr().err


@pytest.mark.parametrize(("function", "former"), [(f, former) for f, table in KEYWORDS.items() for former in table])
def test_a_former_keyword_is_taken_with_a_warning(function: str, former: str) -> None:
    value = "none" if former == "schedule" else 7
    with pytest.warns(DeprecationWarning, match=f"{function}: {former} is now"):
        assert present_keywords(function, {former: value}) == {KEYWORDS[function][former]: value}
    with pytest.raises(UsageError, match="give it once"):
        present_keywords(function, {former: value, KEYWORDS[function][former]: value})


def test_a_plan_of_former_keywords_is_that_of_the_present_ones() -> None:
    with pytest.warns(DeprecationWarning):
        former = testbed.striping_plan("crossbar:4", 2, 2, order="random", schedule="liquid")  # type: ignore[call-arg]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        present = testbed.striping_plan("crossbar:4", 2, 2, host_selection="random", scheduling="liquid")
    assert (former.options, former.frames) == (present.options, present.frames)


def test_the_page_of_renames_lists_every_row() -> None:
    page = (Path(testbed.__file__).parents[1] / "docs/guide/renames.md").read_text()
    for command, former in ROWS:
        present = FORMER[command][former]
        rows = {former: present} if isinstance(present, str) else {f"{former} {v}": now for v, now in present.items()}
        missing = [f"| `{command}` | `{a}` | `{b}` |" for a, b in rows.items()]
        assert not [row for row in missing if row not in page]
    for function, table in KEYWORDS.items():
        assert all(f"| `{function}` | `{former}` | `{present}` |" in page for former, present in table.items())
    for table in ALIASES.values():
        assert all(f"| `{former}` | `{present}` |" in page for former, present in table.items())


def test_a_renamed_key_stands_beside_its_former_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ror", "ring:4", "--from", "s0", "--to", "s2", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    for former, present in ALIASES["ror"].items():
        place = document["per_link"][0] if former == "bound" else document
        assert place[former] == place[present]
