"""What failed and why, and how to get the same results again."""

from __future__ import annotations

import shlex

from foretell.dataset import FRAME_NAME
from foretell.model.results.schema import Results
from foretell.report.document import Block, Code, Paragraph, Section, Table
from foretell.report.findings import Findings
from foretell.wording import counted, number, plain

_MOST_TRIALS = 500


def failures_section(findings: Findings) -> Section | None:
    """List every technique without a model and every failed trial, each with its reason."""
    results = findings.results
    if results is None:
        return None
    blocks: list[Block] = []
    without = [e for e in results.leaderboard if e.status != "ok"]
    if without:
        rows = tuple((plain(e.technique), plain(e.status), plain(e.reason)) for e in without)
        header = ("technique", "status", "reason")
        blocks.append(Table("Techniques without a model", header, rows, words=(1, 2)))
    blocks += _failed_trials(results)
    if not blocks:
        n_trials = f", and none of {counted(len(results.trials), 'trial')} failed"
        text = f"Every technique gave a model{n_trials if results.trials else ''}."
        blocks.append(Paragraph(text))
    return Section("failures", "What failed", tuple(blocks))


def _failed_trials(results: Results) -> list[Block]:
    failed = [t for t in results.trials if t.status == "failed"]
    if not failed:
        return []
    rows = tuple(
        (
            plain(t.technique),
            plain(t.split),
            ", ".join(f"{plain(k)}={plain(v, 200)}" for k, v in t.hyperparameters.items()),
            plain(t.reason),
        )
        for t in failed[:_MOST_TRIALS]
    )
    caption = f"{len(failed):,} of {counted(len(results.trials), 'trial')} failed"
    if len(failed) > _MOST_TRIALS:
        caption += f"; the first {_MOST_TRIALS} are listed, results.json has all"
    header = ("technique", "split", "hyperparameters", "reason")
    return [Table(caption, header, rows, words=(1, 2, 3))]


def provenance_section(findings: Findings) -> Section:
    """Say how to get the same results, and which versions made them."""
    results, model = findings.results, findings.model
    blocks: list[Block] = []
    if results is not None:
        text = (
            "The same command on the same table gives the same models, byte for byte, on the same "
            "machine and with these versions:"
        )
        blocks += [Paragraph(text), Code(command(findings))]
    if findings.campaign is not None and results is not None and not results.is_automatic:
        blocks += [Paragraph("campaign.toml, as it was run:"), Code(findings.campaign.rstrip())]
    versions = {"foretell": results.foretell if results is not None else ""}
    if results is not None:
        versions |= results.versions
    elif model is not None:
        versions["foretell"] = model.writer
    rows = tuple((plain(name), plain(version)) for name, version in versions.items())
    blocks.append(Table("Versions", ("what", "version"), rows, words=(1,)))
    if results is not None:
        blocks.append(Paragraph(f"The fit took {number(results.times.total_s, 3)} s."))
    return Section("again", "How to make it again", tuple(blocks))


def command(findings: Findings) -> str:
    """Return the command that makes the same fit."""
    results = findings.results
    assert results is not None
    data = results.data
    drop_missing = ["--drop-missing"] * results.drop_missing
    if not results.is_automatic:
        campaign = findings.place / "campaign.toml"
        return shlex.join(["foretell", "fit", str(campaign), *drop_missing, "-o", "NEW_DIRECTORY"])
    chosen = _chosen_columns(results)
    if data.name == FRAME_NAME:
        options = [f"target={data.target!r}", *(f"{k}={v!r}" for k, v in chosen.items())]
        options += ["drop_missing=True"] * results.drop_missing
        options += [f"seed={results.seed}"] * bool(results.seed)
        return f"foretell.fit_model(frame, {', '.join(options)})"
    words = ["foretell", "fit", data.name, "--target", data.target, "-o", "NEW_DIRECTORY"]
    words += [word for flag, names in chosen.items() for n in names for word in (f"--{flag}", n)]
    words += drop_missing
    words += ["--seed", str(results.seed)] * bool(results.seed)
    return shlex.join(words)


def _chosen_columns(results: Results) -> dict[str, list[str]]:
    """Return the columns that automatic mode was told to use, to skip, or to read as names."""
    keys = {"use": "use_columns", "skip": "skip_columns", "categorical": "categorical"}
    data = results.campaign.get("data")
    found = {} if not isinstance(data, dict) else {k: data.get(key) for k, key in keys.items()}
    return {
        k: list(map(str, names)) for k, names in found.items() if isinstance(names, list) and names
    }
