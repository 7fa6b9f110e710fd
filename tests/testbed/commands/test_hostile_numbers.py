"""Every numeric option of every command refuses what is no number of use: one line, exit code 2, within a second,
nothing built.

The options are found by walking the parsers, those of the experiments included, so that an option added tomorrow is
tried too.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.cli import build_parser, main
from testbed.commands.parsing import OneLineParser
from testbed.commands.studies.experiment import find_experiments
from testbed.commands.studies.study_runner import study_parser
from testbed.errors import InputError
from testbed.model.options import kinds
from testbed.model.options.kinds import MAX_SEED, Kind
from tests.helpers.drawn import SOAK, drawn

HOSTILE = (
    "nan", "NaN", "inf", "-inf", "1e400", "1e308", "-1e308", "9" * 23, "-" + "9" * 23, "9" * 5000, "", " ", "x",
    "0x10", "1_000",
    "١٢", "1e", "--", "1,5", "1 2", "½", "\x00",
)  # fmt: skip
"""What no option takes, whatever its kind."""
EACH = len(HOSTILE)
"""One text is tried on an option whose kind has been given all of them, another on the next; `make soak` tries all."""
LIMIT_S = 1.0


def options_of(
    parser: argparse.ArgumentParser, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], argparse.Action]]:
    """Each option that takes a number, with the words of the command that it is an option of."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, child in action.choices.items():
                yield from options_of(child, (*path, name))
        elif isinstance(action.type, Kind) or action.type in (int, float, complex):
            yield path, action


OF_COMMANDS = list(options_of(build_parser(None), ()))


def all_options() -> list[tuple[tuple[str, ...], argparse.Action]]:
    found = [*OF_COMMANDS]
    for name, study in find_experiments().items():
        if getattr(study, "options", None) is not None:
            own = [*options_of(study_parser(study), (name,))]
            found += [(("experiment", "run", *path), action) for path, action in own]
    seed = OneLineParser().add_argument("--seed", type=kinds.seed)
    return [*found, (("experiment", "run", next(iter(find_experiments()))), seed)]


def beyond(kind: Any) -> list[str]:
    """The numbers next to the bounds of a kind, on the wrong side of them."""
    if not isinstance(kind, Kind):
        return []
    step = 1 if kind.whole else 1e-3 * max(abs(kind.most), 1)
    low, high = kind.least - (0 if kind.above else step), kind.most + (0 if kind.below else step)
    if kind.whole and kind.units:
        low = kind.least - 0.6  # sizes are rounded
    return [repr(low), repr(high)]


@pytest.fixture(autouse=True)
def no_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that took the number would go on into a sandbox, in the place of this process."""
    monkeypatch.setattr("os.execv", lambda *words: pytest.fail(f"the command went on: {words}"))


def refusal(words: list[str], capsys: pytest.CaptureFixture[str]) -> str | None:
    """What is wrong with how the command refuses these words; None where nothing is."""
    began = time.process_time()
    try:
        code: Any = main(words)
    except SystemExit as end:
        code = end.code
    took_s = time.process_time() - began
    said = capsys.readouterr()
    lines = said.err.strip().splitlines()
    if code != 2 or len(lines) != 1 or said.out or took_s > LIMIT_S or len(lines[0]) > 400:
        return f"{' '.join(words)[:120]!r}: exit code {code}, {len(lines)} lines, {took_s:.2f} s: {said.err[:200]!r}"
    return None


@pytest.mark.scaled
def test_every_numeric_option_refuses_what_is_no_number_of_use(
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = all_options()
    names = {" ".join((*path, action.option_strings[0])) for path, action in options}
    assert {
        "stream --duration",
        "simulate --load",
        "sfio --seed",
        "bulk --message-size",
        "replicate --max-hours",
    } <= names
    wrong, calls, tried = [], 0, set[Any]()
    for place, (path, action) in enumerate(options):
        # each kind is given every text once; of the options that share it, each some of them, and the bounds
        texts = HOSTILE if SOAK or action.type not in tried else HOSTILE[place % EACH :: EACH]
        tried.add(action.type)
        for text in (*texts, *beyond(action.type)):
            calls += 1
            wrong.append(refusal([*path, f"{action.option_strings[0]}={text}"], capsys))
    found = [line for line in wrong if line]
    print(f"{calls} calls over {len(names)} options")
    assert not found, f"{len(found)} of {calls}:\n" + "\n".join(found[:20])
    assert calls >= 3 * len(options)


@pytest.mark.parametrize(
    ("path", "action"),
    [pytest.param(p, a, id=" ".join((*p, a.option_strings[0]))) for p, a in OF_COMMANDS],
)
def test_options_of_commands_say_their_own_bounds(
    path: tuple[str, ...], action: argparse.Action
) -> None:
    assert isinstance(action.type, Kind), (
        f"{path}: give {action.option_strings} a kind of testbed.model.options.kinds"
    )
    assert math.isfinite(action.type.least) and math.isfinite(action.type.most)
    if isinstance(action.default, (int, float)):
        assert action.type(str(action.default)) == pytest.approx(action.default)


KINDS: list[Kind] = list({id(a.type): a.type for _, a in OF_COMMANDS}.values())  # type: ignore[misc]


@drawn(300)
@given(
    kind=st.sampled_from(KINDS),
    text=st.one_of(st.text(max_size=12), st.floats().map(repr), st.integers().map(str)),
)
def test_a_kind_gives_a_number_within_its_bounds_or_refuses_in_one_line(
    kind: Kind, text: str
) -> None:
    try:
        value = kind(text)
    except InputError as error:
        assert "give " in str(error) and len(str(error).splitlines()) == 1
    else:
        assert kind.least <= value <= kind.most and (isinstance(value, int) or not kind.whole)


def test_the_bound_of_a_kind_is_accepted_where_it_is_not_left_out() -> None:
    for kind in KINDS:
        for bound, left_out in ((kind.least, kind.above), (kind.most, kind.below)):
            text = (
                str(int(bound)) if bound == int(bound) and abs(bound) <= MAX_SEED else repr(bound)
            )
            refuse: Callable[..., Any] = pytest.raises if left_out else _nothing
            with refuse(InputError):
                kind(text)


def _nothing(_: Any) -> Any:
    from contextlib import nullcontext

    return nullcontext()


@pytest.mark.parametrize(
    "words",
    [
        ("demands", "swiss-t1", "--routing", "ksp:" + "9" * 23),
        ("route", "swiss-t1", "--from", "s1", "--to", "s6", "--routing", "least-fec:nan"),
        ("topology", "show", "torus:99999x99999"),
        ("topology", "show", "swiss-t1:delay_s=nan"),
        ("sfio", "swiss-t1", "--compute-nodes", "4", "--io-nodes", "4", "--kill", "r2@nan"),
        (
            "stream",
            "swiss-t1",
            "--from",
            "s1",
            "--to",
            "s6",
            "--fabric",
            "simulator",
            "--faults",
            "poisson:rate=nan,lasts=1",
        ),
        ("simulate", "torus:4x4", "--faults", "random:" + "9" * 23),
    ],
)
def test_numbers_inside_names_and_grammars_are_refused_as_well(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    build_parser(words[0])
    assert refusal(list(words), capsys) is None


@pytest.mark.parametrize("text", ["10MB", "10 MBps", "1B", "2.5GB"])
def test_bytes_are_not_taken_for_bits_in_a_rate(text: str) -> None:
    """As in files of networks: 10MBps, eight times 10Mbps, was taken for that."""
    assert kinds.rate_bps(text.lower()) > 0
    with pytest.raises(InputError, match="bits a second"):
        kinds.rate_bps(text)
