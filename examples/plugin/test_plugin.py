"""Checks this package with the testbed's suites: ``pytest test_plugin.py``.

The package must be installed.
"""

import pytest

from testbed import conformance


@pytest.mark.parametrize(
    ("group", "name"), [("testbed.routings", "widest"), ("testbed.schedulers", "longest-first")]
)
def test_suite_passes(group: str, name: str) -> None:
    """The object passes the suite of its group."""
    verdict = conformance.check(group, name)
    failed = [f"{check.name}: {check.detail}" for check in verdict.checks if not check.passed]
    assert verdict.passed, failed
