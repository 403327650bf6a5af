"""The header of a model file: everything but the arrays, checked on reading."""

from __future__ import annotations

from typing import Any

import pydantic

from foretell.model.features.feature import CATEGORY, NUMBER, STEPS, Column, Feature
from foretell.model.passports.calibration import Calibration


class Header(pydantic.BaseModel):
    """Everything in a model file but the arrays."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    format: int
    foretell: str
    technique: str
    hyperparameters: dict[str, Any]
    target: str
    columns: tuple[Column, ...]
    features: tuple[Feature, ...] = pydantic.Field(min_length=1)
    rename: dict[str, str]
    ranges: dict[str, tuple[pydantic.FiniteFloat, pydantic.FiniteFloat]]
    levels: dict[str, list[pydantic.FiniteFloat]] = {}
    calibration: Calibration | None = None
    no_intervals: str | None = None
    n_rows: int
    scores: dict[str, dict[str, float | None]]
    floor: pydantic.FiniteFloat | None
    y_scaling: tuple[pydantic.FiniteFloat, pydantic.FiniteFloat] | None
    values: dict[str, Any]

    @pydantic.model_validator(mode="after")
    def _consistent(self) -> Header:
        kinds = {c.name: c.kind for c in self.columns}
        for feature in self.features:
            for factor in feature.factors:
                if factor.column not in kinds:
                    raise ValueError(f"feature {feature.name} needs an undeclared column")
                if unknown := set(factor.steps) - set(STEPS):
                    raise ValueError(f"unknown step {sorted(unknown)[0]}")
                is_category = kinds[factor.column] == CATEGORY
                if is_category != (factor.level is not None) or (is_category and factor.steps):
                    raise ValueError(f"feature {feature.name} mistakes the kind of its column")
        if any(kinds.get(name) != NUMBER for name in self.ranges):
            raise ValueError("a range is not that of a numeric column")
        for name, levels in self.levels.items():
            if name not in self.ranges or levels != sorted(levels):
                raise ValueError(f"the levels of {name} are not those of a numeric column")
        return self
