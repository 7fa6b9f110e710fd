"""Hooks and fixtures that all tests share.

Without emulation a test is skipped with the reason; in CI it fails.

A run is invalid (exit code 4, InvalidRunError) if the machine could not keep up. It says nothing
about the product. Only invalid runs are repeated, and all repetitions are listed at the end. Other
failures count at once.
"""

from __future__ import annotations

import functools
import gc
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.helpers.drawn import SOAK, drawn_of

# The machine's pace is no property of what is tested. Tests that do not say how many examples they draw draw some of
# 50, others each time, those that have failed once first; `make soak` draws 500.
EXAMPLES = 500 if SOAK else drawn_of(50)
settings.register_profile(
    "any pace", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=EXAMPLES
)
settings.load_profile("any pace")
# Of a mutant only whether a test fails counts, the same way each time (make mutants).
settings.register_profile(
    "mutants", database=None, derandomize=True, phases=[Phase.explicit, Phase.generate]
)

T = TypeVar("T")
PAUSES_S = (0.5, 1.0, 2.0)
"""Before the second, third and fourth try of a run that was invalid: what disturbs a machine is often over soon."""
INVALID = 4
SERIAL = "emulation and not unclocked"
"""What `make test` runs after the rest, two at a time."""
LONG = (
    "test_two_machines.py",
    "test_moving_nodes_on_switches.py",
    "test_trial_on_switches.py",
)
"""Files that take long, alone, in either half of `make test`."""
_CONTENT = {("corrupted-packets", ""), ("verified", ""), ("content", "operation")}
"""Key, and kind of what it is about, of the checks that no slow machine can fail (a download's content it can: the file
came too late)."""
_BROKEN = re.compile(r"\b(failed|died|ended early)\b")
"""In a reason: an end of a stream broke, which no slow machine explains."""
_REPEATED = pytest.StashKey[list[str]]()
DRAWN = ("report", "live")
"""Folders whose tests look at drawings."""
REQUIRED = os.environ.get("TESTBED_REQUIRE_EMULATION") == "1"


@functools.cache
def _obstacle() -> str | None:
    from testbed.emulation.machine.capabilities import emulation_problem

    return emulation_problem()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """The second half of `make test` need not import, for ten seconds, the files that have no test of it."""
    if config.option.markexpr != SERIAL or not collection_path.name.startswith("test_"):
        return None
    return True if "mark.emulation" not in collection_path.read_text() else None


def pytest_collection(session: pytest.Session) -> None:
    """Turn off garbage collection while tests are collected, because all of them stay."""
    gc.disable()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Search for garbage 30 times less often than Python does, which saves a tenth of the tests' processor time."""
    gc.freeze()
    gc.set_threshold(20_000)
    gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave what is marked ``long`` or ``soak`` to `make soak`, which sets TESTBED_SOAK, but for what is a short test
    at its usual size. Files that take long begin first: then no worker waits long for another at the end."""
    items.sort(key=lambda item: item.path.name not in LONG)
    if SOAK:
        return
    long = {
        item
        for item in items
        if item.get_closest_marker("long")
        or (item.get_closest_marker("soak") and not item.get_closest_marker("scaled"))
    }
    config.hook.pytest_deselected(items=list(long))
    items[:] = [item for item in items if item not in long]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, Any, Any]:
    """Figures are drawn in full by the tests of drawing, by commands that are started as a user does, and in `make
    soak`; else they are laid out only."""
    from tests.helpers.outlines import figures_outlined

    drawn = SOAK or "figures" in item.path.name or item.path.parent.name in DRAWN
    with nullcontext() if drawn else figures_outlined():
        return (yield)


@pytest.fixture(autouse=True, scope="module")
def _sandboxes_that_need_not_import(request: pytest.FixtureRequest) -> Iterator[None]:
    """Sessions and runs of a test module begin their sandboxes in forks of what has imported all."""
    if "mark.emulation" not in request.path.read_text():
        yield
        return
    from testbed.api.emulated import sandbox_client
    from tests.helpers.warm import FOR_SESSIONS

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sandbox_client, "subprocess", FOR_SESSIONS)
        yield


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test marked ``emulation`` where there is no emulation."""
    if item.get_closest_marker("emulation") is not None and (obstacle := _obstacle()) is not None:
        pytest.skip(f"no emulation here: {obstacle}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, Any, Any]:
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


def wrong_content(done: subprocess.CompletedProcess[str]) -> list[str]:
    """Failed checks of a run's printed verdict that lateness cannot explain: an invalid run with one of them is a
    failure."""
    try:
        verdict = json.loads(done.stdout)["verdict"]
    except (ValueError, KeyError, TypeError):
        return []
    failed = [check for check in verdict["checks"] if check["outcome"] == "fails"]
    if any(
        check.get("key") == "ended" for check in failed
    ):  # what it had not done by then is not there to be verified
        return []
    kinds = [(check.get("key"), check.get("about", "").partition(":")[0]) for check in failed]
    return [check["name"] for check, kind in zip(failed, kinds, strict=True) if kind in _CONTENT]


def _why_invalid(done: Any) -> str | None:
    """The reason where the product calls this run of one of its commands invalid."""
    if not isinstance(done, subprocess.CompletedProcess) or done.returncode != INVALID:
        return None
    wrong = wrong_content(done)
    assert not wrong, (
        f"an invalid run, but no slow machine explains this: {wrong}\n{done.stdout[-2000:]}"
    )
    try:
        said = json.loads(done.stdout)["verdict"]["invalid"]
    except (ValueError, KeyError, TypeError):
        said = None
    return str(said or done.stderr.strip()[-400:] or "no reason given")


class ValidRun:
    """``valid_run(run)``: what ``run()`` returns once it is valid; four tries, then the test fails with all the
    reasons."""

    def __init__(self, repeated: list[str]) -> None:
        self._repeated = repeated

    def __call__(self, run: Callable[[], T]) -> T:
        from testbed.errors import InvalidRunError

        reasons: list[str] = []
        for pause_s in (*PAUSES_S, None):
            try:
                found = run()
                reason = _why_invalid(found)
                if reason is None:
                    return found
            except InvalidRunError as error:
                reason = str(error)
            assert not _BROKEN.search(reason), reason
            reasons.append(reason)
            _note(self._repeated, reason)
            if pause_s is not None:
                time.sleep(pause_s)
        pytest.fail("no valid run in four: " + "; ".join(reasons), pytrace=False)


@pytest.fixture(scope="session")
def valid_run(pytestconfig: pytest.Config) -> ValidRun:
    """Repeats a run that is invalid; see ``ValidRun``."""
    return ValidRun(pytestconfig.stash.setdefault(_REPEATED, []))


@pytest.fixture(scope="session")
def timely(pytestconfig: pytest.Config) -> Callable[[Callable[[], str | None]], None]:
    """``timely(run)``: a bound on time or speed that one run in four must keep, as a busy machine may break it at any
    moment.

    ``run`` asserts all that does not depend on the clock, each time, and returns None or in words which bound it broke.
    """

    def check(run: Callable[[], str | None]) -> None:
        broken: list[str] = []
        while len(broken) <= len(PAUSES_S):
            told = run()
            if told is None:
                return
            broken.append(told)
            _note(pytestconfig.stash.setdefault(_REPEATED, []), told)
            time.sleep((*PAUSES_S, 0.0)[len(broken) - 1])
        pytest.fail("bound broken every time: " + "; ".join(broken), pytrace=False)

    return check


def _note(repeated: list[str], why: str) -> None:
    repeated.append(f"{os.environ.get('PYTEST_CURRENT_TEST', '').split(' ')[0]}: {why}")


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Tell every run that was repeated, and why."""
    if repeated := config.stash.get(_REPEATED, []):
        terminalreporter.section("runs repeated on a busy machine")
        for line in repeated:
            terminalreporter.line(line)


@pytest.fixture(scope="session")
def sandboxed(valid_run: ValidRun) -> Callable[..., Any]:
    """``sandboxed(function, *arguments, timeout_s=120)``: call a function of a test module inside a sandbox of its own.

    Arguments and result are JSON values. InvalidRunError inside repeats the call; any other exception fails the test
    with its traceback. ``timeout_s`` is there against a hang: a slow machine may take several times as long as a fast
    one.
    """
    from tests.helpers.warm import run

    def call(function: Callable[..., Any], *arguments: Any, timeout_s: float = 120.0) -> Any:
        words = [
            sys.executable,
            "-P",
            "-m",
            "tests.helpers.sandboxed_call",
            function.__code__.co_filename,
        ]
        words += [function.__name__, json.dumps(arguments)]
        return valid_run(
            lambda: _result(run(words, capture_output=True, text=True, timeout=timeout_s))
        )

    return call


def _result(done: subprocess.CompletedProcess[str]) -> Any:
    from testbed.errors import InvalidRunError

    if done.returncode == 1 and done.stderr.endswith("\nINVALID\n"):
        raise InvalidRunError(done.stderr.removesuffix("\nINVALID\n").rpartition("\n")[2])
    assert done.returncode == 0, (
        f"exit code {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    )
    return json.loads(done.stdout.rsplit("RESULT ", 1)[1])
