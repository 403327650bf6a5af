"""Reads aMLLibrary's campaign files, and dicts of their shape, into a ``Campaign``.

``literals.py`` turns text into values, and ``options.py`` lists the options. This module handles
what options mean together. Everything that is ignored gets a warning.
"""

from __future__ import annotations

import configparser
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foretell.errors import UsageError, suggest
from foretell.files.text_file import read_text
from foretell.model.campaigns.ini.options import OPTIONS, anything, homes
from foretell.model.campaigns.ini.sections import Reading
from foretell.model.campaigns.literals import without_comment
from foretell.model.campaigns.schema import CAMPAIGN_FILE, Campaign, read_campaign
from foretell.model.techniques import TECHNIQUES, Hyperparameter

if TYPE_CHECKING:
    import pandas as pd

Sections = Mapping[str, Mapping[str, Any]]

#: Each way to split rows: the campaign's field and the file's option that it needs.
SPLITS: dict[str, tuple[str, str] | None] = {
    "All": None,
    "HoldOut": ("ratio", "hold_out_ratio"),
    "KFold": ("folds", "folds"),
    "Interpolation": ("columns", "interpolation_columns"),
    "Extrapolation": ("columns", "extrapolation_columns"),
}
EXAMPLES = {
    "hold_out_ratio": "0.2",
    "folds": "5",
    "interpolation_columns": "{column: 2}",
    "extrapolation_columns": "{column: bound}",
}
#: A file that has none of these in [General] only says what to predict.
_TRAINING = {"techniques", "hp_selection", "validation"}
TUNING = {"hyperopt": "tpe", "tpe": "tpe", "bayesian": "tpe", "grid": "grid", "none": "grid"}
#: Each way to select features: the options it must have, and those it may have.
SELECTIONS = {
    "SFS": (("max_features", "folds"), ("min_features",)),
    "XGBoost": (("XGBoost_tolerance",), ("max_features",)),
}


def read_ini(path: Path) -> tuple[Campaign, list[str]]:
    """Read a campaign file of aMLLibrary; also return the warnings to show."""
    reading = read_prediction(path)
    if "y" in reading.given("General") and not _TRAINING & reading.given("General"):
        raise UsageError(
            f"{path} is a prediction file, not a campaign: [General] names no techniques; "
            f"predict its table with: foretell predict MODEL {path}"
        )
    return _read(reading)


def read_prediction(path: Path) -> Reading:
    """Read a file of aMLLibrary as far as prediction needs it: it must name a table."""
    sections = parse_ini(read_text(path, CAMPAIGN_FILE), place=str(path))
    reading = Reading(sections, place=str(path), refuse_unknown=False)
    reading.require("DataPreparation", "input_path", "the path of the table of runs")
    return reading


def read_sections(
    sections: Sections, *, place: str, refuse_unknown: bool
) -> tuple[Campaign, list[str]]:
    """Read a dict of aMLLibrary's shape; also return the warnings to show.

    Parameters
    ----------
    place
        What the sections were read from, for messages.
    refuse_unknown
        Whether an unknown name is an error, or a warning as in a file.

    >>> campaign, warnings = read_sections({
    ...     "General": {"techniques": ["LRRidge"], "y": "time", "hp_selection": "KFold",
    ...                 "validation": "HoldOut", "folds": 4, "hold_out_ratio": 0.2},
    ...     "LRRidge": {"alpha": [0.1, 1]},
    ... }, place="campaign", refuse_unknown=True)
    >>> campaign.search.splits.folds, campaign.validation.ratio, warnings
    (4, 0.2, [])
    """
    return _read(Reading(sections, place=place, refuse_unknown=refuse_unknown))


def split_frame(
    sections: Mapping[str, Any], *, section: str = "DataPreparation", option: str = "input_path"
) -> tuple[dict[str, Any], pd.DataFrame | None]:
    """Remove a data frame given in place of a path; the caller's dict is not changed."""
    import pandas as pd

    copy = dict(sections)
    options = copy.get(section)
    frame = options.get(option) if isinstance(options, Mapping) else None
    if not isinstance(options, Mapping) or not isinstance(frame, pd.DataFrame):
        return copy, None
    copy[section] = {k: v for k, v in options.items() if k != option}
    return copy, frame


def parse_ini(content: str, *, place: str) -> dict[str, dict[str, str]]:
    """Split a file into sections and options, without comments.

    Options of ``[DEFAULT]`` apply to every section that knows them.
    """
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    try:
        parser.read_string(content, source=place)
    except configparser.Error as error:
        raise UsageError(_parsing_problem(error, place)) from None
    defaults = parser.defaults()
    return {
        section.strip(): {
            option: "\n".join(without_comment(line) for line in text.split("\n"))
            for option, text in parser.items(section)
            if defaults.get(option) != text or option in _known_options(section.strip())
        }
        for section in parser.sections()
    }


def _parsing_problem(error: configparser.Error, place: str) -> str:
    match error:
        case configparser.DuplicateOptionError():
            where = f"{place}, line {error.lineno}, [{error.section}] {error.option}"
            return f"{where}: given twice in this section; keep one"
        case configparser.DuplicateSectionError():
            return f"{place}, line {error.lineno}: a second section [{error.section}]; join them"
        case configparser.MissingSectionHeaderError():
            return (
                f"{place}, line {error.lineno}: a section such as [General] must come first, "
                f"not '{error.line.strip()}'"
            )
        case configparser.ParsingError():
            number, line = error.errors[0]
            return (
                f"{place}, line {number}: must be 'option = value' or '[Section]', not {line}; "
                "a line that continues the one above starts with a space"
            )
        case _:
            return f"{place}: {error.message}"


def _known_options(section: str) -> list[str]:
    if section in TECHNIQUES.names():
        return [h.name for h in TECHNIQUES.get(section).hyperparameters]
    return list(OPTIONS.get(section, {}))


def _read(reading: Reading) -> tuple[Campaign, list[str]]:
    _check_names(reading)
    reading.require("General", "y", "the column to predict")
    reading.copy("General", "y", "run_num", "seed", "racing", "score", "save_training_regressors")
    _read_splits(reading, "validation", place=("validation",))
    _read_splits(reading, "hp_selection", place=("search", "splits"))
    _read_search(reading)
    _read_preparation(reading)
    _read_feature_selection(reading)
    _read_techniques(reading)
    campaign = read_campaign(reading.toml, place=reading.place, describe=reading.describe)
    return campaign, reading.warnings


def _check_names(reading: Reading) -> None:
    """Warn about, or refuse, every section and option that is not used."""
    for section, options in reading.sections.items():
        if section in TECHNIQUES.names():
            continue
        if section not in OPTIONS:
            known = [*OPTIONS, *TECHNIQUES.names()]
            reading.unknown(f"[{section}]", "not a known section", suggest(section, known))
            continue
        for option in options:
            if option not in OPTIONS[section]:
                elsewhere = homes(option)
                near = suggest(option, OPTIONS[section])
                hint = f"It belongs to [{elsewhere[0]}]." if elsewhere else near
                reading.unknown(f"[{section}] {option}", "not an option of this section", hint)


def _read_splits(reading: Reading, option: str, *, place: tuple[str, ...]) -> None:
    words = {method.lower(): method for method in SPLITS}
    written = str(reading.require("General", option, f"one of {', '.join(SPLITS)}"))
    method = words.get(written.lower(), written)
    reading.put((*place, "method"), method, "General", option)
    reading.origin[place] = f"[General] {option}"
    need = SPLITS.get(method)
    if need is None:
        return
    field, shared = need
    own = f"hp_selection_{shared}"
    source = own if option == "hp_selection" and reading.get("General", own) is not None else shared
    value = reading.require("General", source, EXAMPLES[shared], f", because {option} is {method}")
    if field == "columns":
        # As in aMLLibrary, both the old and the new name of a column work here.
        rename = reading.get("DataPreparation", "rename_columns") or {}
        value = {rename.get(name, name): bound for name, bound in value.items()}
    reading.put((*place, field), value, "General", source)


def _read_search(reading: Reading) -> None:
    word = str(reading.get("General", "hyperparameter_tuning") or "grid")
    method = TUNING.get(word.lower())
    if method is None:
        what, known = f"'{word}' is not a known search", suggest(word, ["hyperopt", "grid"])
        where = "[General] hyperparameter_tuning"
        reading.unknown(where, what, known, then=", and a grid is searched")
    reading.put(("search", "method"), method or "grid", "General", "hyperparameter_tuning")
    if method == "tpe":
        reason = f", because hyperparameter_tuning is {word}"
        reading.require("General", "hyperopt_max_evals", "20", reason)
        reading.copy("General", "hyperopt_max_evals")


def _read_preparation(reading: Reading) -> None:
    section = "DataPreparation"
    ignored = dict(_ignored_preparation(reading))
    for option, reason in ignored.items():
        reading.warn(f"[{section}] {option}", f"ignored, because {reason}")
    reading.copy(section, *(option for option in OPTIONS[section] if option not in ignored))


def _ignored_preparation(reading: Reading) -> Iterator[tuple[str, str]]:
    given = {
        option: reading.get("DataPreparation", option) for option in OPTIONS["DataPreparation"]
    }
    if given["use_columns"] and given["skip_columns"]:
        yield "skip_columns", "use_columns lists the columns to use"
    if given["selected_products"] and given["product_max_degree"] not in (None, 1):
        yield "product_max_degree", "selected_products lists the products to add"
    if str(given["ernest"]).lower() in {"true", "1"}:
        for option in ("log", "selected_products", "product_interactions_only"):
            if given[option]:
                yield option, "ernest replaces all features"


def _read_feature_selection(reading: Reading) -> None:
    section = "FeatureSelection"
    if section not in reading.sections:
        return
    word = str(reading.require(section, "method", "one of SFS, XGBoost"))
    method = next((m for m in SELECTIONS if m.lower() == word.lower()), None)
    if method is None:
        what, known = f"'{word}' is not a known selection", suggest(word, SELECTIONS)
        reading.unknown(f"[{section}] method", what, known, then=", and all features are used")
        return
    reading.put(("feature_selection", "method"), method, section, "method")
    required, optional = SELECTIONS[method]
    for option in required:
        example = "0.9" if option == "XGBoost_tolerance" else "5"
        reading.require(section, option, example, f", because method is {method}")
    reading.copy(section, *required, *optional)


def _read_techniques(reading: Reading) -> None:
    names = reading.require("General", "techniques", "a list such as [LRRidge, XGBoost]")
    reading.put(("techniques",), {}, "General", "techniques")
    for name in names:
        try:
            hyperparameters = {h.name: h for h in TECHNIQUES.get(name).hyperparameters}
        except UsageError as error:
            raise reading.error("[General] techniques", str(error)) from None
        reading.put(("techniques", name), {}, name)
        for option, written in reading.sections.get(name, {}).items():
            if option not in hyperparameters:
                known = suggest(option, hyperparameters) if hyperparameters else "It has none."
                reading.unknown(f"[{name}] {option}", f"not a hyperparameter of {name}", known)
            else:
                _read_hyperparameter(reading, name, hyperparameters[option], written)
    if "NeuralNetwork" in names:
        for option in ("keras_backend", "keras_use_cpu"):
            if option in reading.sections["General"]:
                rule = "ignored, because foretell uses scikit-learn's networks"
                reading.warn(f"[General] {option}", rule)


def _read_hyperparameter(
    reading: Reading, technique: str, hyperparameter: Hyperparameter, written: Any
) -> None:
    where = f"[{technique}] {hyperparameter.name}"
    value = reading.value(where, anything, written)
    if value == "":
        return
    has_none = value is None or (isinstance(value, list) and None in value)
    if has_none and not _accepts_none(hyperparameter):
        value = [v for v in value or () if v is not None]
        used = "" if value else f", and the default, {hyperparameter.default}, is used"
        reading.warn(where, f"none is not one of its values{used}")
        if not value:
            return
    reading.put(("techniques", technique, hyperparameter.name), value, technique)


def _accepts_none(hyperparameter: Hyperparameter) -> bool:
    try:
        hyperparameter.read(None)
    except (ValueError, TypeError):
        return False
    return True
