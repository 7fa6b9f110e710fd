"""The strain of a machine that keeps up with everything, for tests that change one figure of it."""

from __future__ import annotations

from testbed.model.machine.load import MachineLoad

CALM = MachineLoad(
    cpu_fraction=0.5,
    stolen_fraction=0.0,
    pressure_fraction=0.05,
    busiest_task="ovs-vswitchd",
    busiest_task_fraction=0.3,
    mean_lateness_s=0.0003,
    worst_lateness_s=0.004,
)
