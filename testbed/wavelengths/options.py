"""The options of wavelength plans and their runs, for the command and the library."""

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

# Pairs of end points. As text: "all-to-all", pairs such as "A:B,C:D", or the name of a file.
PatternLike = str | Sequence[tuple[str, str]]

# The switching of a plan for each value of --wavelength-conversion.
CONVERSIONS: Mapping[str, Switching] = {
    "none": "wsxc",
    "full": "wixc",
    "wsxc": "wsxc",
    "wixc": "wixc",
}


@options
class WavelengthOptions:
    """Lightpaths, fibres, and the method of assignment; see ``WavelengthPlan``.

    The seed determines all random choices, including the packets of a run.
    """

    network: NetworkLike = option(
        kw_only=False,
        positional=True,
        metavar="NETWORK",
        help="network: a catalogue name (optical-cloud, ring:5, ...) or a file",
    )
    pattern: PatternLike = sent(
        default="all-to-all",
        kw_only=False,
        metavar="all-to-all|A:B,...|FILE",
        help='pairs of end points, or a file: {"pairs": [["e1", "e2"], ...]}',
    )
    wavelengths: int | None = ends(
        default=None,
        kind=kinds.some,
        metavar="W",
        help="wavelengths per fibre (default: the network's number)",
    )
    switching: str | None = routed(
        default=None,
        flag="--wavelength-conversion",
        choices=tuple(CONVERSIONS),
        metavar="{none,full}",
        help="wavelength conversion: none (wsxc switches) or full (wixc switches) (default: "
        "that of the network, otherwise none)",
    )
    method: str = routed(
        default="liquid",
        flag="--scheduling",
        metavar="METHOD",
        help="assignment method: liquid, first-fit, random-fit, most-used or longest-first",
    )
    time_limit_s: float = sought(help="time limit of the search, in seconds")
    seed: int = running(default=1, kind=kinds.seed, help="seed of all random choices")


@options
class ProbeOptions:
    """The packets that a run sends over the lightpaths of a round."""

    packets: int = sent(
        default=20,
        flag="--packets-per-path",
        kind=kinds.some,
        help="packets per path in a run",
        only=(RUNNING,),
    )
    wrong: int = sent(
        default=2,
        flag="--wrong-wavelength-packets",
        kind=kinds.few,
        help="packets on wrong wavelengths, per path: this number from its source, and this "
        "number on one of its fibres",
        only=(RUNNING,),
    )
