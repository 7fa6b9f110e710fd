"""The registry of workloads, which finds the workload of a plan by the plan's class.

Built-in workloads are registered here. Plug-ins add theirs by the entry-point group
``testbed.workloads``.
"""

from testbed.api.workloads import LISTED, load
from testbed.campaigns.workload import CAMPAIGN
from testbed.errors import UsageError
from testbed.metapath.workload import METAPATH
from testbed.model.workload import Work, Workload
from testbed.stream.workload import STREAM
from topologies.registry import Registry


def _check_workload(thing: object) -> str | None:
    return None if isinstance(thing, Workload) else "it is no testbed.model.workload.Workload"


WORKLOADS: Registry[Work] = Registry("testbed.workloads", "workload", _check_workload)
_BUILT_IN: tuple[Work, ...] = (STREAM, METAPATH, *map(load, LISTED), CAMPAIGN)
for _workload in _BUILT_IN:
    # Two commands may have the same workload.
    if _workload.name not in WORKLOADS.builtin_names():
        WORKLOADS.register(_workload.name, _workload)


def stored_under(name: str) -> Work | None:
    """Return the built-in workload whose command stores its runs under this name, or None."""
    if name in LISTED:
        return load(name)
    for builtin_name in WORKLOADS.builtin_names():
        workload = WORKLOADS.find(builtin_name)
        if workload is not None and workload.stored_as == name:
            return workload
    return None


def workload_of(plan: object) -> Work:
    """Return the workload of a plan, which is determined by the plan's class.

    Plug-ins are imported only if no built-in workload has plans of this class.

    Raises:
        UsageError: The value is not a plan of any workload.
    """
    for names in (WORKLOADS.builtin_names(), WORKLOADS.names()):
        for name in names:
            workload = WORKLOADS.find(name)
            if workload is not None and isinstance(plan, workload.plan):
                return workload
    plan_classes = []
    for name in WORKLOADS.names():
        workload = WORKLOADS.find(name)
        if workload is not None:
            plan_classes.append(workload.plan.__name__)
    raise UsageError(
        f"plan: got a {type(plan).__name__}; give one of {', '.join(plan_classes)} "
        "(testbed.stream_plan(...) makes one)"
    )
