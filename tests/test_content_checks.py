"""Which failed checks of an invalid run no slow machine explains: told by key, whatever their names say."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.conftest import wrong_content


@pytest.mark.parametrize(
    ("checks", "wrong"),
    [
        ([("content", "operation:0", "fails")], ["content"]),
        ([("content", "", "fails")], []),  # a download's: the file came too late
        ([("corrupted-packets", "", "fails")], ["corrupted-packets"]),
        ([("corrupted-packets", "", "cannot-tell")], []),
        ([("verified", "", "fails"), ("ended", "", "fails")], []),
        ([("verified", "", "fails"), ("ended", "", "holds")], ["verified"]),
    ],
)
def test_wrong_content(checks: list[tuple[str, str, str]], wrong: list[str]) -> None:
    told = [
        {"name": key, "key": key, "about": about, "outcome": outcome}
        for key, about, outcome in checks
    ]
    done = subprocess.CompletedProcess([], 4, json.dumps({"verdict": {"checks": told}}), "")
    assert wrong_content(done) == wrong
