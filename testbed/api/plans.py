"""The plan of each workload from a network and plain arguments: what ``testbed.run`` carries out.

Nothing is run; the same arguments and seed give the same plan on every machine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar, Unpack

from testbed.errors import UsageError, require_type

if TYPE_CHECKING:
    from testbed.api.options import CampaignPlanOptions
    from testbed.campaigns.description import Campaign

T = TypeVar("T")


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
