"""A testbed for parallel communications, as a library.

It has networks, routes, schedules, block sizes, runs, and networks of real switches.

    import testbed

    network = testbed.network("swiss-t1")
    route = testbed.route(network, "s1", "s6")
    with testbed.session(network) as session:
        session.fail("s1->s2")
        print(session.ping("t0", "r31"))

Each name is imported when it is first used (PEP 562), so ``import testbed`` takes milliseconds.
docs/howto/python.md describes all of it; editors read __init__.pyi (tools/build_stub.py).
"""

# Each public name, with the module below ``testbed`` that defines it.
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
    "compare": "api.comparing",
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

    # Tools look for many private names, which are not misspelt.
    if name.startswith("_"):
        return ""
    close = get_close_matches(name, __all__, n=2)
    if not close:
        return ""
    return f"; did you mean {' or '.join(close)}?"


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
