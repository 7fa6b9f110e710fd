"""Former spellings of options and of the library's keyword arguments: each is taken, said and becomes the present
one."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest

import testbed
import testbed.errors
from testbed.cli import build_parser, main
from testbed.commands.parsing import OneLineParser
from testbed.errors import UsageError

PAGE = Path(testbed.__file__).with_name("renames.tsv").read_text()


def table(heading: str) -> list[list[str]]:
    """The rows of the list of renames below a heading: who has it, its former name, its present one."""
    lines = PAGE.split(f"# {heading}\n")[1].split("\n# ")[0].splitlines()
    return [line.split("\t") for line in lines]


ROWS = [row for row in table("Options") if "--rate-unit" not in row[1]]  # which is two options


def parser_of(command: str) -> OneLineParser:
    if command == "experiment":
        from experiments.interconnect import collectives
        from testbed.commands.studies.study_runner import study_parser

        return study_parser(collectives.STUDY)
    parser = next(a for a in build_parser(command)._actions if a.dest == "command").choices[command]  # type: ignore[index]
    assert isinstance(parser, OneLineParser)
    return parser


def test_the_page_of_renames_is_read() -> None:
    assert len(ROWS) > 130 and len({command for command, *_ in ROWS}) == 17


@pytest.mark.parametrize(("command", "former", "now"), ROWS)
def test_a_former_spelling_is_said_and_becomes_an_option_of_its_command(
    command: str, former: str, now: str, capsys: pytest.CaptureFixture[str]
) -> None:
    parser = parser_of(command)
    known = parser._option_string_actions
    (option, *value), (name, *_) = former.split(), now.split()
    assert name in known and (option not in known or value)
    given = value or ["7"] * (now.count("{}") or (1 if known[name].nargs != 0 else 0))
    words = parser._current(["NET", option, *given, "--", option])
    expected = now.format(*given).split() if "{}" in now or value else [name, *given]
    assert words == ["NET", *expected, "--", option], "what follows -- belongs to a program"
    assert capsys.readouterr().err.startswith(f"testbed: {former}")
    if "{}" not in now and given and not value:
        assert parser._current([f"{option}=7"]) == [f"{name}=7"]


def test_a_former_switch_can_still_be_negated(capsys: pytest.CaptureFixture[str]) -> None:
    assert parser_of("simulate")._current(["--no-nac-reserve"]) == ["--no-nac-reserve-slot"]
    assert capsys.readouterr().err == "testbed: --no-nac-reserve is now --no-nac-reserve-slot\n"


def test_a_rate_with_its_unit_is_a_load_or_packets_a_second() -> None:
    current = parser_of("simulate")._current
    assert current(["--rate", "0.2", "--rate-unit", "fraction"]) == ["--load", "0.2"]
    assert current(["--rate-unit=packets/s", "--rate=4e4"]) == ["--packet-rate=4e4"]
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
def test_an_option_is_given_once_in_whatever_spelling(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert "give it once" in capsys.readouterr().err


@pytest.mark.parametrize(("function", "former", "now"), table("Keyword arguments"))
def test_a_former_keyword_is_taken_with_a_warning(function: str, former: str, now: str) -> None:
    former, _, word = former.partition(" ")
    value = word or 7
    with (
        pytest.warns(DeprecationWarning, match=f"{function}: {former} is now {now};"),
        pytest.raises((testbed.errors.TestbedError, TypeError)),
    ):
        getattr(testbed, function)(**{former: value})  # what else it needs is left out
    with pytest.raises(UsageError, match="give it once"):
        getattr(testbed, function)(**{former: value, now: value})


def test_a_plan_of_former_keywords_is_that_of_the_present_ones() -> None:
    with pytest.warns(DeprecationWarning):
        former = testbed.striping_plan("crossbar:4", 2, 2, order="random", schedule="liquid")  # type: ignore[call-arg]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        present = testbed.striping_plan(
            "crossbar:4", 2, 2, host_selection="random", scheduling="liquid"
        )
    assert (former.options, former.frames) == (present.options, present.frames)


def test_a_renamed_key_stands_beside_its_former_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ror", "ring:4", "--from", "s0", "--to", "s2", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    for former, present in [row[1:] for row in table("Keys of JSON") if row[0] == "ror"]:
        place = document["per_link"][0] if former == "bound" else document
        assert place[former] == place[present]
