"""The keyword arguments of the functions that make plans: the fields of each workload's options, for type checkers and editors.

All may be left out; defaults are the workload's. A network, end points and what a function takes by itself are not among them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict


class CampaignPlanOptions(TypedDict, total=False):
    """Of ``campaign_plan``: the keys of a campaign's file (docs/workloads/campaigns.md)."""

    name: str
    networks: Sequence[str]
    methods: Sequence[str]
    seeds: Sequence[int]
    frames: Sequence[int]
    pairs: Sequence[Sequence[str]] | int
    minimum_paths: int
    tolerances: Sequence[float]
    m: Sequence[int]
    der: Sequence[float]
    large_blocks: Sequence[bool]
    claims: Sequence[Mapping[str, Any]]
