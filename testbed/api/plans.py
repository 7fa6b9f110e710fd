"""The plan of each workload from a network and plain arguments: what ``testbed.run`` carries out.

Nothing is run; the same arguments and seed give the same plan on every machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar, Unpack

from testbed.errors import InputError, UsageError, require_type
from testbed.model.naming.networks import NetworkLike, known_network

if TYPE_CHECKING:
    from testbed.api.options import CampaignPlanOptions
    from testbed.campaigns.description import Campaign
    from testbed.wavelengths.plan import WavelengthPlan

T = TypeVar("T")


def wavelength_plan(
    network: NetworkLike,
    pattern: str | list[tuple[str, str]] = "all-to-all",
    *,
    method: str = "liquid",
    seed: int = 1,
    time_limit_s: float = 10.0,
) -> WavelengthPlan:
    """Lightpaths into rounds; wavelengths a fibre and switching are the network's own (``optical-cloud:wavelengths=8``)."""
    from testbed.wavelengths.assignment import Effort, all_to_all, assign_wavelengths, lightpaths_between

    found = known_network(network)
    wavelengths = found.attributes.get("wavelengths")
    if not isinstance(wavelengths, int):
        raise InputError(f"network {found.name!r} does not say how many wavelengths a fibre has; take an optical-cloud")
    if isinstance(pattern, str) and pattern != "all-to-all":
        raise InputError(f"pattern {pattern!r}: give all-to-all or pairs of edge routers")
    pairs = all_to_all(found) if isinstance(pattern, str) else [(str(a), str(b)) for a, b in pattern]
    return assign_wavelengths(
        found,
        lightpaths_between(found, pairs),
        wavelengths=wavelengths,
        switching="wixc" if found.attributes.get("conversion") == "wixc" else "wsxc",
        method=method,
        effort=Effort(seed=seed, time_limit_s=time_limit_s, now=time.monotonic),
    )


def campaign_plan(campaign: str | None = None, **given: Unpack[CampaignPlanOptions]) -> Campaign:
    """ROR over many networks, methods and tolerances: a campaign's name, its file, or its keys as keyword arguments.

    >>> plan = campaign_plan(name="mine", networks=["ring:4"], methods=["capillary", "single"], tolerances=[0.05, 0.1])
    >>> plan.methods, plan.rows_per_unit
    (('capillary', 'single'), 4)
    """
    from testbed.campaigns.description import parse_campaign
    from testbed.campaigns.loader import load_campaign

    if campaign is None:
        return _built(lambda: parse_campaign({**given}, "campaign_plan"))
    require_type(campaign, str, "campaign", "the name or the file of a campaign")
    if given:
        raise UsageError(f"campaign_plan: give the campaign {campaign!r} or keys, not both")
    return load_campaign(campaign)


def _built(build: Callable[[], T]) -> T:
    """What ``build`` gives; a value of the wrong kind deep inside becomes UsageError."""
    from testbed.errors import TestbedError

    try:
        return build()
    except TestbedError:
        raise
    except (TypeError, AttributeError) as error:
        raise UsageError(f"an argument is of the wrong kind: {error}") from error
