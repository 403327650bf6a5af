"""Where a campaign comes from: a file in TOML or aMLLibrary's form, a dict of either, itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foretell.errors import DatasetError, ForetellError, UsageError
from foretell.files.complaints import dotted, shown
from foretell.files.text_file import near_file
from foretell.model.campaigns.ini.campaign import read_ini, read_sections, split_frame
from foretell.model.campaigns.ini.options import OPTIONS
from foretell.model.campaigns.schema import Campaign, read_campaign, read_toml

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
    """Find the campaign's table: beside the campaign, then in the current directory.

    aMLLibrary's files mean the current directory first.
    """
    if not campaign.data.path:
        raise UsageError(
            "the campaign names no table of runs; give one, or write its path under [data]"
        )
    path = _expanded(campaign.data.path)
    places = [path]
    if campaign_file is not None and not path.is_absolute():
        beside = Path(campaign_file).parent / path
        places = [beside, path] if _is_toml(Path(campaign_file)) else [path, beside]
    for place in places:
        if _exists(place):
            return place
    looked = " and ".join(dict.fromkeys(f"'{place.absolute()}'" for place in places))
    near = next(filter(None, map(near_file, places)), "; check the path")
    raise DatasetError(
        f"there is no table {campaign.data.path}; looked at {looked}{near}", at=("data", "path")
    )


@contextmanager
def naming(source: Source) -> Iterator[None]:
    """Say in errors about an option in which file it stands, and what it is called there."""
    try:
        yield
    except ForetellError as error:
        if not error.at or not isinstance(source, str | Path):
            raise
        path = Path(source)
        words = dotted(error.at) if _is_toml(path) else _in_sections(error.at)
        text = f"{path}, {words}: {error.text}"
        raise type(error)(text, option=error.option, remedy=error.remedy) from None


def _in_sections(place: tuple[str, ...]) -> str:
    """Name a place of a campaign as aMLLibrary's files do: ``[DataPreparation] log``."""
    names = {".".join(place), ".".join((*place, "method"))}
    found = (
        f"[{section}] {name}"
        for section, options in OPTIONS.items()
        for name, option in options.items()
        if names & set(option.places)
    )
    return next(found, dotted(place))


def _expanded(path: str) -> Path:
    try:
        return Path(path).expanduser()
    except RuntimeError:  # ~name, and nobody is called so
        return Path(path)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # the name is too long
        return False


def _is_toml(path: Path) -> bool:
    return path.suffix.lower() == ".toml"


def _from_file(path: Path) -> tuple[Campaign, list[str]]:
    if _is_toml(path):
        return read_toml(path), []
    return read_ini(path)
