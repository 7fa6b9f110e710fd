"""Wavelength plans, and the measurements of their runs.

A plan says in which round each lightpath is lit, and on which wavelength of each of its fibres. A
colour is a round together with a wavelength, so a round has as many colours as a fibre has
wavelengths. Without conversion, each frame of a liquid schedule becomes one colour (Gabrielyan
2007, 3.2.2).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import Literal, get_args

from testbed.errors import InputError
from testbed.model.short_repr import ShortRepr
from topologies import JsonObject, LinkId, Network, label_of

# Wavelength-selective cross-connects (wsxc) keep the wavelength of a lightpath.
# Wavelength-interchanging ones (wixc) may change it at every switch.
Switching = Literal["wsxc", "wixc"]

SWITCHINGS: tuple[Switching, ...] = get_args(Switching)
# Largest number of wavelengths per fibre.
MAX_WAVELENGTHS = 10_000


@dataclass(frozen=True, kw_only=True)
class Lightpath:
    """A path of light from one end point to another. A pair of end points may have several.

    Attributes:
        source: The first node.
        target: The last node.
        links: The directed fibres of the path, in order.

    Raises:
        InputError: The fibres are not a path from the source to the target.
    """

    source: str
    target: str
    links: tuple[LinkId, ...]

    def __post_init__(self) -> None:
        if not self.links:
            raise InputError(
                f"lightpath {self.source!r} -> {self.target!r} crosses no fibre; give it a path"
            )
        ends = (self.links[0][0], self.links[-1][1])
        is_connected = all(a[1] == b[0] for a, b in pairwise(self.links))
        if ends != (self.source, self.target) or not is_connected:
            raise InputError(
                f"lightpath {self.source!r} -> {self.target!r}: its fibres are no path between"
                " these two"
            )

    @property
    def label(self) -> str:
        """The source and the target, for messages and reports."""
        return label_of((self.source, self.target, 0))


@dataclass(frozen=True, kw_only=True, order=True)
class LitPath:
    """A lightpath that is lit in a round.

    Attributes:
        lightpath: Its index in the plan.
        wavelengths: The wavelength of each of its fibres, from 0.
    """

    lightpath: int
    wavelengths: tuple[int, ...]

    @property
    def conversions(self) -> int:
        """The number of switches that change the wavelength."""
        return len([a for a, b in pairwise(self.wavelengths) if a != b])


@dataclass(frozen=True, kw_only=True, repr=False)
class WavelengthPlan(ShortRepr):
    """Assigns every lightpath to one round, and to a wavelength of each of its fibres.

    In a round, no two lightpaths have the same wavelength of a fibre (see
    ``check_wavelength_plan``).

    Attributes:
        network: The network.
        lightpaths: The lightpaths.
        wavelengths: Number of wavelengths of each fibre.
        switching: "wixc" if cross-connects can change the wavelength of a lightpath, else "wsxc".
        method: Name of the method.
        rounds: The lit paths of each round.
        bottleneck_load: Number of lightpaths over the most loaded fibre.
        bound: Number of rounds that every plan needs.
        optimal: True if no plan has fewer rounds; None if that is unknown.
        frames: Number of frames of the liquid schedule, each of which is a colour of the plan; None
            for plans without such frames.
        pattern: The pairs of end points, as text.
        seed: Seed of the random choices, including the probes of a run.
        baselines: Number of rounds that each greedy method needs, by name.
        solve_s: Computing time of all methods together, in seconds.
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
        """The number of changes of the wavelength, at all switches in all rounds."""
        return sum(lit.conversions for lit in chain.from_iterable(self.rounds))

    def lit_wavelengths(self, number: int) -> dict[LinkId, set[int]]:
        """Return the wavelengths of each fibre that carry light in a round."""
        wavelengths_of: dict[LinkId, set[int]] = {}
        for lit in self.rounds[number]:
            links = self.lightpaths[lit.lightpath].links
            for link, wavelength in zip(links, lit.wavelengths, strict=True):
                wavelengths_of.setdefault(link, set()).add(wavelength)
        return wavelengths_of

    def to_json(self) -> JsonObject:
        """Return the plan as a JSON object; ``plan`` has the lit paths of each round."""
        fields = dict(vars(self))
        # The seed has no part in the plan itself.
        del fields["seed"]
        return {
            **fields,
            "network": self.network.name,
            "lightpaths": len(self.lightpaths),
            "rounds": len(self.rounds),
            "conversions": self.conversions,
            "plan": [list(map(self._lit_path_to_json, lit_paths)) for lit_paths in self.rounds],
            "baselines": dict(self.baselines),
        }

    def _lit_path_to_json(self, lit: LitPath) -> JsonObject:
        path = self.lightpaths[lit.lightpath]
        return {
            "source": path.source,
            "target": path.target,
            "links": [self.network.link(*link).label for link in path.links],
            "wavelengths": list(lit.wavelengths),
        }


@dataclass(frozen=True, kw_only=True)
class RoundMeasurements:
    """The measurements of one round. All counts are packets unless they say otherwise.

    Attributes:
        lightpaths: Number of lit paths.
        sent: Packets over lit paths.
        delivered: Packets that arrived at their host on their wavelength.
        misdelivered: Packets that arrived at another host or on another wavelength, or that should
            have been dropped.
        wrong_wavelength_packets: Packets that were sent on a dark wavelength, by the switch that
            should drop them.
        dropped: Packets that the drop rules counted, by switch.
        setup_s: Time until all switches forwarded by the rules of the round, in seconds.
        incomplete: Names of the lit paths that did not deliver every packet.
        fabric: "simulator" or "emulation".
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
        """Return the measurements as a JSON object, with the sums over all switches."""
        fields = dict(vars(self))
        del fields["fabric"]
        fields["wrong_wavelength_packets"] = sum(self.wrong_wavelength_packets.values())
        fields["dropped"] = sum(self.dropped.values())
        fields["incomplete"] = list(self.incomplete)
        return fields
