"""The testbed's own suites judge this package: pytest test_plugin.py (the package has to be installed)."""

import pytest

from testbed.conformance import check


@pytest.mark.parametrize(
    ("group", "name"), [("testbed.routings", "widest"), ("testbed.schedulers", "longest-first")]
)
def test_suite_passes(group: str, name: str) -> None:
    verdict = check(group, name)
    assert verdict.passed, [f"{c.name}: {c.detail}" for c in verdict.checks if not c.passed]
