"""Help pages: options by subject, an example each that is a command; mistakes name their own
help page."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from testbed.api.workloads import PURPOSES
from testbed.cli import COMMANDS, build_parser, main
from testbed.commands.help_pages import by_subject
from testbed.model.options.option import GROUPS


@cache
def commands() -> dict[str, argparse.ArgumentParser]:
    found = build_parser(None)
    (chosen,) = (
        action for action in found._actions if isinstance(action, argparse._SubParsersAction)
    )
    return dict(chosen.choices)


def test_every_command_has_an_example_and_every_example_is_a_command() -> None:
    for name, parser in commands().items():
        first, *rest = shlex.split(vars(parser)["example"])
        assert first == "testbed" and rest[0] == name
        build_parser(name).parse_args(rest)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_lists_every_option_once_under_its_subject(name: str) -> None:
    parser = commands()[name]
    listed = [
        action.dest for _, own in by_subject(parser._optionals._group_actions) for action in own
    ]
    assert sorted(listed) == sorted(action.dest for action in parser._optionals._group_actions)
    page = parser.format_help()
    assert page.endswith(f"example: {vars(parser)['example']}\n")
    folded = [
        action
        for group in parser._action_groups
        if hasattr(group, "page")
        for action in group._group_actions
    ]
    for action in parser._actions:
        for option in action.option_strings if action.help != argparse.SUPPRESS else ():
            assert action in folded or option in page


@pytest.mark.parametrize(
    ("command", "option", "named"),
    [
        ("simulate", "--help-nac", "--nac-slack"),
        ("simulate", "--help-ft-drb", "--hop-limit"),
        ("stream", "--help-ft-drb", "--probe-every"),
    ],
)
def test_a_long_family_of_options_has_a_page_of_its_own(
    command: str, option: str, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, option]) == 0
    own = capsys.readouterr().out
    assert main([command, "--help"]) == 0
    page = capsys.readouterr().out
    assert named in own and named not in page and option in page


def test_the_page_of_testbed_groups_its_commands_as_the_readme_does(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([]) == 0
    page = capsys.readouterr().out
    assert main(["--help"]) == 0 and capsys.readouterr().out == page
    readme = (Path(__file__).parents[3] / "README.md").read_text()
    for heading in PURPOSES:
        names = [f"`{name}`" for name, command in COMMANDS.items() if command.purpose == heading]
        assert f"| {heading} | {', '.join(names)} |" in readme and f"\n{heading}:\n" in page
    assert all(f"\n  {name} " in page for name in COMMANDS)


def test_a_long_page_has_headings_and_a_usage_of_a_few_lines() -> None:
    page = commands()["stream"].format_help()
    assert all(f"\n{heading}:\n" in page for heading in GROUPS)
    usage = page.split("\n\n")[0]
    assert "--from NODE --to NODE" in usage and usage.count("\n") < 3


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            "stream swiss-t1 --from s1 --to s6 --fualts none",
            "did you mean --faults?; see testbed stream --help",
        ),
        ("topology show swiss-t1 --jsn", "see testbed topology show --help"),
        ("route swiss-t1 s1 s6", "see testbed route --help"),
        (
            "run crossbar:4 --compute-nodes 1 --io-nodes 2 python prog.py --x",
            "... -- python prog.py --x",
        ),
        ("stream swiss-t1 --from s1 --to s6 --flow s2", "write A:B"),
        ("route swiss-t1 --flow s1-s6", "write A:B"),
        ("schedule swiss-t1 --pattern t0:r5,t1", "write A:B"),
        ("bulk swiss-t1 --pattern t0:x9", "x9"),
        ("stream swiss-t1 --from s1 --to s6 --faults s1->s2@1", "missing end time"),
        ("stream swiss-t1 --from s1 --to s6 --faults s1->s9@1-2", "s1->s9"),
        ("sfio crossbar:4 --compute-nodes 1 --io-nodes 2 --faults s1->r1@1-2,one-way", "one-way"),
    ],
)
def test_a_mistake_is_one_line_that_names_what_to_give(
    words: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(shlex.split(words)) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and expected in said


def test_a_bounded_queue_is_refused_by_name_where_the_simulator_has_none(tmp_path: Path) -> None:
    from testbed.emulation.machine.fabric import choose_fabric
    from testbed.errors import InputError
    from topologies import Link, Network, Node

    nodes = (Node(id="a", kind="switch"), Node(id="b", kind="switch"))
    trace = tmp_path / "rate.trace"
    trace.write_text("10\n20\n")

    def network(impairments: str) -> Network:
        return Network(
            name="pair",
            nodes=nodes,
            links=(
                Link(
                    source="a",
                    target="b",
                    impairments=impairments,
                    attributes={"max_queue_size": 7},
                ),
            ),
        )

    with pytest.raises(
        InputError,
        match="a->b: max_queue_size 7: the simulated fabric has queues before rate traces",
    ):
        choose_fabric("simulator", network("loss:0.1"))
    assert choose_fabric("simulator", network(f"trace:{trace}")) == "simulator"


def _works(*found: str) -> Callable[[str], bool]:
    """Of the trials of what the kernel can do: those succeed that name one of these."""
    return lambda commands: any(one in commands for one in found)


def test_network_with_delays_is_emulated_if_a_process_can_delay(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from testbed.emulation.machine.fabric import choose_fabric
    from testbed.errors import CapabilityError

    where = "testbed.emulation.machine.capabilities"
    monkeypatch.setattr(f"{where}.emulation_problem", lambda: None)
    monkeypatch.setattr(f"{where}.in_sandbox", lambda: False)
    network = tmp_path / "late.json"
    assert main(["topology", "export", "two-switch", str(network)]) == 0
    monkeypatch.setattr(f"{where}._works", _works())
    assert choose_fabric(None, str(network)) == "emulation"
    network.write_text(network.read_text().replace('"delay_s": 0.0', '"delay_s": 0.001'))
    capsys.readouterr()

    monkeypatch.setattr(f"{where}._works", _works("netem"))
    assert choose_fabric(None, str(network)) == "emulation"
    assert capsys.readouterr().err == ""

    monkeypatch.setattr(f"{where}._works", _works("mirred"))
    assert choose_fabric(None, str(network), quiet=True) == "emulation"
    assert capsys.readouterr().err == ""
    assert choose_fabric(None, str(network)) == "emulation"
    said = capsys.readouterr().err
    assert said.startswith(
        "testbed: note: this kernel has no netem, so a process delays the packets of 12 links"
    )
    assert said.count("\n") == 1 and "the 12 of less than 2 ms" in said

    monkeypatch.setattr(f"{where}._works", _works())
    assert choose_fabric(None, str(network)) == "simulator"
    assert capsys.readouterr().err.startswith(
        "testbed: running on the simulated fabric: the network has link delays"
    )
    with pytest.raises(CapabilityError, match="--fabric simulator"):
        choose_fabric("emulation", str(network))


def test_help_of_a_command_and_the_version_have_short_ways(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pages = []
    for words in (
        ["route", "--help"],
        ["help", "route"],
        ["--help"],
        ["help"],
        ["--version"],
        ["-V"],
    ):
        assert main(words) == 0
        pages.append(capsys.readouterr().out)
    assert pages[0] == pages[1] != pages[2] == pages[3] and pages[4] == pages[5]


def test_usage_shows_every_value_of_a_required_option() -> None:
    usage = commands()["tunnel"].format_help()
    assert usage.startswith("usage: testbed tunnel NETWORK --between NODE NODE [OPTION ...]")
