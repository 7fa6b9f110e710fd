"""Which lightpaths are lit, and how, for the command and the library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from testbed.model.naming.names import NetworkLike
from testbed.model.options import kinds
from testbed.model.options.option import ENDS, ROUTED, RUN, RUNNING, SENT, option, options
from testbed.wavelengths.plan import Switching

PatternLike = str | Sequence[tuple[str, str]]
"""Pairs of end points, or as text: "all-to-all", pairs ("A:B,C:D"), a file of them."""

CONVERSIONS: Mapping[str, Switching] = {"none": "wsxc", "full": "wixc", "wsxc": "wsxc", "wixc": "wixc"}
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
    pattern: PatternLike = option(
        default="all-to-all",
        kw_only=False,
        group=SENT,
        metavar="all-to-all|A:B,...|FILE",
        help='pairs of end points, or a file: {"pairs": [["e1", "e2"], ...]}',
    )
    wavelengths: int | None = option(
        default=None, kind=kinds.some, group=ENDS, metavar="W", help="per fibre (default: the network's own)"
    )
    switching: str | None = option(
        former=("--switching wsxc=none wixc=full",),
        default=None,
        flag="--wavelength-conversion",
        choices=tuple(CONVERSIONS),
        metavar="{none,full}",
        group=ROUTED,
        help="keep wavelengths (wsxc switches) or change them (wixc) (default: the network's own, else none)",
    )
    method: str = option(
        default="liquid",
        flag="--scheduling",
        metavar="METHOD",
        group=ROUTED,
        help="liquid, first-fit, random-fit, most-used or longest-first",
    )
    time_limit_s: float = option(
        default="10",
        flag="--solver-time-limit",
        kind=kinds.search_limit,
        group=ROUTED,
        metavar="TIME",
        help="of the search",
    )
    seed: int = option(default=1, kind=kinds.seed, group=RUN, help="seed of everything random")


@options
class ProbeOptions:
    """What a run sends over the lightpaths of a round."""

    packets: int = option(
        default=20,
        flag="--packets-per-path",
        metavar="N",
        kind=kinds.some,
        group=SENT,
        help="over each path in a run",
        only=(RUNNING,),
    )
    wrong: int = option(
        default=2,
        flag="--wrong-wavelength-packets",
        metavar="N",
        kind=kinds.few,
        group=SENT,
        help="on wrong wavelengths, twice this number per path",
        only=(RUNNING,),
    )
