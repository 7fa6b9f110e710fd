"""Python that pages show runs as it stands."""

from __future__ import annotations

import re
import warnings

import pytest

from tests.helpers.paths import ROOT
from topologies.files.foreign import NetworkNote

WORKLOADS = ROOT / "docs" / "workloads"


def test_the_routes_of_the_routing_page(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(
        r"^```python\n(.*?)^```", (WORKLOADS / "routing.md").read_text(), re.MULTILINE | re.DOTALL
    )
    exec(compile(code, "routing.md", "exec"), {})
    assert "('s1->s2', '1/4')" in capsys.readouterr().out


def test_arbiter_of_bulk_page_answers_as_comments_say() -> None:
    section = (WORKLOADS / "bulk_verdict.md").read_text().split("## In Python")[1]
    lines = [line[4:] for line in section.splitlines() if line.startswith("    ")]
    names: dict[str, object] = {}
    answers = []
    for line in lines:
        call, _, comment = line.partition("  #")
        if call.rstrip().endswith(".granted"):
            answers.append((eval(call, names), eval(comment.strip(" #").split(":")[0])))
        else:
            exec(line, names)
    assert len(answers) == 3
    assert all(answer == said for answer, said in answers)


def test_the_values_of_the_networks_page_are_networks() -> None:
    page = (WORKLOADS.parent / "reference" / "networks.md").read_text()
    (code,) = re.findall(
        r"^```python\n(.*?)^```",
        page.split("## Graphs and dictionaries")[1],
        re.MULTILINE | re.DOTALL,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NetworkNote)
        exec(compile(code, "networks.md", "exec"), {})
