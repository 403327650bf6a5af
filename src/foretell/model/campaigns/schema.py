"""The schema of a campaign: what to fit, on which columns, and how to search and validate.

A campaign is written as TOML, as a Python dict of the same shape, or as an aMLLibrary file, which
``ini/`` translates into that shape. Only this module decides what is valid. Unknown keys are
refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pydantic
from pydantic import BeforeValidator, Field, field_validator, model_validator
from pydantic_core import PydanticKnownError

from foretell.errors import Option, UsageError
from foretell.files.complaints import Complaint, dotted, explain, refusal
from foretell.files.text_file import FileKind, read_toml_file
from foretell.model.campaigns.search.priors import parse_prior
from foretell.model.campaigns.search.space import candidates, faults, without_none

ALL_COLUMNS = "*"
CAMPAIGN_FILE = FileKind("campaign", "data, target and techniques", (".ini", ".toml"))
SEED_LIMIT = 2**32  # scikit-learn accepts no larger seeds


def _not_bool(kind: Literal["int_type", "float_type"]) -> BeforeValidator:
    def refuse(value: Any) -> Any:
        if isinstance(value, bool):  # a subclass of int in Python
            raise PydanticKnownError(kind)
        return value

    return BeforeValidator(refuse)


Columns = list[str]
# The bounds come before the validator, or the JSON schema would not show them.
Number = Annotated[float, _not_bool("float_type")]
Share = Annotated[float, Field(gt=0, lt=1), _not_bool("float_type")]
Tolerance = Annotated[float, Field(gt=0, le=1), _not_bool("float_type")]
Seed = Annotated[int, Field(ge=0, lt=SEED_LIMIT), _not_bool("int_type")]
Positive = Annotated[int, Field(ge=1), _not_bool("int_type")]
Folds = Annotated[int, Field(ge=2), _not_bool("int_type")]


class _Section(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Data(_Section):
    """The table of runs, and which of its rows and columns to use."""

    path: str | None = Field(default=None, description="Table of runs: .csv, .tsv or .parquet")
    target: str = Field(description="Column to predict, by its name after renaming")
    rename: dict[str, str] = Field(default={}, description="Old column name to new one")
    skip_rows_above: dict[str, Number] = Field(
        default={}, description="Leave out rows where a column is strictly greater than its bound"
    )
    use_columns: Columns = Field(default=[], description="Use only these columns")
    skip_columns: Columns = Field(default=[], description="Use all columns except these")
    categorical: Columns = Field(default=[], description="Numeric columns to treat as categories")


class Features(_Section):
    """The features derived from the columns."""

    inverse: Columns = Field(
        default=[], description='Add 1/column; ["*"] means every numeric column'
    )
    log: Columns = Field(default=[], description='Add ln(column); ["*"] means every numeric column')
    product_max_degree: Annotated[int, Field(ge=0)] | Literal["inf"] = Field(
        default=1,
        description="Add products of columns up to this degree; inf: the number of columns",
    )
    product_interactions_only: bool = Field(
        default=False, description="Never use a column twice in one product"
    )
    selected_products: list[str] = Field(
        default=[],
        description='Add exactly these products, such as "nodes data_mb"; overrides the degree',
    )
    ernest: bool = Field(
        default=False, description="Use only Ernest's features of datasize and cores"
    )
    normalization: bool = Field(
        default=False,
        description="Scale columns and target to mean 0 and standard deviation 1, inside each fold",
    )

    @field_validator("product_max_degree", mode="before")
    @classmethod
    def _write_inf_as_text(cls, degree: Any) -> Any:
        return "inf" if str(degree).lower() == "inf" else degree


class SFS(_Section):
    """Forward selection on the training rows: keep adding the feature that helps most."""

    method: Literal["SFS"]
    max_features: Positive
    min_features: Positive = 1
    folds: Folds = 5

    @model_validator(mode="after")
    def _ordered(self) -> SFS:
        if self.min_features > self.max_features:
            raise refusal(
                "order",
                f"must be at most max_features ({self.max_features}), not {self.min_features}",
                at=("min_features",),
            )
        return self


class XGBoostImportance(_Section):
    """Keep the features that matter most to a boosted model of the training rows."""

    method: Literal["XGBoost"]
    tolerance: Tolerance
    max_features: Positive | None = None


FeatureSelection = Annotated[SFS | XGBoostImportance, Field(discriminator="method")]


class AllRows(_Section):
    """Test on the training rows themselves, so that scores are training scores."""

    method: Literal["All"]


class HoldOut(_Section):
    """Test on a random share of the rows."""

    method: Literal["HoldOut"]
    ratio: Share


class KFold(_Section):
    """Test on each of several random parts of the rows in turn."""

    method: Literal["KFold"]
    folds: Folds


class Interpolation(_Section):
    """Test on values of a column that are not in training: a list, or every h-th value."""

    method: Literal["Interpolation"]
    columns: dict[str, Number | list[Number]] = Field(min_length=1)

    @field_validator("columns")
    @classmethod
    def _steps_are_whole(cls, columns: dict[str, Any]) -> dict[str, Any]:
        for name, step in columns.items():
            if isinstance(step, list):
                if not step:
                    raise refusal("step", "the list of values must not be empty", at=(name,))
            elif step < 2 or step != round(step):
                rule = "must be a step, a whole number of at least 2, or a list of values"
                raise refusal("step", f"{rule}, not {step:g}", at=(name,))
        return columns


class Extrapolation(_Section):
    """Test on the rows in which a column exceeds its bound, and train on the rest."""

    method: Literal["Extrapolation"]
    columns: dict[str, Number] = Field(min_length=1)


Splits = Annotated[
    AllRows | HoldOut | KFold | Interpolation | Extrapolation, Field(discriminator="method")
]


class Search(_Section):
    """How hyperparameters are chosen, always within the training rows."""

    method: Literal["grid", "tpe"] = "grid"
    evaluations: Positive = Field(default=20, description="Trials of each technique, with tpe")
    splits: Splits = Field(
        default=KFold(method="KFold", folds=5), description="Rows on which trials are scored"
    )
    racing: bool = Field(
        default=False,
        description="Stop a trial as soon as it is worse than the best one on the same rows",
    )


class Campaign(_Section):
    """A complete model-building effort."""

    data: Data
    features: Features = Features()
    feature_selection: FeatureSelection | None = None
    search: Search = Search()
    validation: Splits = Field(
        default=HoldOut(method="HoldOut", ratio=0.2),
        description="Rows on which the chosen models are evaluated",
    )
    techniques: dict[str, dict[str, Any]] = Field(
        min_length=1,
        description="Hyperparameters of each technique: a value, a list or a prior; "
        "an empty table searches the technique's default space",
    )
    runs: Positive = Field(default=1, description="Repetitions with new random splits")
    seed: Seed = Field(default=0, description="Seed of everything random")
    score: Literal["mape", "rmse"] = Field(
        default="mape", description="Error that the search minimizes and that ranks the models"
    )
    save_training_models: bool = Field(
        default=False,
        description="Also save each technique's model fitted on the training rows alone",
    )

    #: Sections in the order in which they are written to a file.
    sections: ClassVar[tuple[str, ...]] = (
        "data", "features", "feature_selection", "search", "validation", "techniques",
    )  # fmt: skip

    @field_validator("techniques")
    @classmethod
    def _spaces_are_valid(cls, techniques: dict[str, Any]) -> dict[str, Any]:
        for technique_name, space in techniques.items():
            for at, text in faults(technique_name, space):
                raise refusal("space", text, at=(technique_name, *at))
        named: dict[str, Any] = without_none(techniques)
        return named

    @model_validator(mode="after")
    def _grid_has_no_prior(self) -> Campaign:
        for technique_name, space in self.techniques.items():
            for name, values in candidates(technique_name, space).items():
                prior = next((v for v in values if parse_prior(v)), None)
                if prior is not None and self.search.method == "grid":
                    raise refusal(
                        "prior_on_grid",
                        f"'{prior}' is a prior, and a grid search needs values",
                        at=("techniques", technique_name, name),
                        remedy='list values, or write method = "tpe" under [search]',
                    )
        return self

    @model_validator(mode="after")
    def _ernest_is_alone(self) -> Campaign:
        given = {**dict(self.features), **dict(self.data)}
        defaults = Features.model_fields | Data.model_fields
        others = ["use_columns", "skip_columns", *(n for n in dict(self.features) if n != "ernest")]
        lost = [name for name in others if given[name] != defaults[name].default]
        if self.features.ernest and lost:
            raise refusal(
                "ernest",
                f"replaces all features, so {', '.join(lost)} would have no effect",
                at=("features", "ernest"),
                remedy="remove one or the other",
            )
        return self

    @model_validator(mode="after")
    def _selection_has_rows(self) -> Campaign:
        if _leaves_nothing(self.search.splits, self.validation):
            raise refusal(
                "nothing_to_select_on",
                "validation holds out the same rows, so none are left to select on",
                at=("search", "splits", "columns"),
                remedy="choose other columns, lower bounds or other values for one of the two",
            )
        return self

    def with_path(self, path: Path) -> Campaign:
        """Return the campaign with the absolute path of its table."""
        data = self.data.model_copy(update={"path": str(path.absolute())})
        return self.model_copy(update={"data": data})

    def with_seed(self, seed: int | None) -> Campaign:
        """Return the campaign with this seed, if one is given."""
        if seed is not None and not 0 <= seed < SEED_LIMIT:
            raise UsageError(
                f"must be a whole number from 0 to {SEED_LIMIT - 1}, not {seed}",
                option=Option("seed", str(seed)),
            )
        return self if seed is None else self.model_copy(update={"seed": seed})


def _leaves_nothing(selection: Splits, validation: Splits) -> bool:
    """Whether validation holds out every row that selection would test on."""
    if isinstance(selection, Extrapolation) and isinstance(validation, Extrapolation):
        taken = validation.columns
        return all(bound >= taken.get(name, math.inf) for name, bound in selection.columns.items())
    if isinstance(selection, Interpolation) and isinstance(validation, Interpolation):
        levels = {n: set(v) for n, v in validation.columns.items() if isinstance(v, list)}
        return all(
            isinstance(v, list) and set(v) <= levels.get(name, set())
            for name, v in selection.columns.items()
        )
    return False


def read_campaign(
    source: Mapping[str, Any],
    *,
    place: str = "campaign",
    describe: Callable[[Complaint], str] | None = None,
) -> Campaign:
    """Check a dict of the TOML shape; raise a UsageError that says where it is wrong.

    Parameters
    ----------
    place
        What the campaign was read from, for messages.
    describe
        Words a complaint for a file that is not TOML.

    >>> read_campaign({"data": {"target": "y"}, "techniques": {"LRRidge": {}}}).search.method
    'grid'
    """
    plain = _plain(source)
    try:
        return Campaign.model_validate(plain)
    except pydantic.ValidationError as error:
        complaint = explain(error, plain, Campaign)
        worded = describe or (lambda c: f"{dotted(c.place)}: {c.text}")
        raise UsageError(f"{place}, {worded(complaint)}") from None


def _plain(value: Any) -> Any:
    """Turn arrays, ranges and other Python values into lists, dicts and numbers."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _plain(v) for key, v in value.items()}
    return [_plain(v) for v in value] if isinstance(value, list | tuple | range) else value


def read_toml(path: Path) -> Campaign:
    """Read a campaign file in TOML."""
    values = read_toml_file(path, CAMPAIGN_FILE)
    if "workload" in values:
        raise UsageError(f"{path} is a sweep, not a campaign; run it with: foretell measure {path}")
    try:
        return read_campaign(values, place=str(path))
    except RecursionError:
        raise UsageError(f"{path} nests lists or tables too deeply; write them flat") from None
