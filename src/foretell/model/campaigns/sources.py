"""Reads a campaign from a file or a dict, in TOML's or aMLLibrary's shape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foretell.errors import DatasetError, ForetellError, UsageError
from foretell.files.complaints import dotted, shown
from foretell.files.text_file import near_file
from foretell.model.campaigns.ini.campaign import (
    read_ini,
    read_prediction,
    read_sections,
    split_frame,
)
from foretell.model.campaigns.ini.options import OPTIONS
from foretell.model.campaigns.schema import Campaign, read_campaign, read_toml

if TYPE_CHECKING:
    import pandas as pd

Source = str | Path | Mapping[str, Any] | Campaign


def load_campaign(source: Source) -> tuple[Campaign, pd.DataFrame | None, list[str]]:
    """Read a campaign; also return the data frame that a dict held, and warnings to show.

    >>> source = {"data": {"target": "time_s"}, "techniques": {"LRRidge": {}}}
    >>> campaign, frame, warnings = load_campaign(source)
    >>> campaign.data.target, frame, warnings
    ('time_s', None, [])
    """
    if isinstance(source, Campaign):
        return source, None, []
    if isinstance(source, str | Path):
        path = Path(source)
        campaign, warnings = (read_toml(path), []) if _is_toml(path) else read_ini(path)
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
    """Find the campaign's table: next to the campaign file, then in the current directory.

    For an aMLLibrary file, the current directory comes first.
    """
    if not campaign.data.path:
        raise UsageError(
            "the campaign names no table of runs; pass one, or write its path under [data]"
        )
    return _find_table(campaign.data.path, campaign_file)


def table_to_predict(source: Path, target: str) -> Path:
    """Return the table to predict: the one that an aMLLibrary file names, or ``source`` itself.

    aMLLibrary's prediction files have two options, ``y`` and ``input_path``. A campaign file
    works as well; its other options describe how to fit a model and are not used here.

    ``target``: the column that the model predicts. The file must agree if it names one.
    """
    if source.suffix.lower() != ".ini":
        return source
    reading = read_prediction(source)
    named = reading.get("General", "y")
    if named not in (None, target):
        raise reading.error(
            "[General] y",
            f"the file expects predictions of '{named}', and the model predicts '{target}'; "
            "use a model of that column, or change y",
        )
    with naming(source):
        return _find_table(reading.get("DataPreparation", "input_path"), source)


def _find_table(name: str, named_in: Path | None) -> Path:
    path = _expanded(name)
    places = [path]
    if named_in is not None and not path.is_absolute():
        beside = Path(named_in).parent / path
        places = [beside, path] if _is_toml(Path(named_in)) else [path, beside]
    for place in places:
        if _exists(place):
            return place
    looked = " and ".join(dict.fromkeys(f"'{place.absolute()}'" for place in places))
    near = next(filter(None, map(near_file, places)), "; check the path")
    raise DatasetError(f"there is no table {name}; looked at {looked}{near}", at=("data", "path"))


@contextmanager
def naming(source: Source) -> Iterator[None]:
    """Add to errors about an option the file it is in, and its name there."""
    try:
        yield
    except ForetellError as error:
        if not error.at or not isinstance(source, str | Path):
            raise
        path = Path(source)
        place = dotted(error.at) if _is_toml(path) else _in_sections(error.at)
        text = f"{path}, {place}: {error.text}"
        raise type(error)(text, option=error.option, remedy=error.remedy) from None


def _in_sections(place: tuple[str, ...]) -> str:
    """Name a campaign option as in aMLLibrary's files: ``[DataPreparation] log``."""
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
    except RuntimeError:  # ~name of an unknown user
        return Path(path)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # the name is too long
        return False


def _is_toml(path: Path) -> bool:
    return path.suffix.lower() == ".toml"
