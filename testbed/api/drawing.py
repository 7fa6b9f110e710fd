"""What a notebook shows: ``testbed.draw``, and the drawings and tables of networks, routes, schedules, plans, runs and
sessions."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import SupportsFloat

from testbed.api.runs import RunResult, shortened
from testbed.bulk.measurements import LinkCount
from testbed.errors import CapabilityError, InputError, require_type
from testbed.extras import installed, pip_command
from testbed.faults.fault import Fault
from testbed.faults.grammar import parse_fault
from testbed.model.naming.names import NetworkLike, known_link, known_network, read_link
from testbed.model.routes import SplitRoute
from testbed.model.schedule import Schedule
from testbed.report.drawing import network_drawing
from testbed.report.drawing.network_drawing import Failure, Load, Marks, draw_network
from testbed.report.markup import escape
from testbed.report.page import picture
from testbed.report.sections import table
from testbed.report.wording import OUTCOMES, check_words
from topologies.network import LinkId, Network

Faults = Iterable[str | LinkId | Fault]
Amount = SupportsFloat | LinkCount
"""A load, or the counters of a link, whose packets are meant."""
Loads = Mapping[str, Amount] | Mapping[LinkId, Amount]
MAX_ROWS, MAX_DRAWN = 24, 400
"""Rows of a table in a notebook, and nodes of a network that is drawn without being asked for."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Drawing:
    """A drawing of a network. A notebook shows it; ``save`` writes it."""

    network: Network
    marks: Marks

    @property
    def svg(self) -> str:
        """The drawing as an SVG document."""
        return network_drawing.picture(self.network, "svg", self.marks).decode()

    def save(self, path: str | Path) -> Path:
        """Write it as .svg, .png or .pdf, by the ending. InputError for another, TopologyError where it cannot be."""
        draw_network(self.network, path, self.marks)
        return Path(path)

    def _repr_html_(self) -> str:
        return picture(self.svg, repr(self.network).removeprefix("Network(").removesuffix(")"))

    def __repr__(self) -> str:
        return f"Drawing({self.network!r}, {len(self.marks.loads)} loaded links, {len(self.marks.failed)} failed)"


def draw(
    network: NetworkLike | SplitRoute, *, route: SplitRoute | None = None, loads: Loads | None = None,
    faults: Faults = (),
) -> Drawing:  # fmt: skip
    """Draw a network, with loads of links as arrows and failed links as crosses.

    Args:
        network: A network, or anything that ``testbed.network`` takes; or a route.
        route: A route over the network, whose loads are drawn.
        loads: A dictionary from links to numbers, or the counters of a session (packets).
        faults: Links, faults as ``--faults`` writes them, or ``Fault`` values.

    Raises:
        InputError: A link is unknown.
        CapabilityError: matplotlib is not installed.

    >>> draw("ring:4", loads={"s0->s1": 0.5}, faults=["s1->s2"])
    Drawing(Network('ring:4': 4 switches, 4 hosts, 16 links), 1 loaded links, 1 failed)
    """
    if not installed("matplotlib"):
        raise CapabilityError(
            f"drawings need matplotlib, which is not installed; {pip_command('figures')}"
        )
    require_type(route, (SplitRoute, type(None)), "draw: route", "what testbed.route(...) returns")
    require_type(
        loads, (Mapping, type(None)), "draw: loads", "a dictionary of links and their loads"
    )
    require_type(faults, Iterable, "draw: faults", "a list of links or faults")
    route = network if isinstance(network, SplitRoute) else route
    found = network.network if isinstance(network, SplitRoute) else known_network(network)
    if route is not None and route.network.links != found.links:
        raise InputError(f"draw: the route is of {route.network.name!r}, not of {found.name!r}")
    if route is not None and loads is None:
        loads = {route.network.links[i].id: route.loads[i] for i in route.loaded}
    failed = {_failed(one, found): Failure() for one in faults}
    ends = (route.source, route.sink) if route is not None else ()
    shares = {
        link: Load(share=share, words=words)
        for link, (share, words) in _shares(loads or {}, found).items()
    }
    return Drawing(network=found, marks=Marks(loads=shares, failed=failed, ends=ends))


def _failed(fault: str | LinkId | Fault, network: Network) -> LinkId:
    if isinstance(fault, Fault):
        return fault.link
    if isinstance(fault, str):
        return (
            parse_fault(fault, network).link
            if "@" in fault or " " in fault
            else read_link(fault, network)
        )
    return _known(fault, network)


def _known(link: str | LinkId, network: Network) -> LinkId:
    return known_link(link, network)


def _shares(loads: Loads, network: Network) -> dict[LinkId, tuple[float, str]]:
    """Link -> (share of the largest load, the load in words), those that are not 0."""
    found: dict[LinkId, SupportsFloat] = {
        _known(link, network): load.packets if isinstance(load, LinkCount) else load
        for link, load in loads.items()
    }
    for link, load in found.items():
        if not float(load) >= 0:
            raise InputError(
                f"draw: load {load!r} of {network.links[network.link_index[link]].label}; give 0 or more"
            )
    largest = max(map(float, found.values()), default=0.0)
    return {link: (float(load) / largest, _words(load)) for link, load in found.items() if load}


def _words(load: SupportsFloat) -> str:
    exact = str(load)
    return exact if len(exact) <= 7 else f"{float(load):.3g}"


def html_of(value: object) -> str:
    """The drawing and the table of a value, as a notebook shows it."""
    network = value if isinstance(value, Network) else getattr(value, "network", None)
    parts = [f"<p><code>{escape(repr(value))}</code></p>"]
    if (
        isinstance(network, Network)
        and installed("matplotlib")
        and 0 < len(network.nodes) <= MAX_DRAWN
    ):
        route = value if isinstance(value, SplitRoute) else getattr(value, "exact_route", None)
        parts.append(draw(network, route=route, faults=_faults_of(value))._repr_html_())
    heads, rows = _table(value)
    if rows:
        parts.append(table([(head, "") for head in heads], rows[:MAX_ROWS], type(value).__name__))
        if len(rows) > MAX_ROWS:
            parts.append(
                f"<p>{len(rows) - MAX_ROWS} more rows; testbed.data_frame has them all</p>"
            )
    return "".join(parts)


def _faults_of(value: object) -> Sequence[Fault]:
    faults = getattr(value, "faults", ())
    return (
        faults
        if isinstance(faults, tuple) and all(isinstance(one, Fault) for one in faults)
        else ()
    )


def _table(value: object) -> tuple[Sequence[str], list[Sequence[str]]]:
    """Headings and rows."""
    if isinstance(value, SplitRoute):
        loaded = sorted(value.loaded, key=lambda i: -value.loads[i])
        return ("link", "load"), [
            (value.network.links[i].label, str(value.loads[i])) for i in loaded
        ]
    if isinstance(value, Schedule):
        return ("frame", "transfers"), [
            (str(k), ", ".join(map(str, frame))) for k, frame in enumerate(value.frames)
        ]
    if isinstance(value, RunResult):
        checks = value.verdict.checks
        return ("outcome", "check", "figures"), [
            (OUTCOMES[one.outcome], one.name, check_words(one)) for one in checks
        ]
    if isinstance(value, Network):
        words = [
            (link.label, f"{link.capacity_bps / 1e6:g} Mbit/s", f"{link.delay_s * 1e3:g} ms")
            for link in value.links
        ]
        return ("link", "capacity", "delay"), list(words)
    if is_dataclass(value):
        return ("", ""), [
            (field.name, shortened(getattr(value, field.name), 120))
            for field in fields(value)
            if field.repr
        ]
    return (), []
