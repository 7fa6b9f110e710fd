"""A testbed for parallel communications, as a library.

It has networks, routes, schedules, block sizes, runs, and networks of real switches.

    import testbed

    network = testbed.network("swiss-t1")
    route = testbed.route(network, "s1", "s6")
    with testbed.session(network) as session:
        session.fail("s1->s2")
        print(session.ping("t0", "r31"))

Each name is imported when it is first used (PEP 562), so ``import testbed`` takes milliseconds.
docs/howto/python.md describes all of it.
"""

# Type checkers take this for True. Importing typing would take most of the time of the import.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from testbed.api.calculations import block_size as block_size
    from testbed.api.calculations import network as network
    from testbed.api.calculations import networks as networks
    from testbed.api.calculations import route as route
    from testbed.api.calculations import schedule as schedule
    from testbed.api.calculations import traffic as traffic
    from testbed.api.drawing import draw as draw
    from testbed.api.ratings import DemandsResult as DemandsResult
    from testbed.api.ratings import RorResult as RorResult
    from testbed.api.ratings import demands as demands
    from testbed.api.ratings import ror as ror
    from testbed.api.runs import RunResult as RunResult
    from testbed.api.runs import compare as compare
    from testbed.api.runs import run as run
    from testbed.api.session import Session as Session
    from testbed.api.session import session as session
    from testbed.api.stored import load as load
    from testbed.api.stored import runs as runs
    from testbed.api.tables import data_frame as data_frame
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

    __version__: str

#: Each public name, with the module below ``testbed`` that defines it.
_HOMES = {
    "network": "api.calculations",
    "networks": "api.calculations",
    "route": "api.calculations",
    "ror": "api.ratings",
    "demands": "api.ratings",
    "RorResult": "api.ratings",
    "DemandsResult": "api.ratings",
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
    "data_frame": "api.tables",
    "load": "api.stored",
    "runs": "api.stored",
    "draw": "api.drawing",
    "compare": "api.runs",
    "RunResult": "api.runs",
    "EachLink": "stream.options",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name == "__version__":
        value = import_module("testbed.extras").installed_version()
    elif name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{_hint(name)}")
    else:
        import_module("testbed.api.compile_notice").announce_to_people()
        import_module("testbed.api.displays")
        value = getattr(import_module(f"testbed.{_HOMES[name]}"), name)
        if not isinstance(value, type):
            checked = import_module("testbed.model.options.arguments").with_checked_arguments
            value = import_module("testbed.extras").with_missing_extra_error(checked(value))
    globals()[name] = value
    return value


def _hint(name: str) -> str:
    """Return a hint for a name that is close to a public one."""
    from difflib import get_close_matches

    close = [] if name.startswith("_") else get_close_matches(name, __all__, n=2)
    return f"; did you mean {' or '.join(close)}?" if close else ""


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
