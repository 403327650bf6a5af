"""The sections of an aMLLibrary file while they are read: values, origins and warnings."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from foretell.errors import UsageError
from foretell.files.complaints import Complaint, Place, dotted, shown
from foretell.model.campaigns.ini.options import OPTIONS, Reader

#: Remedies worded for these files, where the schema words them for TOML.
REMEDIES = {
    "prior_on_grid": "list values, or write hyperparameter_tuning = hyperopt under [General]",
    "nothing_to_select_on": "give hp_selection columns of its own, with "
    "hp_selection_extrapolation_columns or hp_selection_interpolation_columns",
}


class Reading:
    """The sections of a file, the campaign read from them so far, and the warnings.

    ``origin``: the option of the file that each place of ``toml`` came from, for messages.
    """

    def __init__(
        self, sections: Mapping[str, Mapping[str, Any]], *, place: str, refuse_unknown: bool
    ) -> None:
        self.sections = sections
        self.place = place
        self.refuse_unknown = refuse_unknown
        self.warnings: list[str] = []
        self.toml: dict[str, Any] = {}
        self.origin: dict[Place, str] = {}
        for section, options in sections.items():
            if not isinstance(options, Mapping):
                rule = f"must be a dict of options, not {shown(options)}"
                raise self.error(f"[{section}]", rule)

    def error(self, where: str, rule: str) -> UsageError:
        """Make the error for a place in the file."""
        return UsageError(f"{self.place}, {where}: {rule}")

    def warn(self, where: str, rule: str) -> None:
        """Keep a warning about a place in the file."""
        text = f"{self.place}, {where}: {rule}"
        self.warnings.append(text if text.endswith(("?", ".")) else f"{text}.")

    def unknown(self, where: str, what: str, hint: str, *, then: str = " and ignored") -> None:
        """Refuse an unknown name, or warn about what happens to it."""
        if self.refuse_unknown:
            raise self.error(where, f"{what}. {hint}")
        self.warn(where, f"{what}{then}; {hint[0].lower()}{hint[1:]}")

    def value(self, where: str, read: Reader, written: Any) -> Any:
        """Read what was written at a place."""
        try:
            return read(written)
        except ValueError as error:
            came = "" if shown(written) in str(error) else f", in {shown(written)}"
            raise self.error(where, f"{error}{came}") from None

    def given(self, section: str) -> set[str]:
        """Return the names of the options that a section has."""
        return set(self.sections.get(section, {}))

    def get(self, section: str, option: str) -> Any:
        """Return the value of an option; None if it is missing, empty or none."""
        written = self.sections.get(section, {}).get(option)
        if written is None or str(written).strip().lower() in {"", "none"}:
            return None
        return self.value(f"[{section}] {option}", OPTIONS[section][option].read, written)

    def require(self, section: str, option: str, example: str, reason: str = "") -> Any:
        """Return the value of a required option; the error says what to write."""
        value = self.get(section, option)
        if value is None:
            rule = f"is required and missing{reason}; write {option} = {example}"
            raise self.error(f"[{section}] {option}", rule + self._instead(section, option))
        return value

    def _instead(self, section: str, option: str) -> str:
        """Suggest a misspelled option or section as the missing one."""
        if section not in self.sections:
            near = difflib.get_close_matches(section, self.sections, n=1)
            return f" under [{section}], which is not there" + (
                f" (is [{near[0]}] meant?)" if near else ""
            )
        unknown = {o.lower(): o for o in self.sections[section] if o not in OPTIONS[section]}
        near = difflib.get_close_matches(option.lower(), unknown, n=1)
        return f" (is '{unknown[near[0]]}' meant?)" if near else ""

    def put(self, place: tuple[str, ...], value: Any, section: str, option: str = "") -> None:
        """Set a place of the campaign, and remember where its value came from."""
        table = self.toml
        for step in place[:-1]:
            table = table.setdefault(step, {})
        table[place[-1]] = value
        self.origin[place] = f"[{section}] {option or place[-1]}"

    def copy(self, section: str, *options: str) -> None:
        """Copy options to the places that the table of options gives."""
        for option in options:
            value = self.get(section, option)
            if value is not None:
                (place,) = OPTIONS[section][option].places
                self.put(tuple(place.split(".")), value, section, option)

    def describe(self, complaint: Complaint) -> str:
        """Word a complaint about the campaign with the file's own options."""
        remedy = REMEDIES.get(complaint.kind, complaint.remedy)
        rule = "; ".join(part for part in (complaint.rule, remedy) if part)
        for length in range(len(complaint.place), 0, -1):
            origin = self.origin.get(complaint.place[:length])
            if origin is not None:
                deeper = complaint.place[length:]
                return f"{origin}, {dotted(deeper)}: {rule}" if deeper else f"{origin}: {rule}"
        return f"{dotted(complaint.place)}: {rule}"
