"""Options that describe themselves: checked wherever they are built, flattened where they are nested, typed as a
function."""

from __future__ import annotations

import argparse
from typing import Any

import pytest

from testbed.commands.arguments import add_options, read_options, refuse_options_without_effect
from testbed.commands.parsing import OneLineParser
from testbed.errors import InputError, UsageError
from testbed.model.options import kinds
from testbed.model.options.option import FAULTS, Only, build, nested, option, options, options_of
from testbed.model.options.planner import planner


@options
class NacOptions:
    slack: int = option(default=1, kind=kinds.packets_of_slack, help="packets (default {default})")
    old: bool = option(default=True)
    new: bool = option(default=False, negated=True)


@options
class SendOptions:
    network: str = option(kw_only=False, positional=True, metavar="NETWORK")
    size_bytes: int = option(default="4MB", flag="--size", kind=kinds.size_bytes, help="sent")
    access: str = option(default="whole", choices=("whole", "strided"))
    block: int | None = option(
        default=None,
        kind=kinds.some,
        only=(Only(when=lambda a: a.access == "strided", needs="--access strided"),),
    )
    faults: tuple[str, ...] = option(default=(), many=True, group=FAULTS)
    inside: float = option(default=0.5, listed=False)
    profile: str = option(default="none", presets={"small": {"size_bytes": 10, "nac.slack": 3}})
    quick: bool = option(default=False)
    nac: NacOptions = nested(
        default_factory=NacOptions,
        prefix="--nac-",
        group="NAC",
        only=(Only(when=lambda a: a.quick, needs="--quick"),),
    )

    def __post_init__(self) -> None:
        if self.network == "nowhere":
            raise InputError("there is no such network")


def read(*words: str) -> SendOptions:
    return read_options(parsed(*words), SendOptions)


def parsed(*words: str) -> argparse.Namespace:
    parser = OneLineParser(prog="testbed send")
    add_options(parser, SendOptions)
    found: argparse.Namespace = parser.parse_args(list(words))
    return found


def test_defaults_are_those_of_the_class_and_text_is_read_by_its_kind() -> None:
    assert read("ring:4") == SendOptions("ring:4") == build(SendOptions, {"network": "ring:4"})
    assert SendOptions("ring:4").size_bytes == 4_000_000
    said = read(
        "ring:4",
        "--size",
        "2kB",
        "--faults",
        "a",
        "--faults",
        "b",
        "--quick",
        "--nac-slack",
        "4",
        "--no-nac-old",
    )
    assert (said.size_bytes, said.faults, said.quick) == (2000, ("a", "b"), True)
    assert said.nac == NacOptions(slack=4, old=False)


def test_nested_options_are_named_by_their_field() -> None:
    names = [one.name for one in options_of(SendOptions)]
    assert (
        names[-3:] == ["nac.slack", "nac.old", "nac.new"]
        and options_of(SendOptions)[-3].flag == "--nac-slack"
    )
    assert read("ring:4", "--nac-new").nac.new and not read("ring:4", "--no-nac-new").nac.new


@pytest.mark.parametrize(
    ("wrong", "error", "says"),
    [
        ({"size_bytes": 0}, InputError, "size_bytes 0: give bytes, 1 to 1e\\+18"),
        ({"size_bytes": "4MB"}, UsageError, "size_bytes: got a str; give a whole number"),
        ({"size_bytes": float("nan")}, UsageError, "size_bytes: got a float"),
        ({"inside": "x"}, UsageError, "inside: got a str; give a number"),
        ({"access": "stridden"}, InputError, "did you mean strided?"),
        ({"network": "nowhere"}, InputError, "no such network"),
        ({"nac.slack": 99}, InputError, "slack 99: give a whole number, 0 to 8"),
    ],
)
def test_values_are_checked_where_they_are_built(
    wrong: dict[str, Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        build(SendOptions, {"network": "ring:4", **wrong})


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["ring:4", "--size", "0"], "argument --size: '0': give bytes, 1 to"),
        (
            ["ring:4", "--size", "1", "--size", "1"],
            "argument --size: --size stands there already; give it once",
        ),
        (["ring:4", "--acc", "whole"], "did you mean --access?"),
        (["ring:4", "--inside", "1"], "unknown option --inside"),
    ],
)
def test_a_mistake_on_the_command_line_is_one_line(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parsed(*words)
    said = capsys.readouterr().err
    assert says in said and said.count("\n") - said.count("is now") == 1


def test_a_preset_fills_what_is_not_given() -> None:
    small = read("ring:4", "--profile", "small")
    assert (small.size_bytes, small.nac.slack) == (10, 3)
    assert read("ring:4", "--profile", "small", "--size", "4MB").size_bytes == 4_000_000


def test_an_option_without_a_meaning_is_named_as_it_was_written() -> None:
    with pytest.raises(
        InputError, match="--block: it is for --access strided; leave one of the two out"
    ):
        refuse_options_without_effect(parsed("ring:4", "--block", "3"))
    refuse_options_without_effect(parsed("ring:4", "--block", "3", "--access", "strided"))
    with pytest.raises(InputError, match="--nac-slack: it is for --quick"):
        refuse_options_without_effect(parsed("ring:4", "--nac-slack", "3"))
    refuse_options_without_effect(parsed("ring:4", "--nac-slack", "3", "--quick"))


def test_help_has_headings_and_defaults() -> None:
    parser = OneLineParser(prog="testbed send")
    add_options(parser, SendOptions)
    page = parser.format_help()
    assert "--faults FAULTS" in page and "sent (default: 4MB)" in page
    assert "NAC:\n  --nac-slack" in page and page.count("--no-nac-") == 2


def test_planner_is_a_function_of_the_fields() -> None:
    plan = planner(
        "send_plan", "A plan.", SendOptions, lambda asked: (asked.network, asked.size_bytes)
    )
    assert plan("ring:4", size_bytes=3) == ("ring:4", 3)
    assert plan("ring:4", profile="small") == ("ring:4", 10)
    assert plan.__name__ == "send_plan" and "size_bytes: Sent (default: 4MB)." in str(plan.__doc__)
    with pytest.raises(
        UsageError, match="send_plan: there is no argument 'site'; there are network, size_bytes"
    ):
        plan("ring:4", site=3)  # type: ignore[call-arg]
    with pytest.raises(UsageError, match=r"^send_plan: give network$"):
        plan()  # type: ignore[call-arg]
