"""A testbed for parallel communications, as a library: networks, routes, schedules, block sizes, runs, and networks
held up.

    import testbed

    network = testbed.network("swiss-t1")
    route = testbed.route(network, "s1", "s6")
    with testbed.session(network) as session:
        session.fail("s1->s2")
        print(session.ping("t0", "r31"))

Each name is imported when it is first requested (PEP 562): ``import testbed`` alone costs nothing. docs/howto/python.md
tells all of it.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from testbed.api.calculations import block_size as block_size
    from testbed.api.calculations import network as network
    from testbed.api.calculations import route as route
    from testbed.api.calculations import schedule as schedule
    from testbed.api.calculations import traffic as traffic
    from testbed.api.drawing import draw as draw
    from testbed.api.runs import RunResult as RunResult
    from testbed.api.runs import compare as compare
    from testbed.api.runs import data_frame as data_frame
    from testbed.api.runs import run as run
    from testbed.api.session import Session as Session
    from testbed.api.session import session as session
    from testbed.bulk.workload import bulk_plan as bulk_plan
    from testbed.campaigns.workload import campaign_plan as campaign_plan
    from testbed.download.workload import download_plan as download_plan
    from testbed.metapath.workload import metapath_plan as metapath_plan
    from testbed.simulation.workload import simulation_plan as simulation_plan
    from testbed.stream.options import EachLink as EachLink
    from testbed.stream.workload import mobility_plan as mobility_plan
    from testbed.stream.workload import stream_plan as stream_plan
    from testbed.striping.workload import striping_plan as striping_plan
    from testbed.tunnel.workload import tunnel_plan as tunnel_plan
    from testbed.wavelengths.workload import wavelength_plan as wavelength_plan

_HOMES = {
    "network": "api.calculations",
    "route": "api.calculations",
    "traffic": "api.calculations",
    "schedule": "api.calculations",
    "block_size": "api.calculations",
    "stream_plan": "stream.workload",
    "bulk_plan": "bulk.workload",
    "download_plan": "download.workload",
    "tunnel_plan": "tunnel.workload",
    "metapath_plan": "metapath.workload",
    "mobility_plan": "stream.workload",
    "campaign_plan": "campaigns.workload",
    "striping_plan": "striping.workload",
    "wavelength_plan": "wavelengths.workload",
    "simulation_plan": "simulation.workload",
    "run": "api.runs",
    "session": "api.session",
    "Session": "api.session",
    "data_frame": "api.runs",
    "draw": "api.drawing",
    "compare": "api.runs",
    "RunResult": "api.runs",
    "EachLink": "stream.options",
}
"""Name -> the module below ``testbed`` in which it lies."""

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import_module("testbed.api.compile_notice").announce_to_people()
    import_module("testbed.api.displays")
    found = getattr(import_module(f"testbed.{_HOMES[name]}"), name)
    if not isinstance(found, type):
        found = import_module("testbed.extras").with_missing_extra_error(found)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
