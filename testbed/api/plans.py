"""The plan of each workload from a network and plain arguments: what ``testbed.run`` carries out.

The keyword arguments (``testbed.api.options``) are the fields of the workload's options class, named in each docstring; one that is not there is a
UsageError that names those that are. Nothing is run; the same arguments and seed give the same plan on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from testbed.errors import UsageError, require_type
from testbed.model.naming.networks import NetworkLike, known_network

if TYPE_CHECKING:
    from testbed.api.options import (
        MetapathPlanOptions,
        MobilityPlanOptions,
        StreamOptions,
    )
    from testbed.metapath.plan import MetapathPlan
    from testbed.stream.plan import StreamPlan
    from topologies import Network

T = TypeVar("T")
_SIMPLE: Mapping[str, tuple[type | tuple[type, ...], str]] = {
    "int": (int, "a whole number"),
    "float": ((int, float), "a number"),
    "str": (str, "a text"),
    "bool": (bool, "True or False"),
}
"""Annotations of options that are checked here, and what to give."""


def stream_plan(network: NetworkLike, source: str, sink: str, **given: Unpack[StreamOptions]) -> StreamPlan:
    """A coded stream. ``options``: fields of ``PlanOptions`` (method, layers, faults, duration_s, seed) and of ``StreamParameters``
    (rate_pps, source_packets, symbol_bytes, tolerance, ...). ``faults``: "each-link" (as the command does), "none", faults as
    texts ("s1->s2@0.5-1 down") or ``Fault`` values.

    >>> plan = stream_plan("ring:4", "s0", "s2", faults=["s0->s1@2-3"], duration_s=4, rate_pps=200)
    >>> plan.faults[0].start_s, plan.stream.rate_pps, plan.method
    (2.0, 200, 'capillary')
    """
    options: dict[str, Any] = {**given}
    from testbed.stream.plan import StreamParameters
    from testbed.stream.planning import EachLink, PlanOptions, build_plan

    found = _with_ends(network, source, sink)
    faults = options.pop("faults", "each-link")
    each: dict[str, Any] = {"each-link": EachLink()}
    requested = each[faults] if isinstance(faults, str) and faults in each else _faults(faults, found)
    names = {f.name for f in fields(StreamParameters)}
    _check_names("stream_plan", options, PlanOptions, StreamParameters)
    coding = {name: options.pop(name) for name in list(options) if name in names}
    stream = _built(lambda: StreamParameters(**coding))
    plan, _ = _built(
        lambda: build_plan(found, source, sink, PlanOptions(**{"stream": stream, "faults": requested, **options}))
    )
    return plan


def metapath_plan(network: NetworkLike, source: str, sink: str, **given: Unpack[MetapathPlanOptions]) -> MetapathPlan:
    """A plain stream whose routing answers failures. ``options``: fields of ``MetapathPlan``; ``faults`` as of ``stream_plan``."""
    options: dict[str, Any] = {**given}
    from testbed.metapath.plan import MetapathPlan, default_duration_s, each_cable_faults
    from testbed.metapath.source import MetapathOptions

    found = _with_ends(network, source, sink)
    faults = options.pop("faults", "each-link")
    if faults == "each-link":
        faults = each_cable_faults(found, source, sink)
    requested = _faults(faults, found)
    _check_names("metapath_plan", options, MetapathPlan)
    rate_pps = options.setdefault("rate_pps", MetapathPlan.rate_pps)
    source_options = options.setdefault("options", MetapathOptions())
    options.setdefault("duration_s", default_duration_s(requested, rate_pps, source_options))
    return _built(lambda: MetapathPlan(network=found, source=source, sink=sink, faults=requested, **options))


def mobility_plan(
    frames: NetworkLike | Sequence[NetworkLike], source: str, sink: str, **given: Unpack[MobilityPlanOptions]
) -> StreamPlan:
    """A coded stream while nodes move. ``frames``: a mobile network (``manet:...``), which walks on for ``count`` frames, or one
    network a frame. ``options``: fields of ``Movement`` and ``StreamParameters``, ``faults`` (a list, or a law of random ones),
    ``seed``.

    >>> plan = mobility_plan("manet:nodes=20", "n0", "n5", count=2, frame_s=1.0, rate_pps=100)
    >>> len(plan.changes), plan.changes[0].at_s
    (1, 1.8)
    """
    options: dict[str, Any] = {**given}
    from testbed.stream.mobility import MobilityOptions, Movement, mobility_plan
    from testbed.stream.plan import StreamParameters

    requested: Sequence[NetworkLike]
    if isinstance(frames, Sequence) and not isinstance(frames, str):
        requested = frames
    else:
        requested = _walk(frames, options.pop("count", 20))
    networks = [known_network(frame) for frame in requested]
    faults, seed = options.pop("faults", ()), options.pop("seed", 1)
    _check_names("mobility_plan", options, Movement, StreamParameters)
    names = {f.name for f in fields(Movement)}
    movement = {name: options.pop(name) for name in list(options) if name in names}

    def build() -> StreamPlan:
        requested_faults = _faults(faults, networks[0]) if networks else ()
        how = MobilityOptions(
            movement=Movement(**movement), stream=StreamParameters(**options), faults=requested_faults, seed=seed
        )
        return mobility_plan(networks, source, sink, how)[0]

    return _built(build)


def _walk(network: object, count: int) -> list[NetworkLike]:
    """One name a frame of the mobile network."""
    from testbed.stream.mobility import frame_names

    require_type(network, str, "frames", 'the name of a mobile network ("manet:...") or a list of networks')
    require_type(count, int, "count", "a whole number of frames")
    return list(frame_names([str(network)], count))


def _with_ends(network: NetworkLike, *nodes: str) -> Network:
    found = known_network(network)
    for node in nodes:
        require_type(node, str, "node", "the id of a node of the network")
        found.node(node)
    return found


def _faults(requested: Any, network: Network) -> Any:
    """Faults as texts or values, to values; a law of random faults is passed on."""
    from testbed.faults.grammar import no_faults, parse_poisson
    from testbed.faults.reading import read_faults
    from testbed.faults.schedules import PoissonFaults
    from testbed.stream.planning import EachLink

    if isinstance(requested, (PoissonFaults, EachLink)):
        return requested
    if isinstance(requested, str) and requested.startswith("poisson:"):
        return parse_poisson(requested)
    if isinstance(requested, str):
        requested = () if no_faults(requested) else [requested]
    return read_faults(requested, network)


def _check_names(function: str, options: Mapping[str, Any], *kinds: type) -> None:
    """Raise UsageError for an option that none of these classes has, or a number or text that is none."""
    known = {field.name: field for kind in kinds for field in fields(kind)}
    for name, value in options.items():
        if name not in known:
            raise UsageError(f"{function}: there is no argument {name!r}; there are {', '.join(known)}")
        simple = _SIMPLE.get(str(known[name].type))
        if simple is not None:
            require_type(value, simple[0], name, simple[1])


def _built(build: Callable[[], T]) -> T:
    """What ``build`` gives; a value of the wrong kind deep inside becomes UsageError."""
    from testbed.errors import TestbedError

    try:
        return build()
    except TestbedError:
        raise
    except (TypeError, AttributeError) as error:
        raise UsageError(f"an argument is of the wrong kind: {error}") from error
