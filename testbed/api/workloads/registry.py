"""The workload of a plan: whose class the plan is of. Ours are registered here, plug-ins come by the group
``testbed.workloads``."""

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
_OURS: tuple[Work, ...] = (STREAM, METAPATH, *map(load, LISTED), CAMPAIGN)
for _workload in _OURS:
    if _workload.name not in WORKLOADS.builtin_names():  # two commands may be of one workload
        WORKLOADS.register(_workload.name, _workload)


def stored_under(name: str) -> Work | None:
    """The workload whose command keeps its runs under that name; None where it is none of ours."""
    if name in LISTED:
        return load(name)
    ours = (WORKLOADS.find(one) for one in WORKLOADS.builtin_names())
    return next((one for one in ours if one is not None and one.stored_as == name), None)


def workload_of(plan: object) -> Work:
    """UsageError for what is no plan of any workload; plug-ins are looked for only where it is none of ours."""
    for names in (WORKLOADS.builtin_names(), WORKLOADS.names()):
        for name in names:
            workload = WORKLOADS.find(name)
            if workload is not None and isinstance(plan, workload.plan):
                return workload
    kinds = ", ".join(
        w.plan.__name__ for name in WORKLOADS.names() if (w := WORKLOADS.find(name)) is not None
    )
    raise UsageError(
        f"plan: got a {type(plan).__name__}; give one of {kinds} (testbed.stream_plan(...) makes one)"
    )
