"""``testbed.draw``, and the drawings and tables of values in a notebook."""

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

# Failed links: links as text or id, or faults.
Faults = Iterable[str | LinkId | Fault]
# A load of a link, or the counters of a link, which are drawn as their number of packets.
Amount = SupportsFloat | LinkCount
Loads = Mapping[str, Amount] | Mapping[LinkId, Amount]
# Largest number of rows of a table in a notebook; ``testbed.data_frame`` returns all.
MAX_ROWS = 24
# A notebook draws a network with more nodes only on request, by ``testbed.draw``.
MAX_DRAWN = 400
# Largest length of the exact text of a load. A longer one is written as a rounded number.
_MAX_LOAD_CHARACTERS = 7


@dataclass(frozen=True, kw_only=True, repr=False)
class Drawing:
    """A drawing of a network. A notebook shows it; ``save`` writes it.

    Attributes:
        network: The network that is drawn.
        marks: The loads and failures that are drawn on it.
    """

    network: Network
    marks: Marks

    @property
    def svg(self) -> str:
        """The drawing as an SVG document."""
        return network_drawing.picture(self.network, "svg", self.marks).decode()

    def save(self, path: str | Path) -> Path:
        """Write the drawing to a file and return its path.

        Args:
            path: A path that ends with .svg, .png or .pdf.

        Raises:
            InputError: The ending names no format, or the network is too large.
            TopologyError: The file cannot be written.
        """
        draw_network(self.network, path, self.marks)
        return Path(path)

    def _repr_html_(self) -> str:
        return picture(self.svg, repr(self.network).removeprefix("Network(").removesuffix(")"))

    def __repr__(self) -> str:
        loaded = len(self.marks.loads)
        failed = len(self.marks.failed)
        return f"Drawing({self.network!r}, {loaded} loaded links, {failed} failed)"


def draw(
    network: NetworkLike | SplitRoute,
    *,
    route: SplitRoute | None = None,
    loads: Loads | None = None,
    faults: Faults = (),
) -> Drawing:
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
    if isinstance(network, SplitRoute):
        route = network
        resolved = network.network
    else:
        resolved = known_network(network)
    ends: tuple[str, ...] = ()
    if route is not None:
        if route.network.links != resolved.links:
            raise InputError(
                f"draw: the route is of {route.network.name!r}, not of {resolved.name!r}"
            )
        ends = (route.source, route.sink)
        if loads is None:
            loads = {route.network.links[i].id: route.loads[i] for i in route.loaded}
    failed = {_failed_link(fault, resolved): Failure() for fault in faults}
    drawn_loads = _drawn_loads(loads or {}, resolved)
    return Drawing(network=resolved, marks=Marks(loads=drawn_loads, failed=failed, ends=ends))


def _failed_link(fault: str | LinkId | Fault, network: Network) -> LinkId:
    if isinstance(fault, Fault):
        return fault.link
    if not isinstance(fault, str):
        return known_link(fault, network)
    # A fault has times or a kind behind its link.
    if "@" in fault or " " in fault:
        return parse_fault(fault, network).link
    return read_link(fault, network)


def _drawn_loads(loads: Loads, network: Network) -> dict[LinkId, Load]:
    """Return how each load that is not 0 is drawn, relative to the largest load."""
    amounts: dict[LinkId, SupportsFloat] = {}
    for name, load in loads.items():
        amount = load.packets if isinstance(load, LinkCount) else load
        amounts[known_link(name, network)] = amount
    for link, amount in amounts.items():
        if not float(amount) >= 0:
            label = network.links[network.link_index[link]].label
            raise InputError(f"draw: load {amount!r} of {label}; give 0 or more")
    largest = max(map(float, amounts.values()), default=0.0)
    return {
        link: Load(share=float(amount) / largest, words=_load_text(amount))
        for link, amount in amounts.items()
        if amount
    }


def _load_text(load: SupportsFloat) -> str:
    exact = str(load)
    return exact if len(exact) <= _MAX_LOAD_CHARACTERS else f"{float(load):.3g}"


def html_of(value: object) -> str:
    """Return the HTML by which a notebook displays a value: its drawing and its table."""
    network = value if isinstance(value, Network) else getattr(value, "network", None)
    parts = [f"<p><code>{escape(repr(value))}</code></p>"]
    if (
        isinstance(network, Network)
        and installed("matplotlib")
        and 0 < len(network.nodes) <= MAX_DRAWN
    ):
        route = value if isinstance(value, SplitRoute) else getattr(value, "exact_route", None)
        parts.append(draw(network, route=route, faults=_faults_of(value))._repr_html_())
    headings, rows = _table(value)
    if rows:
        columns = [(heading, "") for heading in headings]
        parts.append(table(columns, rows[:MAX_ROWS], type(value).__name__))
        if len(rows) > MAX_ROWS:
            parts.append(
                f"<p>{len(rows) - MAX_ROWS} more rows; testbed.data_frame has them all</p>"
            )
    return "".join(parts)


def _faults_of(value: object) -> Sequence[Fault]:
    """Return the faults of a plan; the ``faults`` of other values may be something else."""
    faults = getattr(value, "faults", ())
    if isinstance(faults, tuple) and all(isinstance(fault, Fault) for fault in faults):
        return faults
    return ()


def _table(value: object) -> tuple[Sequence[str], list[Sequence[str]]]:
    """Return the headings and the rows of a value's table; no rows if it has no table."""
    rows: list[Sequence[str]] = []
    headings: Sequence[str] = ()
    if isinstance(value, SplitRoute):
        headings = ("link", "load")
        for index in sorted(value.loaded, key=lambda i: -value.loads[i]):
            rows.append((value.network.links[index].label, str(value.loads[index])))
    elif isinstance(value, Schedule):
        headings = ("frame", "transfers")
        for number, frame in enumerate(value.frames):
            rows.append((str(number), ", ".join(map(str, frame))))
    elif isinstance(value, RunResult):
        headings = ("outcome", "check", "figures")
        for check in value.verdict.checks:
            rows.append((OUTCOMES[check.outcome], check.name, check_words(check)))
    elif isinstance(value, Network):
        headings = ("link", "capacity", "delay")
        for link in value.links:
            capacity = f"{link.capacity_bps / 1e6:g} Mbit/s"
            rows.append((link.label, capacity, f"{link.delay_s * 1e3:g} ms"))
    elif is_dataclass(value):
        headings = ("", "")
        for field in fields(value):
            if field.repr:
                rows.append((field.name, shortened(getattr(value, field.name), 120)))
    return headings, rows
