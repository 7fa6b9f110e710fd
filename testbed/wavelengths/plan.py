"""Wavelength plans: which lightpath is lit in which round on which wavelength of each of its fibres; and what a run of
one gave.

A frame of a liquid schedule times a wavelength is a colour; a round is as many colours as a fibre has wavelengths
(Gabrielyan 2007, 3.2.2).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, get_args

from testbed.errors import InputError
from testbed.model.short_repr import ShortRepr
from topologies import JsonObject, LinkId, Network, label_of

Switching = Literal["wsxc", "wixc"]
"""Wavelength-selective cross-connects keep a lightpath's wavelength; wavelength-interchanging ones may change it at
every switch."""

SWITCHINGS: tuple[Switching, ...] = get_args(Switching)
MAX_WAVELENGTHS = 10_000


@dataclass(frozen=True, kw_only=True)
class Lightpath:
    """One transfer: from an end point to another over directed fibres, in order. A pair may have several."""

    source: str
    target: str
    links: tuple[LinkId, ...]

    def __post_init__(self) -> None:
        if not self.links:
            raise InputError(
                f"lightpath {self.source!r} -> {self.target!r} crosses no fibre; give it a path"
            )
        if (self.links[0][0], self.links[-1][1]) != (self.source, self.target) or any(
            a[1] != b[0] for a, b in pairwise(self.links)
        ):
            raise InputError(
                f"lightpath {self.source!r} -> {self.target!r}: its fibres are no path between these two"
            )

    @property
    def label(self) -> str:
        return label_of((self.source, self.target, 0))


@dataclass(frozen=True, kw_only=True, order=True)
class LitPath:
    """One lightpath in a round: its index, and the wavelength (0 and up) of each of its fibres."""

    lightpath: int
    wavelengths: tuple[int, ...]

    @property
    def conversions(self) -> int:
        """Switches that change the wavelength."""
        return sum(a != b for a, b in pairwise(self.wavelengths))


@dataclass(frozen=True, kw_only=True, repr=False)
class WavelengthPlan(ShortRepr):
    """Every lightpath in exactly one round, each wavelength of each fibre once a round (``check_wavelength_plan`` says
    so).

    ``bound``: rounds that no plan can do without. ``optimal``: True where no plan has fewer rounds, None where that is
    unknown. ``frames``: colours used in all, where the plan was made of frames (WSXC), else None. ``pattern``: which
    pairs, in words; ``seed``: of the packets of a run; ``baselines``: greedy method -> rounds that it needs;
    ``solve_s``: that finding all of them took.
    """

    network: Network
    lightpaths: tuple[Lightpath, ...]
    wavelengths: int
    switching: Switching
    method: str
    rounds: tuple[tuple[LitPath, ...], ...]
    bottleneck_load: int
    bound: int
    optimal: bool | None
    frames: int | None = None
    pattern: str = "all-to-all"
    seed: int = 1
    baselines: Mapping[str, int] = field(default_factory=dict, hash=False)
    solve_s: float = field(default=0.0, compare=False)

    @property
    def conversions(self) -> int:
        return sum(lit.conversions for lit_paths in self.rounds for lit in lit_paths)

    def lit_wavelengths(self, number: int) -> dict[LinkId, set[int]]:
        """Fibre -> wavelengths that carry light in the round."""
        lit: dict[LinkId, set[int]] = {}
        for path in self.rounds[number]:
            for link, wavelength in zip(
                self.lightpaths[path.lightpath].links, path.wavelengths, strict=True
            ):
                lit.setdefault(link, set()).add(wavelength)
        return lit

    def to_json(self) -> JsonObject:
        """JSON-ready: rounds as lists of lightpaths with their wavelengths."""
        return {
            **{name: value for name, value in vars(self).items() if name != "seed"},
            "network": self.network.name,
            "lightpaths": len(self.lightpaths),
            "rounds": len(self.rounds),
            "conversions": self.conversions,
            "plan": [[self._lit_json(lit) for lit in lit_paths] for lit_paths in self.rounds],
            "baselines": dict(self.baselines),
        }

    def _lit_json(self, lit: LitPath) -> JsonObject:
        path = self.lightpaths[lit.lightpath]
        links = [self.network.link(*link).label for link in path.links]
        return {
            "source": path.source,
            "target": path.target,
            "links": links,
            "wavelengths": list(lit.wavelengths),
        }


@dataclass(frozen=True, kw_only=True)
class RoundMeasurements:
    """What one round gave, in packets. ``misdelivered``: arrived at a wrong host, on a wrong wavelength or though injected as
    wrong.

    ``wrong_wavelength_packets`` and ``dropped``: switch node -> packets that were put on a dark wavelength of a fibre into it, and
    packets that its drop rules counted.
    """

    lightpaths: int
    sent: int
    delivered: int
    misdelivered: int
    wrong_wavelength_packets: Mapping[str, int] = field(hash=False)
    dropped: Mapping[str, int] = field(hash=False)
    setup_s: float = 0.0
    incomplete: Sequence[str] = ()
    fabric: str = "simulator"

    def to_json(self) -> JsonObject:
        named = {name: value for name, value in vars(self).items() if name != "fabric"}
        counts = {
            name: sum(named[name].values()) for name in ("wrong_wavelength_packets", "dropped")
        }
        return {**named, **counts, "incomplete": list(self.incomplete)}
