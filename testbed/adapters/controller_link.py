"""The fabric's side of the controller: starts its process, asks, waits for answers.

The process ends with its caller; the switches keep the rules they have.
"""

from __future__ import annotations

import itertools
import json
import select
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from testbed.errors import CapabilityError
from testbed.openflow.rules import FlowRule
from testbed.openflow.session import rules_to_json

DEFAULT_PORT = 6653


@dataclass(frozen=True, kw_only=True)
class PortEvent:
    """A switch said that a port's link went up or down; ``at_s`` on the monotonic clock when the controller heard."""

    at_s: float
    dpid: int
    port: int
    up: bool


@dataclass(frozen=True, kw_only=True)
class FlowCounter:
    """Packets and bytes that one rule has matched."""

    dpid: int
    cookie: int
    priority: int
    match: str
    packets: int
    bytes: int


class ControllerLink:
    """One controller process, listening on ``port`` of 127.0.0.1 of the sandbox.

    Every call waits for the switches' confirmation and raises CapabilityError where they refuse or do not answer.
    """

    def __init__(self, port: int = DEFAULT_PORT) -> None:
        self.port = port
        self._process: subprocess.Popen[str] | None = None
        self._numbers = itertools.count(1)

    def start(self) -> None:
        """Start the process; returns when it is about to listen."""
        words = [sys.executable, "-m", "testbed.adapters.openflow_controller", "--listen-port", str(self.port)]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self._answer(20.0)

    def stop(self) -> None:
        """End the process. The switches keep their rules."""
        if self._process is None:
            return
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(1)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._process = None

    @property
    def pid(self) -> int:
        """The controller's process."""
        assert self._process is not None
        return self._process.pid

    def wait_for_switches(self, dpids: Sequence[int], timeout_s: float) -> None:
        """Return when all are connected."""
        missing = self._ask(timeout_s + 5, do="wait", dpids=list(dpids), timeout_s=timeout_s)["missing"]
        if missing:
            raise CapabilityError(
                f"{len(missing)} of {len(dpids)} switches did not reach the controller within {timeout_s:g} s"
            )

    def install(self, rules: Iterable[FlowRule], plan_id: int) -> float:
        """Install a plan; returns the seconds until every switch had confirmed."""
        return float(self._ask(60, do="install", plan=plan_id, rules=rules_to_json(rules))["seconds"])

    def replace(self, rules: Iterable[FlowRule], plan_id: int, order: Sequence[Sequence[int]] = ()) -> float:
        """Replace a plan without losing packets; ``order``: datapath ids in groups, the sink's first."""
        listed = [list(group) for group in order]
        return float(self._ask(60, do="replace", plan=plan_id, rules=rules_to_json(rules), order=listed)["seconds"])

    def remove(self, plan_id: int) -> None:
        """Take a plan's rules away."""
        self._ask(60, do="remove", plan=plan_id)

    def port_events(self) -> tuple[PortEvent, ...]:
        """All port changes heard of since the start, in order."""
        return tuple(PortEvent(**event) for event in self._ask(10, do="ports")["events"])

    def flow_counters(self) -> tuple[FlowCounter, ...]:
        """Counters of every rule of every switch."""
        return tuple(FlowCounter(**flow) for flow in self._ask(30, do="flows")["flows"])

    def _ask(self, limit_s: float, **request: Any) -> dict[str, Any]:
        number = next(self._numbers)
        assert self._process is not None and self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"id": number, **request}) + "\n")
            self._process.stdin.flush()
        except OSError:
            raise CapabilityError("the OpenFlow controller has died; the switches keep their rules") from None
        answer = self._answer(limit_s)
        if "error" in answer:
            raise CapabilityError(f"OpenFlow controller: {answer['error']}")
        return answer

    def _answer(self, limit_s: float) -> dict[str, Any]:
        assert self._process is not None and self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], limit_s)
        line = self._process.stdout.readline() if ready else ""
        if not line:
            why = "does not answer" if ready == [] else "has died"
            raise CapabilityError(f"the OpenFlow controller {why}; see its messages above")
        answer: dict[str, Any] = json.loads(line)
        return answer
