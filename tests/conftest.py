"""What all tests share: emulation tests are skipped with the reason where the machine refuses, unless CI forbids skips."""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

REQUIRED = os.environ.get("TESTBED_REQUIRE_EMULATION") == "1"

_CALL = """
import importlib.util, json, sys
path, name, arguments = sys.argv[1:4]
spec = importlib.util.spec_from_file_location("sandboxed_test", path)
module = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = module
spec.loader.exec_module(module)
result = getattr(module, name)(*json.loads(arguments))
print("\\nRESULT " + json.dumps(result))
"""


@functools.cache
def _obstacle() -> str | None:
    from testbed.adapters.capabilities import emulation_obstacle

    return emulation_obstacle()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test marked ``emulation`` where there is no emulation."""
    if item.get_closest_marker("emulation") is not None and (obstacle := _obstacle()) is not None:
        pytest.skip(f"no emulation here: {obstacle}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Under TESTBED_REQUIRE_EMULATION=1 a skipped emulation test is a failure."""
    report: Any = yield
    if (
        REQUIRED
        and report.skipped
        and item.get_closest_marker("emulation") is not None
        and not hasattr(report, "wasxfail")
    ):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        report.outcome = "failed"
        report.longrepr = f"TESTBED_REQUIRE_EMULATION=1 forbids to skip: {reason}"
    return report


@pytest.fixture(scope="session")
def sandboxed() -> Callable[..., Any]:
    """``sandboxed(function, *arguments, timeout_s=60)``: call a function of a test module inside a sandbox of its own.

    Arguments and result are JSON values. An exception inside fails the test with its traceback.
    """

    def call(function: Callable[..., Any], *arguments: Any, timeout_s: float = 60.0) -> Any:
        from testbed.adapters.sandbox import run_in_sandbox

        path = function.__code__.co_filename
        words = [sys.executable, "-c", _CALL, path, function.__name__, json.dumps(arguments)]
        done = run_in_sandbox(words, timeout_s=timeout_s)
        assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        return json.loads(done.stdout.rsplit("RESULT ", 1)[1])

    return call
