"""A short download over real switches while a link is down: whole, and about as long as predicted."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.helpers.warm import run

pytestmark = pytest.mark.emulation


def test_a_file_arrives_over_switches_while_a_link_is_down(valid_run: Callable[..., Any]) -> None:
    words = [
        sys.executable,
        "-m",
        "testbed.cli",
        "download",
        "swiss-t1",
        "--from",
        "s1",
        "--to",
        "s6",
        "--fabric",
        "emulation",
    ]
    words += ["--file-size", "2e6", "--json"]
    done = valid_run(lambda: run(words, capture_output=True, text=True, timeout=100, check=False))
    assert done.returncode == 0, done.stderr + done.stdout
    document = json.loads(done.stdout)
    assert document["fabric"] == "emulation" and document["verified"]
    assert document["packets"]["sent"]["measured"] > document["packets"]["needed"]
