"""The rates that links have in a run: the network's own rates, scaled by one factor.

A network of 100 Gbit/s links cannot be emulated at its own rates. What a run shows depends on the
ratios of the rates, so all of them are multiplied by the same factor.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from testbed.errors import InputError
from testbed.model.machine.capacity import USUAL_RATE_BPS
from testbed.model.machine.load import LOWER_LINK_RATE
from testbed.model.naming.names import NetworkLike, has_own_rates
from testbed.model.short_repr import ShortRepr
from testbed.report.column_units import in_words
from topologies import LinkId, Network
from topologies.impairments import to_text

# A note lists the rates of a network up to this number, and otherwise only the extremes.
_MAX_LISTED_RATES = 3
# A packet of 1500 bytes takes a second at this rate.
_MIN_SCALED_BPS = 8 * 1500
# Above this, a factor is given to the nearest whole number.
_PRECISE_BELOW = 1000


@dataclass(frozen=True, kw_only=True, repr=False)
class LinkRates(ShortRepr):
    """The rates of the links in a run, and how they follow from the user's network.

    Attributes:
        own: The user's network.
        has_own_rates: Whether the user's network states rates, instead of only having the default.
        fastest_bps: The rate that ``own`` gives to the fastest link that carries data.
        requested_bps: The rate that the user gives to every link, or None.
        limit_bps: The largest rate of a link that the machine carries.
    """

    own: Network
    has_own_rates: bool
    fastest_bps: float
    requested_bps: float | None = None
    limit_bps: float = USUAL_RATE_BPS

    @property
    def in_proportion(self) -> bool:
        """True if the rates are in the proportions of the network's own."""
        return self.has_own_rates and self.requested_bps is None

    @property
    def divisor(self) -> float:
        """The number by which the network's own rates are divided, 1 or more."""
        return max(1.0, self.fastest_bps / self.limit_bps)

    @cached_property
    def network(self) -> Network:
        """The network with the rates of the run."""
        if not self.in_proportion:
            return at_rate(self.own, self.requested_bps or self.limit_bps)
        if self.divisor == 1:
            return self.own
        links = []
        for link in self.own.links:
            # In this order of operations the fastest link gets exactly the limit.
            rate_bps = link.capacity_bps / self.fastest_bps * self.limit_bps
            links.append(replace(link, capacity_bps=rate_bps))
        return replace(self.own, links=tuple(links))

    @property
    def note(self) -> str:
        """A description of how the network's own rates are used, or "" if it has no own rates."""
        own_bps = {link.capacity_bps for link in self.own.links}
        if not self.has_own_rates or own_bps == {self.requested_bps}:
            return ""
        listed = f"the network's own link rates ({_listed(own_bps)})"
        if self.requested_bps is not None:
            return (
                f"{listed} are not used: --link-rate gives every link {_rate(self.requested_bps)}"
            )
        if self.divisor == 1:
            return f"{listed} are used"
        now = _listed({link.capacity_bps for link in self.network.links})
        return f"{listed} are run as {now}, scaled by 1/{_number(self.divisor)}"

    def limit_note(self, limit_text: str) -> str:
        """Return the note that says how the limit decided the rates, or "" if it did not.

        Args:
            limit_text: A description of the limit that begins with "links of".
        """
        if not self.in_proportion:
            return limit_text
        return "" if self.divisor == 1 else f"fastest {limit_text}"


def rate_notes(rates: LinkRates | None) -> list[str]:
    """Return the notes of a verdict about the rates of the links."""
    return [] if rates is None or not rates.note else [rates.note]


def overload_hint(rates: LinkRates | None) -> str:
    """Return the advice to a user whose machine does not keep up."""
    if rates is None or not rates.in_proportion:
        return LOWER_LINK_RATE
    # --link-rate would give every link the same rate.
    return (
        "run testbed doctor --calibrate, which finds the rates that this machine carries, or leave"
        " the machine to this run"
    )


def link_rates(
    requested: NetworkLike, network: Network, used: Iterable[LinkId], link_rate_bps: float | None
) -> LinkRates:
    """Return the rates of links in a run.

    Args:
        requested: The network, as the user gave it.
        network: The same network, read.
        used: The links that carry data. The fastest of them decides the factor.
        link_rate_bps: The rate that the user gives to every link, or None.

    Raises:
        InputError: A link that carries data would be too slow.
    """
    used_links = [network.link(*link) for link in used] or network.links
    rates = LinkRates(
        own=network,
        has_own_rates=has_own_rates(requested, network),
        fastest_bps=max(link.capacity_bps for link in used_links),
        requested_bps=link_rate_bps,
    )
    slowest = min(used_links, key=lambda link: (link.capacity_bps, link.label))
    slowest_bps = slowest.capacity_bps / rates.divisor
    if rates.in_proportion and rates.divisor > 1 and slowest_bps < _MIN_SCALED_BPS:
        raise InputError(
            f"{slowest.label} would have {_rate(slowest_bps)}, because all rates are scaled by"
            f" 1/{_number(rates.divisor)}: no run ends in time; give closer rates, or all links one"
            " rate with --link-rate"
        )
    return rates


def at_rate(network: Network, link_rate_bps: float) -> Network:
    """Return the network with the same rate for every link.

    Raises:
        InputError: A link is always impaired.
    """
    refuse_impaired(network)
    links = [replace(link, capacity_bps=link_rate_bps) for link in network.links]
    return replace(network, links=tuple(links))


def refuse_impaired(network: Network) -> None:
    """Raise InputError for a link that is always impaired: no throughput of TCP is predicted."""
    impaired = next((link for link in network.links if link.impairments), None)
    if impaired is not None:
        raise InputError(
            f"{impaired.label} is always impaired ({to_text(impaired.impaired_by)}): no throughput"
            " over it is predicted; impair it for a time (--faults), or take testbed stream"
        )


def _listed(rates_bps: set[float]) -> str:
    rates = [_rate(rate_bps) for rate_bps in sorted(rates_bps)]
    if len(rates) > _MAX_LISTED_RATES:
        return f"{rates[0]} to {rates[-1]}"
    if len(rates) == 1:
        return rates[0]
    return ", ".join(rates[:-1]) + f" and {rates[-1]}"


def _rate(rate_bps: float) -> str:
    return in_words(rate_bps, "_bps")


def _number(value: float) -> str:
    rounded = round(value)
    is_whole = abs(value - rounded) < 1e-9 * value
    if is_whole or value >= _PRECISE_BELOW:
        return f"{rounded:,}"
    return f"{value:.4g}"
