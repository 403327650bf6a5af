"""Where a campaign comes from: a file in TOML or aMLLibrary's form, a dict of either, itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foretell.errors import DatasetError, UsageError
from foretell.model.campaign import Campaign, read_campaign, read_toml
from foretell.model.complaints import shown
from foretell.model.ini import read_ini, read_sections, split_frame
from foretell.model.ini_options import OPTIONS
from foretell.model.text_file import near_file

if TYPE_CHECKING:
    import pandas as pd

Source = str | Path | Mapping[str, Any] | Campaign


def load_campaign(source: Source) -> tuple[Campaign, pd.DataFrame | None, list[str]]:
    """Read a campaign; also return the frame that stood in a dict, and warnings to show.

    >>> source = {"data": {"target": "time_s"}, "techniques": {"LRRidge": {}}}
    >>> campaign, frame, warnings = load_campaign(source)
    >>> campaign.data.target, frame, warnings
    ('time_s', None, [])
    """
    if isinstance(source, Campaign):
        return source, None, []
    if isinstance(source, str | Path):
        campaign, warnings = _from_file(Path(source))
        return campaign, None, warnings
    if not isinstance(source, Mapping):
        raise UsageError(f"a campaign is a file, a dict or a Campaign, not {shown(source)}")
    if any(section in source for section in OPTIONS):
        sections, frame = split_frame(source)
        campaign, warnings = read_sections(sections, place="campaign", refuse_unknown=True)
        return campaign, frame, warnings
    plain, frame = split_frame(source, section="data", option="path")
    return read_campaign(plain), frame, []


def resolve_data_path(campaign: Campaign, campaign_file: Path | None) -> Path:
    """Find the campaign's table: from the current directory, then from beside the campaign."""
    if campaign.data.path is None:
        raise UsageError(
            "the campaign names no table of runs; give one, or write its path under [data]"
        )
    path = Path(campaign.data.path).expanduser()
    places = [path]
    if campaign_file is not None and not path.is_absolute():
        places.append(Path(campaign_file).parent / path)
    for place in places:
        if place.exists():
            return place
    looked = " and ".join(dict.fromkeys(f"'{place.absolute()}'" for place in places))
    near = next(filter(None, map(near_file, places)), "")
    raise DatasetError(f"there is no table {campaign.data.path}; looked at {looked}{near}")


def _from_file(path: Path) -> tuple[Campaign, list[str]]:
    if path.suffix.lower() == ".toml":
        return read_toml(path), []
    return read_ini(path)
