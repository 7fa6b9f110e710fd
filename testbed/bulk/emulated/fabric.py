"""Bulk transfers on real switches: the network that stays between runs, and what its counters say of one."""

from contextlib import ExitStack
from functools import partial
from pathlib import Path

from testbed.bulk.coordinator import OnDeadlock
from testbed.bulk.emulated.endpoints import agents_here
from testbed.bulk.emulated.measured_run import MTU_BYTES, run_on
from testbed.bulk.emulated.run import RunOptions
from testbed.bulk.emulated.several_machines import run_over
from testbed.bulk.measurements import BulkMeasurements
from testbed.bulk.plan import BulkPlan
from testbed.machines.adapters.cluster import Machines, machines_up
from testbed.machines.adapters.platform import Here, here
from testbed.machines.machines_request import MachinesRequest
from testbed.model.progress import Progress, ReportProgress
from testbed.model.wiring import wire


class EmulatedBulkFabric(ExitStack):
    """Runs plans on switches, inside the sandbox only; a context manager: plans of the same network share one.

    ``store``: a directory that keeps every message that arrived whole, None for none. ``machines``: over those that are
    requested, which stay up between runs.
    """

    def __init__(
        self,
        *,
        on_deadlock: OnDeadlock = "retreat",
        store: Path | None = None,
        calibrate: bool = True,
        machines: MachinesRequest | None = None,
    ) -> None:
        super().__init__()
        self._options = RunOptions(on_deadlock=on_deadlock, store=store, calibrate=calibrate)
        self._requested = machines
        self._up: Machines | None = None
        self._network: Here | None = None

    def run(self, plan: BulkPlan, report_progress: ReportProgress | None = None) -> BulkMeasurements:
        """Run the plan. Raises InvalidRunError where this machine cannot carry as many paths at once as a frame holds,
        CapabilityError where it cannot build the network, MachineDiedError where one of several dies."""
        report = report_progress or (lambda _: None)
        if self._requested is not None:
            return self._run_over(self._requested, plan, report)
        try:
            return run_here(self._network_for(plan, report), plan, report, self._options)
        finally:
            if plan.faults or plan.killed:
                self._leave()  # what a fault did to the network is not for the next run

    def _run_over(
        self, requested: MachinesRequest, plan: BulkPlan, report_progress: ReportProgress
    ) -> BulkMeasurements:
        if self._up is None:
            report_progress(Progress(done_s=0, total_s=1, doing="starting the machines"))
            self._up = self.enter_context(machines_up(requested))
        return run_over(self._up, requested, plan, report_progress, self._options)

    def _leave(self) -> None:
        self._network = None
        self.close()

    def _network_for(self, plan: BulkPlan, report_progress: ReportProgress) -> Here:
        if self._network is None or self._network.wiring.network.links != plan.network.links:
            self._leave()
            report_progress(Progress(done_s=0, total_s=1, doing="building the network"))
            self._network = self.enter_context(here(wire(plan.network), mtu=MTU_BYTES, controlled=False))
        return self._network


def run_here(platform: Here, plan: BulkPlan, report_progress: ReportProgress, options: RunOptions) -> BulkMeasurements:
    """As ``run_on``, with the end points' processes on this machine."""
    agents = partial(agents_here, platform.network, platform.wiring)
    return run_on(platform, plan, report_progress, options, agents)
