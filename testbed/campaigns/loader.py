"""The campaign of a file, of a name or of keys, as the command and the library take it: those that come with the
testbed lie in ``shipped/``, a TOML file each."""

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


def build_campaign(requested: CampaignOptions) -> Campaign:
    """The campaign of a name or a file, or of keys. UsageError for both, InputError for what makes none."""
    keys = {
        key: value
        for key, value in vars(requested).items()
        if key != "campaign" and value is not None
    }
    if requested.campaign is None:
        return parse_campaign(keys, "campaign_plan")
    if keys:
        raise UsageError(
            f"campaign_plan: give the campaign {requested.campaign!r} or keys, not both"
        )
    return load_campaign(requested.campaign)


def load_campaign(name: str) -> Campaign:
    """The campaign of a file, or one that comes with the testbed. Raises InputError for what is neither.

    >>> load_campaign("quick").name
    'quick'
    """
    path = Path(name)
    if path.suffix in (".toml", ".json") or path.exists():
        where = str(path)
        return parse_campaign(
            read_json(path) if path.suffix == ".json" else _toml(read_text(path), where), where
        )
    shipped = shipped_campaigns()
    if name not in shipped:
        raise InputError(
            f"campaign {name!r}: neither a file nor a name; {nearest(name, shipped, 'there are ')}"
        )
    return parse_campaign(tomllib.loads(shipped[name]), name)


def shipped_campaigns() -> dict[str, str]:
    """Name -> the text of its file, by name."""
    folder = files("testbed.campaigns").joinpath("shipped")
    found = {
        entry.name.removesuffix(".toml"): entry.read_text()
        for entry in folder.iterdir()
        if entry.name.endswith(".toml")
    }
    return dict(sorted(found.items()))


def _toml(text: str, where: str) -> object:
    try:
        return tomllib.loads(text)
    except (
        ValueError,
        RecursionError,
    ) as error:  # ValueError: also of a number with thousands of digits
        raise InputError(f"{where}: not TOML ({error})") from None
