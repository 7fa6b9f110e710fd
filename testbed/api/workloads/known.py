"""The workload of a plan: whose class the plan is of."""

from __future__ import annotations

from typing import Any

from testbed.api.workloads.files_and_light import STRIPING, WAVELENGTHS
from testbed.api.workloads.streams import METAPATH, STREAM
from testbed.api.workloads.transfers import BULK, DOWNLOAD
from testbed.errors import UsageError
from testbed.model.workload import Workload

WORKLOADS: tuple[Workload[Any, Any], ...] = (STREAM, METAPATH, BULK, DOWNLOAD, STRIPING, WAVELENGTHS)


def workload_of(plan: object) -> Workload[Any, Any]:
    """UsageError for what is no plan of any workload."""
    for workload in WORKLOADS:
        if isinstance(plan, workload.plan):
            return workload
    kinds = ", ".join(workload.plan.__name__ for workload in WORKLOADS)
    raise UsageError(f"plan: got a {type(plan).__name__}; give one of {kinds} (testbed.stream_plan(...) makes one)")
