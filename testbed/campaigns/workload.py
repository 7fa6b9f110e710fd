"""The workload of campaigns, which computes all units in this process, one after another.

The command ``testbed campaign`` distributes them to several processes.
"""

from testbed.campaigns.description import Campaign, units
from testbed.campaigns.loader import CampaignOptions, build_campaign
from testbed.campaigns.summary import judge_claims, summarise
from testbed.model.options.planner import planner
from testbed.model.progress import Progress, ReportProgress
from testbed.model.workload import Judgement, Workload
from topologies import JsonObject

Rows = tuple[JsonObject, ...]


def _compute(campaign: Campaign, report_progress: ReportProgress | None) -> Rows:
    """Return the same rows as ``testbed campaign``, in the order of the campaign."""
    # The import takes a while, and a plan alone does not need it.
    from testbed.campaigns.rows import unit_rows

    all_units = units(campaign)
    rows: list[JsonObject] = []
    for number, unit in enumerate(all_units):
        if report_progress is not None:
            doing = f"unit {unit.index}: {unit.network}"
            # Units take the place of seconds.
            report_progress(Progress(done_s=number, total_s=len(all_units), doing=doing))
        rows += unit_rows(campaign, unit)
    return tuple(rows)


def _judge(campaign: Campaign, rows: Rows) -> Judgement:
    verdict = judge_claims(campaign, rows)
    document = {
        "campaign": campaign.name,
        "rows": len(rows),
        "summary": summarise(rows),
        "verdict": verdict.to_json(),
    }
    return Judgement(verdict=verdict, document=document, rows=rows)


def _example() -> Campaign:
    return campaign_plan(
        name="small", networks=["ring:4", "torus:3x3"], methods=["capillary", "disjoint-2"]
    )


#: The function of the library that builds the plan of a campaign from its options.
campaign_plan = planner(
    "campaign_plan",
    "Make the plan of a campaign: ROR over many networks, methods and tolerances.",
    CampaignOptions,
    build_campaign,
    Campaign,
)
# The workload, as the registry of workloads lists it.
CAMPAIGN = Workload(
    name="campaign",
    plan=Campaign,
    judge=_judge,
    simulate=_compute,
    example=_example,
)
