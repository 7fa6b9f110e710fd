"""Which campaign is computed, for the command and the library: one of a name or a file, or one of these keys."""

from __future__ import annotations

from collections.abc import Sequence

from testbed.model.options.option import RUNNING, option, options
from topologies.text.json_types import Json


@options
class CampaignOptions:
    """``campaign``, or the keys of a campaign's file (docs/howto/campaigns.md), which has their defaults and
    bounds."""

    campaign: str | None = option(
        default=None,
        kw_only=False,
        positional=True,
        metavar="FILE|NAME",
        help="a TOML or JSON file, or one of --list",
        only=(RUNNING,),
    )
    name: str | None = option(default=None, listed=False)
    networks: Sequence[str] | None = option(default=None, listed=False)
    methods: Sequence[str] | None = option(default=None, listed=False)
    seeds: Sequence[int] | str | None = option(default=None, listed=False)
    frames: Sequence[int] | str | None = option(default=None, listed=False)
    pairs: Sequence[Sequence[str]] | int | None = option(default=None, listed=False)
    minimum_paths: int | None = option(default=None, listed=False)
    tolerances: Sequence[float] | None = option(default=None, listed=False)
    m: Sequence[int] | None = option(default=None, listed=False)
    der: Sequence[float] | None = option(default=None, listed=False)
    large_blocks: Sequence[bool] | None = option(default=None, listed=False)
    claims: Sequence[Json] | None = option(default=None, listed=False)
