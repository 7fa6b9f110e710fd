"""The suite of each group of plug-ins, and the registries in which they are."""

from collections.abc import Callable, Mapping
from typing import Any

from testbed.conformance.codes import code_checks
from testbed.conformance.families import family_checks, workload_checks
from testbed.conformance.file_formats import schedule_format_checks, schedule_verifier_checks, traffic_format_checks
from testbed.conformance.routings import demand_routing_checks, routing_checks
from testbed.conformance.schedulers import scheduler_checks
from testbed.conformance.static_routings import static_routing_checks
from testbed.errors import InputError
from testbed.model.file_formats import SCHEDULE_FORMATS, SCHEDULE_VERIFIERS, TRAFFIC_FORMATS
from testbed.model.verdict import Check, Verdict
from testbed.routing.demands.methods import DEMAND_ROUTINGS
from testbed.routing.methods import ROUTINGS
from testbed.scheduling.methods import SCHEDULERS
from topologies.catalog import FAMILIES
from topologies.registry import Registry
from topologies.routing_tables import STATIC_ROUTINGS


def registries() -> dict[str, Registry[Any]]:
    """Group -> its registry, in the order in which they are listed."""
    from testbed.api.workloads.registry import WORKLOADS
    from testbed.download.codes import CODES

    listed: list[Registry[Any]] = [
        ROUTINGS, DEMAND_ROUTINGS, SCHEDULERS, CODES, STATIC_ROUTINGS, FAMILIES, WORKLOADS,
        SCHEDULE_FORMATS, SCHEDULE_VERIFIERS, TRAFFIC_FORMATS,
    ]  # fmt: skip
    return {registry.group: registry for registry in listed}


def check(group: str, name: str) -> Verdict:
    """Judge what is registered there by the group's suite; takes seconds. InputError for an unknown group or name.

    >>> check("testbed.routings", "single").passed
    True
    """
    found = registries()
    if group not in found:
        raise InputError(f"group {group!r}; give one of {', '.join(found)}")
    thing = found[group].find(name)
    if thing is None:
        raise InputError(f"{group}: there is no {name!r}; there are {', '.join(found[group].names())}")
    if ":" in name and group in ("testbed.routings", "testbed.demand_routings"):
        thing = _with_parameter(thing, name.partition(":")[2])
    return Verdict(checks=tuple(_SUITES[group.removeprefix("testbed.")](name, thing))).keyed()


def group_of(name: str) -> str:
    """The group in which that name is; InputError where it is in none or in several."""
    groups = [
        group
        for group, registry in registries().items()
        if name in (*registry.names(), *(plugin.name for plugin in registry.plugins()))
    ]
    if len(groups) != 1:
        where = "no group has it" if not groups else f"it is in {', '.join(groups)}; say which by --group"
        raise InputError(f"plug-in {name!r}: {where}; testbed plugins lists all")
    return groups[0]


def _with_parameter(make: Callable[[str], Any], text: str) -> Any:
    """The routing for the text after the colon, or, where that only says what stands there, for a usual number."""
    for number in (text, "2", "0.05", "1.2"):
        try:
            return make(number)
        except InputError as error:
            wrong = error
    raise wrong


_SUITES: Mapping[str, Callable[[str, Any], list[Check]]] = {
    "routings": lambda _, thing: routing_checks(thing),
    "demand_routings": lambda _, thing: demand_routing_checks(thing),
    "schedulers": lambda _, thing: scheduler_checks(thing),
    "codes": lambda _, thing: code_checks(thing),
    "interconnect_routings": static_routing_checks,
    "topologies": lambda _, thing: family_checks(thing),
    "schedule_formats": lambda _, thing: schedule_format_checks(thing),
    "schedule_verifiers": schedule_verifier_checks,
    "traffic_formats": traffic_format_checks,
    "workloads": lambda _, thing: workload_checks(thing),
}
"""Of each group, but for the package's name before it."""
