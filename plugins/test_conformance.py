"""The packages in this folder pass the suites of their groups, and are found by entry points."""

from __future__ import annotations

import json

import pytest

from testbed.cli import main
from testbed.conformance import check


@pytest.mark.parametrize(
    ("group", "name"),
    [
        ("testbed.schedule_formats", "xml"),
        ("testbed.schedule_verifiers", "xml"),
        ("testbed.schedule_verifiers", "json"),
        ("testbed.traffic_formats", "et"),
        ("testbed.traffic_formats", "et.json"),
    ],
)
def test_each_format_passes_the_suite_of_its_group(group: str, name: str) -> None:
    verdict = check(group, name)
    assert verdict.passed, [f"{c.name}: {c.detail}" for c in verdict.checks if not c.passed]


def test_plugins_are_listed_with_their_packages(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plugins", "list", "--json"]) == 0
    groups = json.loads(capsys.readouterr().out)["groups"]
    loaded = set()
    for group in groups.values():
        for plugin in group["plugins"]:
            if plugin["error"] is None:
                loaded.add((plugin["name"], plugin["package"]))
    assert loaded >= {
        ("xml", "testbed-collectives 1.0"),
        ("et", "testbed-chakra 1.0"),
        ("et.json", "testbed-chakra 1.0"),
    }
