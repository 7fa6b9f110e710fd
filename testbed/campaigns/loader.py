"""Loads campaigns from a file, by name, or from keys of the library.

The campaigns that are part of the testbed are TOML files in ``shipped/``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from testbed.campaigns.description import Campaign, parse_campaign
from testbed.errors import InputError, UsageError
from testbed.model.json_values import read_json, read_text
from testbed.model.options.option import RUNNING, option, options
from topologies import Json, nearest


@options
class CampaignOptions:
    """Options of a campaign: a file or name, or the keys of a file (docs/howto/campaigns.md).

    ``testbed.campaigns.description`` defines the defaults and bounds of the keys.
    """

    campaign: str | None = option(
        default=None,
        kw_only=False,
        positional=True,
        metavar="FILE|NAME",
        help="campaign: a TOML or JSON file, or a name of --list",
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


def build_campaign(requested: CampaignOptions) -> Campaign:
    """Return the campaign of a file, a name or keys.

    Raises:
        UsageError: Both a name and keys are given.
        InputError: There is no such campaign, or its description is not valid.
    """
    keys = {key: value for key, value in vars(requested).items() if value is not None}
    keys.pop("campaign", None)
    if requested.campaign is None:
        return parse_campaign(keys, "campaign_plan")
    if keys:
        raise UsageError(
            f"campaign_plan: give the campaign {requested.campaign!r} or keys, not both"
        )
    return load_campaign(requested.campaign)


def load_campaign(name: str) -> Campaign:
    """Return the campaign of a file, or one that is part of the testbed.

    Raises:
        InputError: There is no such campaign, or its description is not valid.

    >>> load_campaign("quick").name
    'quick'
    """
    path = Path(name)
    if path.suffix in (".toml", ".json") or path.exists():
        where = str(path)
        if path.suffix == ".json":
            document = read_json(path)
        else:
            document = _parse_toml(read_text(path), where)
        return parse_campaign(document, where)
    shipped = shipped_campaigns()
    if name not in shipped:
        raise InputError(
            f"campaign {name!r}: neither a file nor a name; {nearest(name, shipped, 'there are ')}"
        )
    return parse_campaign(tomllib.loads(shipped[name]), name)


def shipped_campaigns() -> dict[str, str]:
    """Return the TOML texts of the campaigns that are part of the testbed, by name and sorted."""
    folder = files("testbed.campaigns").joinpath("shipped")
    texts = {}
    for entry in folder.iterdir():
        if entry.name.endswith(".toml"):
            texts[entry.name.removesuffix(".toml")] = entry.read_text()
    return dict(sorted(texts.items()))


def _parse_toml(text: str, where: str) -> object:
    # A number with thousands of digits is a ValueError too.
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: not TOML ({error})") from None
