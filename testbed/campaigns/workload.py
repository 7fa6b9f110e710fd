"""Campaigns as a workload: every unit in this process, one after another; ``testbed campaign`` shares them among
processes."""

from testbed.campaigns.description import Campaign, units
from testbed.campaigns.loader import CampaignOptions, build_campaign
from testbed.campaigns.summary import judge_claims, summarise
from testbed.model.options.planner import planner
from testbed.model.progress import Progress, ReportProgress
from testbed.model.workload import Judgement, Workload
from topologies import JsonObject

Rows = tuple[JsonObject, ...]


def _compute(campaign: Campaign, report_progress: ReportProgress | None) -> Rows:
    """All rows in the campaign's order: those of ``testbed campaign``."""
    from testbed.campaigns.rows import unit_rows

    todo = units(campaign)
    rows: list[JsonObject] = []
    for number, unit in enumerate(todo):
        if report_progress is not None:
            report_progress(
                Progress(
                    done_s=number, total_s=len(todo), doing=f"unit {unit.index}: {unit.network}"
                )
            )
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


campaign_plan = planner(
    "campaign_plan",
    "Make the plan of a campaign: ROR over many networks, methods and tolerances.",
    CampaignOptions,
    build_campaign,
    Campaign,
)
CAMPAIGN = Workload(
    name="campaign",
    plan=Campaign,
    judge=_judge,
    simulate=_compute,
    example=lambda: campaign_plan(
        name="small", networks=["ring:4", "torus:3x3"], methods=["capillary", "disjoint-2"]
    ),
)
