"""One command for every workload: options of the plan and of the run, variants, the plan of another workload, a plan
fitted to the machine."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from testbed.cli import main
from testbed.commands.parsing import OneLineParser
from testbed.commands.workload_command import add_parser
from testbed.errors import CapabilityError, InputError
from testbed.model.options import kinds
from testbed.model.options.option import Only, option, options
from testbed.model.progress import ReportProgress
from testbed.model.verdict import Claim, Verdict
from testbed.model.workload import How, Judgement, Workload


@dataclass(frozen=True, kw_only=True)
class Sum:
    numbers: tuple[int, ...]


@options
class SumOptions:
    upto: int = option(kw_only=False, kind=kinds.count, help="the last")
    both: bool = option(default=False)
    wide: bool = option(default=False, switches_only=True)


@options
class HowOptions:
    wrong: int = option(
        default=0,
        kind=kinds.few,
        only=(Only(when=lambda a: a.upto > 1, needs="--upto of 2 or more"),),
    )


def build(asked: SumOptions) -> Sum:
    if asked.upto == 13:
        raise InputError("not 13")
    return Sum(numbers=tuple(range(1, asked.upto + 1)))


def judge(plan: Sum, measured: int) -> Judgement:
    n = len(plan.numbers)
    verdict = Verdict(
        checks=(Claim("the sum").equal(n * (n + 1) / 2, float(measured)).against(-1.0, "none"),)
    )
    row = {"n": n, "sum": measured}
    return Judgement(verdict=verdict, document={**row, "verdict": verdict.to_json()}, rows=(row,))


def together(judged: Sequence[Judgement]) -> Judgement:
    first, *others = judged
    return replace(
        first, document={**first.document, "beside": [other.document["n"] for other in others]}
    )


def carry(plan: Sum, how: How, _: ReportProgress | None) -> int:
    return sum(plan.numbers) + how.options.wrong


SUM: Workload[Sum, int] = Workload(
    name="sum",
    plan=Sum,
    judge=judge,
    options=SumOptions,
    run_options=HowOptions,
    build=build,
    carry=carry,
    variants=lambda asked, plan: [Sum(numbers=plan.numbers[:-1])] if asked.both else [],
    together=together,
    fitted=lambda asked, plan, fabric: (plan, f"on the {fabric}"),
    shown=lambda document: [f"1 to {document['n']} is {document['sum']}"],
)
Summed = Callable[..., Any]


@pytest.fixture
def summed(tmp_path: Path) -> Summed:
    def run(*words: str, workload: Workload[Any, Any] = SUM) -> int:
        parser = OneLineParser(prog="testbed")
        add_parser(parser.add_subparsers(parser_class=OneLineParser), "sum", workload)
        args = parser.parse_args(["sum", *words, "--results", str(tmp_path)])
        from testbed.commands.arguments import refuse_options_without_effect

        refuse_options_without_effect(args)
        return int(args.run(args))

    return run


def test_document_rows_and_exit_code(
    summed: Summed, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert summed("--upto", "4", "--fabric", "simulator", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["n"], document["sum"], document["beside"]) == (4, 10, [])
    folder = Path(document["results"])
    assert (
        folder.parent == tmp_path / "sum"
        and json.loads((folder / "points.jsonl").read_text())["sum"] == 10
    )
    assert summed("--upto", "4", "--fabric", "simulator", "--wrong", "1") == 1
    said = capsys.readouterr().out
    assert "1 to 4 is 11" in said and "note: on the simulator" in said and "verdict: failed" in said


def test_variants_are_run_beside_the_plan(
    summed: Summed, capsys: pytest.CaptureFixture[str]
) -> None:
    assert summed("--upto", "4", "--both", "--fabric", "simulator", "--json") == 0
    assert json.loads(capsys.readouterr().out)["beside"] == [3]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--upto", "13"], "not 13"),
        (["--upto", "1", "--wrong", "2"], "--wrong: it is for --upto of 2 or more"),
        (["--upto", "2", "--wide"], "--wide needs the emulated fabric"),
    ],
)
def test_impossible_options_are_refused_before_the_run(
    summed: Summed, words: list[str], says: str
) -> None:
    with pytest.raises(InputError, match=says):
        summed(*words, "--fabric", "simulator")


def test_a_workload_without_switches_has_no_fabric_to_choose(
    summed: Summed, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = replace(SUM, carry=None, run_options=None, simulate=lambda plan, _: sum(plan.numbers))
    assert summed("--upto", "3", "--json", workload=plain) == 0
    assert json.loads(capsys.readouterr().out)["sum"] == 6
    with pytest.raises(SystemExit):
        summed("--upto", "3", "--fabric", "simulator", workload=plain)
    with pytest.raises(CapabilityError, match="in virtual time only"):
        plain.measured(Sum(numbers=(1,)), How(fabric="emulation"), None)
    virtual = replace(SUM, virtual=True)
    assert SUM.on_switches and not virtual.on_switches
    with pytest.raises(CapabilityError, match="in virtual time only"):
        virtual.measured(Sum(numbers=(1,)), How(fabric="emulation"), None)


@pytest.mark.parametrize(
    ("words", "entered"),
    [
        ("", True),
        ("--fabric emulation", True),
        ("--fabric simulator", False),
        ("--live", False),
        ("--machines 2", False),
    ],
)
def test_a_run_on_switches_is_planned_in_its_sandbox_alone(
    words: str, entered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def enter(argv: Sequence[str]) -> None:
        raise InputError(f"entered with {len(argv)} words")

    asked = ["stream", "ring:4", "--from", "s0", "--to", "nosuch", *words.split()]
    monkeypatch.setattr("testbed.commands.several_machines.emulation_problem", lambda: None)
    monkeypatch.setattr("testbed.commands.several_machines.enter_sandbox", enter)
    monkeypatch.setattr("sys.argv", ["testbed", *asked])
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        assert main(asked) == 2  # what is planned is refused
        assert main([*asked, "--json"]) == 2  # called from a program, which is not to be replaced
    assert said.getvalue().count("entered with") == entered
    assert said.getvalue().count("no node 'nosuch'") == 2 - entered


def test_no_sandbox_is_entered_if_nothing_can_be_emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("testbed.commands.several_machines.emulation_problem", lambda: "no kernel")
    monkeypatch.setattr(
        "testbed.commands.several_machines.enter_sandbox", lambda _: pytest.fail("entered")
    )
    asked = ["stream", "ring:4", "--from", "s0", "--to", "nosuch"]
    monkeypatch.setattr("sys.argv", ["testbed", *asked])
    assert main(asked) == 2
