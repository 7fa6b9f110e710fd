"""A striped-file run from options to measurements and verdict, on either fabric."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.errors import InputError
from testbed.model.verdict import Verdict
from testbed.striping.emulated.loopback import run_over_loopback
from testbed.striping.judgement import Prediction, document, judge, predict
from testbed.striping.measurements import StripingMeasurements
from testbed.striping.planning import StripingOptions, StripingPlan, build_striping_plan
from topologies import load_network

MTU_BYTES = 9000
TIMEOUT_S = 2.0


@dataclass(frozen=True, kw_only=True)
class StripingSession:
    """One finished run."""

    plan: StripingPlan
    run: StripingMeasurements
    prediction: Prediction | None
    verdict: Verdict

    def document(self) -> dict[str, Any]:
        """Everything tables and figures are drawn from, JSON-ready."""
        return dict(document(self.plan, self.run, self.prediction, self.verdict))


def plan_session(network: str, options: StripingOptions) -> StripingPlan:
    """The plan of that network (catalogue name or file). InputError and TopologyError for what cannot be run."""
    return build_striping_plan(load_network(network), options, now=time.monotonic)


def run_session(
    plan: StripingPlan, root: Path, *, fabric: str = "emulation", mtu: int = MTU_BYTES, tell: Any = None
) -> StripingSession:
    """Run it; ``root`` gets the subfiles, a directory for each I/O node. Emulation must be called inside the sandbox.

    Raises InputError where ``root`` cannot be written, CapabilityError where the network cannot be built.
    """
    from sfio_emu.errors import SfioError

    _claim(root, plan)
    try:
        if fabric == "simulator":
            run = run_over_loopback(plan, root, mtu=mtu)
        else:
            from testbed.striping.emulated.fabric import EmulatedStriping

            with EmulatedStriping(plan, root, mtu=mtu, timeout_s=TIMEOUT_S, tell=tell) as network:
                run = network.run()
    except SfioError as error:
        raise InputError(f"the striped file could not be opened: {error}") from None
    prediction = predict(plan, mtu)
    verdict = judge(plan, run, prediction, timeout_s=TIMEOUT_S)
    return StripingSession(plan=plan, run=run, prediction=prediction, verdict=verdict)


def _claim(root: Path, plan: StripingPlan) -> None:
    """Directories of the I/O nodes, without the subfiles of an earlier run."""
    try:
        for node in plan.placement.io:
            (root / node).mkdir(parents=True, exist_ok=True)
            (root / node / "data").unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"--root {root}: {error.strerror}; choose a directory that can be written") from None
