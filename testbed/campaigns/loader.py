"""The campaign of a file or of a name: those that come with the testbed lie in ``shipped/``, a TOML file each."""

import tomllib
from importlib.resources import files
from pathlib import Path

from testbed.campaigns.description import Campaign, parse_campaign
from testbed.campaigns.options import CampaignOptions
from testbed.errors import InputError, UsageError
from testbed.model.json_values import read_json, read_text
from topologies.errors import nearest


def build_campaign(requested: CampaignOptions) -> Campaign:
    """The campaign of a name or a file, or of keys. UsageError for both, InputError for what makes none."""
    keys = {key: value for key, value in vars(requested).items() if key != "campaign" and value is not None}
    if requested.campaign is None:
        return parse_campaign(keys, "campaign_plan")
    if keys:
        raise UsageError(f"campaign_plan: give the campaign {requested.campaign!r} or keys, not both")
    return load_campaign(requested.campaign)


def load_campaign(name: str) -> Campaign:
    """The campaign of a file, or one that comes with the testbed. Raises InputError for what is neither.

    >>> load_campaign("quick").name
    'quick'
    """
    path = Path(name)
    if path.suffix in (".toml", ".json") or path.exists():
        where = str(path)
        return parse_campaign(read_json(path) if path.suffix == ".json" else _toml(read_text(path), where), where)
    shipped = shipped_campaigns()
    if name not in shipped:
        raise InputError(f"campaign {name!r}: neither a file nor a name; {nearest(name, shipped, 'there are ')}")
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
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(f"{where}: not TOML ({error})") from None
