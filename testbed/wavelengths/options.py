"""Which lightpaths are lit, and how, for the command and the library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from testbed.model.naming.names import NetworkLike
from testbed.model.options import kinds
from testbed.model.options.option import (
    RUNNING,
    ends,
    option,
    options,
    routed,
    running,
    sent,
    sought,
)
from testbed.wavelengths.plan import Switching

PatternLike = str | Sequence[tuple[str, str]]
"""Pairs of end points, or as text: "all-to-all", pairs ("A:B,C:D"), a file of them."""

CONVERSIONS: Mapping[str, Switching] = {
    "none": "wsxc",
    "full": "wixc",
    "wsxc": "wsxc",
    "wixc": "wixc",
}
"""Whether switches change wavelengths, as an option says it or by the switches' names, and as a plan does."""


@options
class WavelengthOptions:
    """Lightpaths, fibres, and how they are assigned; see ``WavelengthPlan``. ``seed``: of everything random, the
    packets' too."""

    network: NetworkLike = option(
        kw_only=False,
        positional=True,
        metavar="NETWORK",
        help="a catalogue name (optical-cloud, ring:5, ...) or a file",
    )
    pattern: PatternLike = sent(
        default="all-to-all",
        kw_only=False,
        metavar="all-to-all|A:B,...|FILE",
        help='pairs of end points, or a file: {"pairs": [["e1", "e2"], ...]}',
    )
    wavelengths: int | None = ends(
        default=None, kind=kinds.some, metavar="W", help="per fibre (default: the network's own)"
    )
    switching: str | None = routed(
        default=None,
        flag="--wavelength-conversion",
        choices=tuple(CONVERSIONS),
        metavar="{none,full}",
        help="keep wavelengths (wsxc switches) or change them (wixc) (default: the network's own, else none)",
    )
    method: str = routed(
        default="liquid",
        flag="--scheduling",
        metavar="METHOD",
        help="liquid, first-fit, random-fit, most-used or longest-first",
    )
    time_limit_s: float = sought(help="of the search")
    seed: int = running(default=1, kind=kinds.seed, help="seed of everything random")


@options
class ProbeOptions:
    """What a run sends over the lightpaths of a round."""

    packets: int = sent(
        default=20,
        flag="--packets-per-path",
        kind=kinds.some,
        help="over each path in a run",
        only=(RUNNING,),
    )
    wrong: int = sent(
        default=2,
        flag="--wrong-wavelength-packets",
        kind=kinds.few,
        help="on wrong wavelengths, twice this number per path",
        only=(RUNNING,),
    )
