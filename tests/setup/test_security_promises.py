"""What SECURITY.md promises is tested: every row of its tables names a test that is there."""

from __future__ import annotations

import re

from tests.helpers.paths import ROOT

TEXT = (ROOT / "SECURITY.md").read_text()
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def test_every_promise_names_its_test() -> None:
    rows = [
        line
        for line in TEXT.splitlines()
        if line.startswith("| ") and not line.startswith("| promise")
    ]
    assert len(rows) > 15
    assert [row for row in rows if not NAMED.search(row)] == []


def test_every_test_that_is_named_is_there() -> None:
    missing = [
        f"{path}::{name}"
        for path, name in NAMED.findall(TEXT)
        if not (ROOT / path).is_file() or f"def {name}(" not in (ROOT / path).read_text()
    ]
    assert missing == []
