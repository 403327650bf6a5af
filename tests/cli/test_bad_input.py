"""Bad input on the command line: one clear message, exit code 2, and nothing written.

The messages name the file, the place, what came and what to do; each case lists the words that
must be there. Model files have their own table in ``test_bad_model_files.py``.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner

from foretell.cli._main import cli

HEADER = "nodes,data_gb,machine,time_s"
ROWS = [
    (nodes, data, machine, round(10 + 3 * data / nodes, 2))
    for nodes in (1, 2, 4, 8)
    for data in (1, 2, 4)
    for machine in ("m4", "c4")
]


def csv(rows=ROWS, header=HEADER):
    return "\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n"


def cell(row, column, value, rows=ROWS):
    """Return the table with another value in one place; rows are counted from 1."""
    changed = [list(r) for r in rows]
    changed[row - 1][HEADER.split(",").index(column)] = value
    return csv(changed)


def every(column, value):
    return csv(
        [
            [value if n == column else v for n, v in zip(HEADER.split(","), r, strict=True)]
            for r in ROWS
        ]
    )


def toml(
    data="",
    *,
    path="runs.csv",
    target="time_s",
    features="",
    search='method = "KFold"\nfolds = 3',
    method="grid",
    validation='method = "HoldOut"\nratio = 0.2',
    techniques="[techniques.LRRidge]\nalpha = 0.1",
    top="",
    more="",
):
    return f"""{top}
[data]
path = "{path}"
target = "{target}"
{data}
[features]
{features}
[search]
method = "{method}"
[search.splits]
{search}
[validation]
{validation}
{techniques}
{more}
"""


def ini(general="", preparation="", *, more="", **options):
    """Return a campaign in aMLLibrary's form; keywords replace the options of [General]."""
    options = {
        "techniques": "[LRRidge]",
        "y": "time_s",
        "hp_selection": "KFold",
        "validation": "HoldOut",
        "folds": "3",
        "hold_out_ratio": "0.2",
        **options,
    }
    lines = "\n".join(f"{name} = {value}" for name, value in options.items() if value is not None)
    return f"""[General]
{lines}
{general}
[DataPreparation]
input_path = runs.csv
{preparation}
{more}
"""


FIT = "fit c.toml -o out -j 1 -q"
FIT_INI = "fit c.ini -o out -j 1 -q"
PREDICT = "predict model new.csv"


@dataclass
class Case:
    """A command, the files it finds, and the words its message must have.

    ``table`` is runs.csv, ``new`` is new.csv; a campaign is written as c.toml or c.ini.
    """

    name: str
    words: list[str]
    command: str = FIT
    table: str | bytes | None = field(default_factory=csv)
    new: str | bytes | None = None
    campaign: str | None = None
    files: dict[str, str | bytes] = field(default_factory=dict)

    def write(self):
        campaign = "c.ini" if "c.ini" in self.command else "c.toml"
        contents = {
            "runs.csv": self.table,
            "new.csv": self.new,
            campaign: toml() if self.campaign is None else self.campaign,
            **self.files,
        }
        for name, content in contents.items():
            if content is not None:
                path = Path(name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content if isinstance(content, bytes) else content.encode())


def fit_toml(name, words, **parts):
    table = parts.pop("table", csv())
    return Case(name, words, table=table, campaign=toml(**parts))


def fit_ini(name, words, **parts):
    table = parts.pop("table", csv())
    return Case(name, words, FIT_INI, table=table, campaign=ini(**parts))


def table(name, content, *words):
    return Case(name, ["runs.csv", *words], table=content)


NOT_TABLES = [
    Case("no-table", ["c.toml", "data.path", "no table runs.csv", "looked at"], table=None),
    Case(
        "no-table-but-a-similar-one",
        ["no table runs.csv", "Did you mean 'run.csv'?"],
        table=None,
        files={"run.csv": csv()},
    ),
    fit_toml("table-name-too-long", ["data.path", "no table xxx"], path="x" * 5000),
    fit_toml("table-of-nobody", ["data.path", "~nobody-here/x.csv"], path="~nobody-here/x.csv"),
    fit_toml("table-without-a-name", ["names no table", "path"], path=""),
    Case(
        "directory", ["runs.csv", "directory", "name a table"], table=None, files={"runs.csv/x": ""}
    ),
    table("name-of-a-prediction", csv(header=f"lower{HEADER[5:]}"), "'lower'", "rename"),
    table("empty", "", "empty", "first line must name the columns"),
    table("blank-lines", "\n \n\n", "empty", "first line must name the columns"),
    table("header-alone", HEADER + "\n", "no rows below its header", "one row per run"),
    table("json", '[{"nodes": 1, "time_s": 2}]', "not a table", "JSON", "export it as CSV"),
    table("json-on-lines", '{"nodes": 1}\n{"nodes": 2}\n', "JSON", "export it as CSV"),
    table("json-indented", '[\n {\n  "nodes": 1,\n  "time_s": 2\n }\n]', "JSON"),
    table("html", "<!DOCTYPE html>\n<p>a, b</p>", "not a table", "HTML", "export it as CSV"),
    table("utf-16", csv().encode("utf-16"), "UTF-16", "save it as UTF-8"),
    table("utf-32", csv().encode("utf-32"), "UTF-32", "save it as UTF-8"),
    Case("table-without-an-end", ["/dev/zero", "a device"], "predict model /dev/zero"),
    Case("campaign-without-an-end", ["/dev/zero", "a device"], "fit /dev/zero -o out"),
    Case("sweep-without-an-end", ["/dev/zero", "a device"], "measure /dev/zero -o r.csv"),
    Case(
        "prices-without-an-end",
        ["/dev/zero", "a device"],
        "plan model --vary nodes=1,2 --fix data_gb=1 --fix machine=m4 --prices /dev/zero",
    ),
    Case(
        "model-without-an-end",
        ["/dev/zero", "not a foretell model|device"],
        "predict /dev/zero runs.csv",
    ),
    table("latin-1", cell(4, "machine", "ü").encode("latin-1"), "line 5", "save it as UTF-8"),
    table("image", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "not text", "export it as CSV"),
    table("zeros-inside", csv() + "\0\0,1,m4,3\n", "not text"),
    table("one-endless-word", "x" * 200_000 + "\n1\n", "not a table", "first line"),
    table("longer-row", csv() + "1,2,m4,3,9\n", "line 26", "5 values", "4 columns", "quote"),
    table("longer-rows", csv(header="nodes,data_gb,machine"), "more values", "3", "name every"),
    table("shorter-row", csv() + "1,2\n", "'machine'|'time_s'", "1 missing value", "row 25"),
    table("open-quote", csv() + '"1,2,m4,3\n', "not a table", "inside string"),
    table(
        "duplicate-column", csv(header="nodes,nodes,machine,time_s"), "'nodes'", "rename or remove"
    ),
    table(
        "spaces-between",
        csv().replace(",", " "),
        "no column 'time_s'",
        "only column is 'nodes data_gb machine time_s'",
        "separated by",
    ),
    Case(
        "not-parquet",
        ["runs.parquet", "not a Parquet table", "export it again"],
        campaign=toml(path="runs.parquet"),
        files={"runs.parquet": csv()},
    ),
]

TARGETS = [
    table(
        "target-missing",
        csv(header="nodes,data_gb,machine,tme_s"),
        "data.target",
        "'time_s'",
        "'tme_s'?",
    ),
    fit_ini("target-missing-ini", ["c.ini", "[General] y", "'tim'", "'time_s'?", "nodes"], y="tim"),
    table(
        "target-text", cell(5, "time_s", "slow"), "c.toml", "'time_s'", "'slow'", "row 5", "Correct"
    ),
    table("target-decimal-comma", csv().replace(",", ";").replace(".", ","), "'13,0'", "24", "1.5"),
    table("target-thousands", cell(3, "time_s", '"1,000.5"'), "'1,000.5'", "row 3", "1000"),
    table("target-words", every("time_s", "true"), "'time_s'", "must hold numbers", "'True'"),
    table(
        "target-constant",
        every("time_s", 5),
        "c.toml",
        "'time_s' is 5 in every row",
        "another target",
    ),
    table("target-zero", cell(5, "time_s", 0), "'time_s'", "1 value ≤ 0 (row 5)", "MAPE", "rmse"),
    table("target-subnormal", cell(5, "time_s", "1e-310"), "'time_s'", "(row 5)", "smaller unit"),
    Case(
        "target-subnormal-of-a-table",
        ["runs.csv", "'time_s'", "(row 5)", "smaller unit"],
        "fit runs.csv --target time_s -o out",
        table=cell(5, "time_s", "5e-324"),
    ),
    table("target-negative", cell(24, "time_s", -2.5), "1 value ≤ 0 (row 24)", "MAPE", "Drop"),
    table("target-nan", cell(5, "time_s", "nan"), "1 missing value (row 5)", "--drop-missing"),
    table(
        "target-infinite", cell(5, "time_s", "inf"), "'time_s'", "1 infinite value (row 5)", "drop"
    ),
    fit_ini("target-zero-ini", ["c.ini", "[General] y", "row 2"], table=cell(2, "time_s", 0)),
]

VALUES = [
    table("column-nan", cell(5, "data_gb", "NaN"), "'data_gb'", "1 missing value (row 5)", "Fill"),
    table("column-blank", cell(7, "data_gb", ""), "'data_gb'", "1 missing value (row 7)"),
    table(
        "columns-with-gaps",
        csv([(n, "", "" if i < 2 else m, t) for i, (n, _, m, t) in enumerate(ROWS)]),
        "'data_gb' has 24 missing values",
        "'machine' has 2 missing values (rows 1, 2)",
    ),
    table("column-null", cell(7, "data_gb", "NULL"), "'data_gb'", "1 missing value (row 7)"),
    table("category-blank", cell(5, "machine", ""), "'machine'", "1 missing value (row 5)", "drop"),
    table(
        "column-nan-often",
        every("data_gb", ""),
        "'data_gb'",
        "24 missing values (rows 1, 2, 3, 4, 5 and 19 more)",
    ),
    table("column-infinite", cell(6, "nodes", "-Infinity"), "'nodes'", "1 infinite value (row 6)"),
    table("column-too-large", cell(6, "nodes", "1e400"), "'nodes'", "1 infinite value (row 6)"),
    table("column-too-long", cell(6, "nodes", "9" * 400), "'nodes'", "1 infinite value (row 6)"),
    table(
        "text-among-numbers", cell(5, "nodes", "four"), "'nodes'", "'four'", "row 5", "categorical"
    ),
    table("thousands", cell(5, "data_gb", '"1,000"'), "'data_gb'", "'1,000'", "(row 5)", "1000"),
    table(
        "decimal-commas",
        csv([(n, f'"{d},5"', *r) for n, d, *r in ROWS]),
        "'data_gb'",
        "'1,5'",
        "1.5",
    ),
    fit_ini(
        "text-among-numbers-ini",
        ["[DataPreparation] categorical_columns", "'?'", "row 9"],
        table=cell(9, "nodes", "?"),
    ),
    fit_toml(
        "nan-after-skipped-rows",
        ["'nodes'", "1 missing value (row 24)"],
        data="skip_rows_above = {data_gb = 4}",
        table=cell(24, "nodes", ""),
    ),
]

COLUMNS = [
    fit_toml("rename-unknown", ["data.rename", "'nods'", "'nodes'?"], data='rename = {nods = "n"}'),
    fit_toml(
        "rename-clash", ["data.rename", "'data_gb'", "another"], data='rename = {nodes = "data_gb"}'
    ),
    fit_toml(
        "use-unknown", ["data.use_columns", "'nods'", "'nodes'?"], data='use_columns = ["nods"]'
    ),
    fit_toml(
        "use-target",
        ["data.use_columns", "'time_s'", "leave it out"],
        data='use_columns = ["time_s"]',
    ),
    fit_toml(
        "skip-unknown", ["data.skip_columns", "'nods'", "'nodes'?"], data='skip_columns = ["nods"]'
    ),
    fit_toml(
        "skip-all",
        ["data.skip_columns", "no column", "'time_s'", "skip fewer"],
        data='skip_columns = ["nodes", "data_gb", "machine"]',
    ),
    fit_toml(
        "categorical-unknown",
        ["data.categorical", "'nods'", "'nodes'?"],
        data='categorical = ["nods"]',
    ),
    fit_toml(
        "categorical-unused",
        ["data.categorical", "'nodes'", "leave it out"],
        data='categorical = ["nodes"]\nuse_columns = ["data_gb"]',
    ),
    fit_toml(
        "skip-rows-unknown",
        ["data.skip_rows_above", "'nods'", "'nodes'?"],
        data="skip_rows_above = {nods = 2}",
    ),
    fit_toml(
        "skip-rows-text",
        ["data.skip_rows_above", "'machine'", "'m4'", "another column"],
        data="skip_rows_above = {machine = 2}",
    ),
    fit_toml(
        "skip-rows-all",
        ["data.skip_rows_above", "no row", "'nodes' is 1 to 8", "raise"],
        data="skip_rows_above = {nodes = 0}",
    ),
    fit_toml(
        "log-unknown", ["c.toml", "features.log", "'nods'", "'nodes'?"], features='log = ["nods"]'
    ),
    fit_toml(
        "log-of-target", ["features.log", "'time_s'", "Known: nodes"], features='log = ["time_s"]'
    ),
    fit_toml(
        "log-of-category",
        ["features.log", "'machine'", "leave it out"],
        features='log = ["machine"]',
    ),
    fit_toml(
        "inverse-unknown", ["features.inverse", "'node'", "'nodes'?"], features='inverse = ["node"]'
    ),
    fit_toml(
        "product-unknown",
        ["features.selected_products", "'nodes data'", "'data_gb'?"],
        features='selected_products = ["nodes data"]',
    ),
    fit_toml(
        "too-many-products",
        ["features.product_max_degree", "degree 90", "lower"],
        features="product_max_degree = 90",
    ),
    fit_toml(
        "ernest-without-its-columns",
        ["features.ernest", "'datasize'", "rename"],
        features="ernest = true",
    ),
    fit_ini(
        "use-unknown-ini",
        ["c.ini", "[DataPreparation] use_columns", "'nods'", "'nodes'?"],
        preparation="use_columns = [nods]",
    ),
    fit_ini(
        "skip-unknown-ini",
        ["[DataPreparation] skip_columns", "'x'", "Columns: nodes"],
        preparation="skip_columns = [x]",
    ),
    fit_ini(
        "log-unknown-ini",
        ["[DataPreparation] log", "'nods'", "'nodes'?"],
        preparation="log = [nods]",
    ),
    fit_ini(
        "rename-unknown-ini",
        ["[DataPreparation] rename_columns", "'nods'", "'nodes'?"],
        preparation="rename_columns = {nods: n}",
    ),
    fit_ini(
        "skip-rows-all-ini",
        ["[DataPreparation] skip_rows", "no row", "raise the bounds"],
        preparation="skip_rows = {nodes: 0}",
    ),
    fit_ini(
        "bound-unknown-ini",
        ["[General] validation", "'nods'", "'nodes'?"],
        validation="Extrapolation",
        extrapolation_columns="{nods: 2}",
    ),
]

MATHEMATICS = [
    fit_toml(
        "log-of-zero",
        ["features.log", "runs.csv", "'data_gb'", "1 value ≤ 0 (row 5)", "leave"],
        features='log = ["data_gb"]',
        table=cell(5, "data_gb", 0),
    ),
    fit_toml(
        "log-of-negative",
        ["features.log", "'data_gb'", "≤ 0 (row 5)", "positive"],
        features='log = ["*"]',
        table=cell(5, "data_gb", -3),
    ),
    fit_toml(
        "inverse-of-zero",
        ["features.inverse", "'nodes'", "1 value = 0 (row 24)", "Drop"],
        features='inverse = ["nodes"]',
        table=cell(24, "nodes", 0),
    ),
    fit_toml(
        "inverse-too-large",
        ["features.inverse", "'nodes'", "(row 24)"],
        features='inverse = ["nodes"]',
        table=cell(24, "nodes", 1e-310),
    ),
    fit_toml(
        "product-too-large",
        ["features.product_max_degree", "'nodes__nodes'", "row 5", "lower"],
        features="product_max_degree = 2",
        table=cell(5, "nodes", 1e200),
    ),
    fit_ini(
        "log-of-zero-ini",
        ["c.ini", "[DataPreparation] log", "'data_gb'", "rows 5, 6"],
        preparation="log = [*]",
        table=csv([r if i not in (4, 5) else (r[0], 0, *r[2:]) for i, r in enumerate(ROWS)]),
    ),
    fit_ini(
        "root-of-negative-ini",
        ["[DataPreparation] ernest", "'datasize'", "(row 5)"],
        preparation="ernest = true\nrename_columns = {data_gb: datasize, nodes: cores}",
        table=cell(5, "data_gb", -1),
    ),
]

SPLITS = [
    fit_toml(
        "extrapolation-without-tests",
        ["validation", "'nodes' > 8", "1 to 8", "no test row", "change"],
        validation='method = "Extrapolation"\ncolumns = {nodes = 8}',
    ),
    fit_toml(
        "extrapolation-without-training",
        ["validation", "'nodes' > 0", "no training row", "24"],
        validation='method = "Extrapolation"\ncolumns = {nodes = 0}',
    ),
    fit_toml(
        "extrapolation-by-text",
        ["validation", "'machine'", "must hold numbers", "another"],
        validation='method = "Extrapolation"\ncolumns = {machine = 1}',
    ),
    fit_toml(
        "interpolation-without-tests",
        ["validation", "'nodes'", "3", "choose among 1, 2, 4, 8"],
        validation='method = "Interpolation"\ncolumns = {nodes = [3]}',
    ),
    fit_toml(
        "interpolation-without-training",
        ["validation", "'nodes' at 1, 2, 4, 8", "no training row"],
        validation='method = "Interpolation"\ncolumns = {nodes = [1, 2, 4, 8]}',
    ),
    fit_toml(
        "interpolation-unknown",
        ["validation", "'nods'", "'nodes'?"],
        validation='method = "Interpolation"\ncolumns = {nods = 2}',
    ),
    fit_toml(
        "selection-without-rows",
        ["search.splits", "bounds"],
        search='method = "Extrapolation"\ncolumns = {nodes = 4}',
        validation='method = "Extrapolation"\ncolumns = {nodes = 2}',
    ),
    fit_toml(
        "folds",
        ["validation", "25 folds", "24 rows", "at most 24"],
        validation='method = "KFold"\nfolds = 25',
    ),
    fit_toml(
        "selection-folds",
        ["search.splits", "24 folds", "20 rows", "at most 20"],
        search='method = "KFold"\nfolds = 24',
    ),
    fit_toml(
        "ratio",
        ["validation", "0.001", "0 test rows", "change the ratio"],
        validation='method = "HoldOut"\nratio = 0.001',
    ),
    fit_toml(
        "ratio-above-one",
        ["validation.ratio", "less than 1", "1.5"],
        validation='method = "HoldOut"\nratio = 1.5',
    ),
    fit_toml(
        "selection-of-too-many",
        ["feature_selection.max_features", "at most", "4", "99"],
        more='[feature_selection]\nmethod = "SFS"\nmax_features = 99',
    ),
    fit_toml("one-row", ["validation", "1 rows", "0 test rows"], table=csv(ROWS[:1])),
    fit_ini(
        "extrapolation-ini",
        ["c.ini", "[General] validation", "'nodes' > 8", "no test row"],
        validation="Extrapolation",
        extrapolation_columns="{nodes: 8}",
    ),
    fit_ini(
        "interpolation-ini",
        ["[General] hp_selection", "'nodes'", "none of the values 3"],
        hp_selection="Interpolation",
        interpolation_columns="{nodes: [3]}",
    ),
    fit_ini(
        "folds-ini",
        ["c.ini", "[General] validation", "99 folds", "24 rows", "at most 24"],
        validation="KFold",
        folds="99",
    ),
    fit_ini("no-folds-ini", ["[General] folds", "required and missing", "folds = 5"], folds=None),
]


def technique(name, text, *words, method="grid"):
    return fit_toml(name, ["c.toml", *words], techniques=text, method=method)


TECHNIQUES = [
    technique("technique", "[techniques.LRRigde]", "techniques", "'LRRigde'", "'LRRidge'?"),
    technique(
        "hyperparameter", "[techniques.LRRidge]\nalhpa = 1", "LRRidge", "'alhpa'", "'alpha'?"
    ),
    technique("value", "[techniques.LRRidge]\nalpha = -1", "LRRidge.alpha", "at least 0", "-1"),
    technique("word", "[techniques.SVR]\nkernel = 'flat'", "SVR.kernel", "'flat'", "linear"),
    technique("no-values", "[techniques.LRRidge]\nalpha = []", "LRRidge.alpha", "empty"),
    technique(
        "prior-on-a-grid", "[techniques.LRRidge]\nalpha = 'uniform(0,1)'", "uniform(0,1)", '"tpe"'
    ),
    *(
        technique(
            f"prior-{i}", f"[techniques.LRRidge]\nalpha = '{p}'", "alpha", p, *w, method="tpe"
        )
        for i, (p, w) in enumerate(
            [
                ("loguniform(0,1)", ["0 must be positive"]),
                ("loguniform(1)", ["loguniform(low, high)", "got 1 argument"]),
                ("uniform(2,1)", ["2 must be less than", "1"]),
                ("uniform(a,1)", ["'a' is not a number"]),
                ("quniform(0,1,0)", ["step 0 must be positive"]),
                ("unifrom(0,1)", ["'uniform'?"]),
                ("choice()", ["choice(option"]),
                ("uniform(-2,-1)", ["at least 0"]),
            ]
        )
    ),
    fit_ini(
        "technique-ini",
        ["c.ini", "[General] techniques", "'Ridge'", "'LRRidge'?"],
        techniques="[Ridge]",
    ),
    fit_ini("value-ini", ["c.ini", "[LRRidge] alpha", "'large'"], more="[LRRidge]\nalpha = large"),
    fit_ini(
        "prior-ini",
        ["[LRRidge] alpha", "loguniform(0,1)", "positive"],
        hyperparameter_tuning="hyperopt",
        hyperopt_max_evals="3",
        more="[LRRidge]\nalpha = ['loguniform(0,1)']",
    ),
    fit_ini(
        "prior-on-a-grid-ini",
        ["[LRRidge] alpha", "hyperparameter_tuning = hyperopt"],
        more="[LRRidge]\nalpha = ['loguniform(0.1,1)']",
    ),
    fit_ini("open-bracket-ini", ["[LRRidge] alpha", "missing"], more="[LRRidge]\nalpha = [1, 2"),
]


def campaign(name, content, *words, command=FIT):
    return Case(name, words, command, campaign=content)


CAMPAIGNS = [
    Case("no-campaign", ["no campaign file 'd.toml'", "'c.toml'?"], "fit d.toml -o out"),
    Case(
        "campaign-is-a-directory",
        ["folder is a directory", "folder/a.ini"],
        "fit folder -o out",
        files={"folder/a.ini": ini()},
    ),
    Case("table-without-target", ["runs.csv is a table", "--target"], "fit runs.csv -o out"),
    campaign("campaign-empty", "", "c.toml", "is empty", "target"),
    campaign("campaign-broken", "[data\n", "c.toml", "not valid TOML", "line 1"),
    campaign("campaign-of-another-kind", csv(), "c.toml", "not valid TOML"),
    campaign("campaign-nested-deeply", f"x = {'[' * 5000}", "c.toml", "too deeply", "flat"),
    campaign("campaign-named-deeply", ".".join("a" * 3000) + " = 1", "c.toml", "too deeply"),
    campaign("number-too-long", f"seed = {'9' * 5000}", "c.toml", "not valid TOML", "digits"),
    campaign(
        "campaign-without-target",
        '[data]\npath = "runs.csv"\n[techniques.LRRidge]',
        "c.toml",
        "data.target",
        "missing",
    ),
    campaign("unknown-option", toml(top="sede = 1"), "c.toml", "'sede'", "'seed'?"),
    campaign("unknown-method", toml(validation='method = "KFolds"'), "validation", "'KFold'?"),
    campaign("seed-text", toml(top='seed = "one"'), "c.toml", "seed", "whole number", "'one'"),
    campaign(
        "seed-too-large", toml(top="seed = 4294967296"), "seed", "4294967295|less than 4294967296"
    ),
    campaign(
        "section-broken-ini",
        "techniques = LRRidge\n",
        "c.ini",
        "line 1",
        "[General]",
        command=FIT_INI,
    ),
    campaign("option-twice-ini", ini("y = x"), "c.ini", "[General] y", "twice", command=FIT_INI),
    campaign(
        "no-table-ini",
        "[General]\ny = time_s\n",
        "[DataPreparation] input_path",
        "missing",
        command=FIT_INI,
    ),
]


def option(text, *words):
    return Case(f"option {text[-24:]}", list(words), text)


OPTIONS = [
    option("fit c.toml -o out -j 0", "--jobs", "1 to 1024", "0"),
    option("fit c.toml -o out -j -2", "--jobs", "1 to 1024", "-2"),
    option("fit c.toml -o out -j 99999", "--jobs", "1 to 1024", "99999"),
    option("fit c.toml -o out -j two", "'-j'", "'two'", "integer", "--help"),
    option("fit c.toml -o out --time-limit -5", "--time-limit", "positive", "-5"),
    option("fit c.toml -o out --time-limit nan", "--time-limit", "positive", "nan"),
    option("predict model runs.csv --interval 90", "--interval", "between 0 and 1", "90"),
    option("fit c.toml -o out --time-limit soon", "'--time-limit'", "'soon'", "--help"),
    option("fit c.toml -o out --seed -1", "--seed", "from 0 to 4294967295", "-1"),
    option("fit c.toml -o out --seed 4294967296", "--seed", "from 0 to 4294967295"),
    option("fit c.toml -o out --sed 1", "'--sed'", "'--seed'"),
    option("fit c.toml", "'-o'", "foretell fit --help"),
    option("fit", "CAMPAIGN", "foretell fit --help"),
    option("fit c.toml runs.csv -o out", "runs.csv", "foretell fit --help"),
    option("predict model", "DATA", "foretell predict --help"),
    option("--debgu fit c.toml -o out", "'--debgu'", "'--debug'?", "foretell --help"),
    option("predikt model new.csv", "'predikt'", "--help"),
    option("convert c.ini", "NEW", "foretell convert --help"),
]

OUTPUTS = [
    Case("output-is-a-file", ["out is a file", "directory", "-o"], files={"out": "mine"}),
    Case(
        "output-below-a-file",
        ["runs.csv/out", "Not a directory", "another"],
        "fit c.toml -o runs.csv/out",
    ),
    Case(
        "output-is-unwritable",
        ["/proc/foretell", "cannot be written", "-o"],
        "fit c.toml -o /proc/foretell",
    ),
    Case("output-name-too-long", ["too long", "-o"], f"fit c.toml -o {'x' * 300}"),
    Case(
        "output-with-other-files",
        ["out", "thesis.tex", "nothing is overwritten", "new directory", "-o"],
        files={"out/thesis.tex": "mine"},
    ),
    Case(
        "output-with-a-lone-model",
        ["out", "best.foretell", "nothing is overwritten"],
        files={"out/best.foretell": "mine"},
    ),
    Case(
        "output-with-somebody's-journal",
        ["out", "journal", "nothing is overwritten", "-o"],
        files={"out/journal": "Dear diary"},
    ),
    Case(
        "output-with-a-folder-journal",
        ["out", "no journal of foretell", "-o"],
        files={"out/journal/x": ""},
    ),
    Case(
        "output-of-another-campaign",
        ["model", "another campaign", "never mix", "-o"],
        "fit c.toml -o model",
        campaign=toml(top="seed = 5"),
    ),
    Case(
        "output-of-other-data",
        ["model", "other data", "never mix", "-o"],
        "fit c.toml -o model",
        table=cell(1, "time_s", 99),
    ),
]

NEW = "nodes,data_gb,machine\n"


def new(name, content, *words, command=PREDICT, **parts):
    return Case(name, ["new.csv", *words], command, new=content, **parts)


PREDICTIONS = [
    Case("no-new-table", ["no file later.tsv", "check the path"], "predict model later.tsv"),
    Case(
        "no-new-table-but-a-similar-one",
        ["no file new.csv", "'news.csv'?"],
        PREDICT,
        files={"news.csv": NEW},
    ),
    Case("new-table-name-too-long", ["xxx", "too long"], f"predict model {'x' * 300}"),
    new("new-table-empty", "", "empty", "first line"),
    new("new-table-header-alone", NEW, "no rows below its header"),
    new(
        "new-column-missing",
        "nodes,machine\n1,m4\n",
        "'data_gb'",
        "Columns: nodes",
        "model of time_s",
    ),
    new("new-column-misspelt", "nodes,data,machine\n1,1,m4\n", "'data_gb'", "'data'?"),
    new(
        "new-column-twice", "nodes,nodes,data_gb,machine\n1,1,1,m4\n", "'nodes'", "rename or remove"
    ),
    new(
        "new-values-missing-in-all-rows",
        NEW + ",1,m4\n,,c4\n",
        "'nodes' has 2 missing values (rows 1, 2)",
        "'data_gb' has 1 missing value (row 2)",
    ),
    new(
        "new-values-wrong-in-all-rows-each-in-its-way",
        NEW + "1,inf,m4\nfour,1,m4\n1,,m4\n",
        "'data_gb' has 1 missing value (row 3)",
        "'data_gb' has 1 infinite value (row 1)",
        "'four' (row 2)",
    ),
    new("new-category-missing", NEW + "1,1,\n", "'machine'", "1 missing value (row 1)"),
    new("new-value-infinite", NEW + "1,inf,m4\n", "'data_gb'", "infinite value (row 1)"),
    new("new-value-text", NEW + "four,1,m4\n", "'nodes'", "'four'", "(row 1)"),
    new(
        "new-values-text",
        NEW + "one,1,m4\ntwo,1,m4\n",
        "'nodes'",
        "2 other values",
        "'one'",
        "rows 1, 2",
    ),
    new("new-value-thousands", NEW + '1,"1,000",m4\n', "'data_gb'", "'1,000'", "1000"),
    new("new-log-of-zero", NEW + "1,0,m4\n", "'data_gb'", "1 value ≤ 0 (row 1)", "logarithm"),
    new("new-inverse-of-zero", NEW + "0,1,m4\n", "'nodes'", "1 value = 0 (row 1)", "inverse"),
    new("new-value-far-off", NEW + "1e-308,1,m4\n", "(row 1)", "too far outside"),
    new(
        "new-column-of-ours", "prediction," + NEW + "1,1,1,m4\n", "'prediction'", "rename or remove"
    ),
    new("new-table-json", '{"nodes": 1}', "JSON", "export it as CSV"),
    new("new-table-utf-16", (NEW + "1,1,m4\n").encode("utf-16"), "UTF-16", "UTF-8"),
    *(
        Case(
            name,
            words,
            f"predict model new.csv -o {path}",
            new=NEW + "1,1,m4\n",
            files={"old.csv": "mine", "folder/x": ""},
        )
        for name, path, words in [
            ("predictions-exist", "old.csv", ["old.csv exists already", "--force"]),
            ("predictions-are-a-folder", "folder", ["folder is a directory", "name a file"]),
            ("predictions-go-nowhere", "no/p.csv", ["no/p.csv", "no directory no"]),
            (
                "predictions-below-a-file",
                "old.csv/p.csv",
                ["old.csv/p.csv", "no directory old.csv"],
            ),
            ("predictions-name-too-long", "x" * 300, ["too long", "another"]),
        ]
    ),
    Case(
        "predictions-are-a-folder-by-force",
        ["folder is a directory"],
        "predict model new.csv -o folder --force",
        new=NEW + "1,1,m4\n",
        files={"folder/x": ""},
    ),
]

CONVERSIONS = [
    Case(
        "convert-nothing",
        ["no campaign file 'd.ini'", "'c.ini'?"],
        "convert d.ini new.toml",
        campaign="",
        files={"c.ini": ini()},
    ),
    Case(
        "convert-over-a-file",
        ["old.toml exists already", "--force"],
        "convert c.ini old.toml",
        campaign=ini(),
        files={"old.toml": "mine"},
    ),
    Case(
        "convert-to-nowhere",
        ["no/c.toml", "no directory no"],
        "convert c.ini no/c.toml",
        campaign=ini(),
    ),
    Case(
        "convert-broken",
        ["c.ini", "[General] y", "missing"],
        "convert c.ini new.toml",
        campaign=ini(y=None),
    ),
]

CASES = [
    *NOT_TABLES,
    *TARGETS,
    *VALUES,
    *COLUMNS,
    *MATHEMATICS,
    *SPLITS,
    *TECHNIQUES,
    *CAMPAIGNS,
    *OPTIONS,
    *OUTPUTS,
    *PREDICTIONS,
    *CONVERSIONS,
]


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A directory with a fitted model, which takes logarithms and inverses."""
    folder = tmp_path_factory.mktemp("fitted")
    (folder / "runs.csv").write_text(csv())
    (folder / "c.toml").write_text(toml(features='log = ["data_gb"]\ninverse = ["nodes"]'))
    here = Path.cwd()
    os.chdir(folder)
    try:
        result = run("fit c.toml -o model -j 1 -q")
    finally:
        os.chdir(here)
    assert result.exit_code == 0, result.output
    return folder / "model"


@pytest.fixture
def folder(tmp_path, monkeypatch, fitted):
    """An empty folder but for the fitted model, and we are in it."""
    shutil.copytree(fitted, tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(command):
    return CliRunner().invoke(cli, command.split(), prog_name="foretell")


def contents(folder):
    return {p: p.read_bytes() if p.is_file() else None for p in folder.rglob("*")}


def assert_refused(code, stdout, stderr, words):
    lines = [line for line in stderr.splitlines() if not line.startswith("warning: ")]
    assert code == 2, stderr
    assert stdout == ""
    assert "Traceback" not in stderr
    assert lines and lines[0].startswith("error: ")
    assert [line.lower().startswith("error") for line in lines].count(True) == 1
    for word in words:
        assert any(one in lines[0] for one in word.split("|")), (word, lines[0])


def test_there_are_enough_cases_and_no_two_share_a_name():
    assert len(CASES) >= 60
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_bad_input_is_refused_and_nothing_is_written(case, folder):
    case.write()
    before = contents(folder)
    result = run(case.command)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert_refused(result.exit_code, result.stdout, result.stderr, case.words)
    assert contents(folder) == before


def test_the_cases_fail_for_their_own_reason(folder):
    Case("sound", [], new=NEW + "1,1,m4\n").write()
    assert run(FIT).exit_code == 0
    assert run(PREDICT).exit_code == 0
    Path("c.ini").write_text(ini())
    assert run("fit c.ini -o other -j 1 -q").exit_code == 0


def test_sound_tables_written_in_unusual_ways_are_read(folder):
    tables = {
        "blank lines": "\n\n" + csv().replace("\n", "\n\n"),
        "semicolons": csv().replace(",", ";"),
        "tabs": csv().replace(",", "\t"),
        "bars": csv().replace(",", " | "),
        "quotes": csv([[f'"{v}"' for v in row] for row in ROWS]),
        "byte order mark": "\ufeff" + csv(),
        "windows": csv().replace("\n", "\r\n"),
        "old mac": csv().replace("\n", "\r"),
    }
    Case("sound", []).write()
    for name, content in tables.items():
        Path("runs.csv").write_bytes(content.encode())
        # The same table, however it is written, continues the same results.
        result = run("fit c.toml -o out -j 1 -q")
        assert result.exit_code == 0, (name, result.stderr)


def test_numbers_too_large_for_integers_are_numbers(folder):
    Case("large", [], table=cell(5, "data_gb", "9" * 30)).write()
    assert run(FIT).exit_code == 0
    assert "data_gb_class" not in Path("out/results.json").read_text()


def test_parquet_tables_are_checked_like_others(folder):
    Case("parquet", [], campaign=toml(path="runs.parquet")).write()
    frame = pd.read_csv("runs.csv")
    refused = {
        "dates": (
            frame.assign(time_s=pd.Timestamp("2024-01-01")),
            ["'time_s'", "must hold numbers"],
        ),
        "lists as target": (frame.assign(time_s=[[1]] * 24), ["'time_s'", "lists", "one number"]),
        "decimals with a gap": (
            frame.assign(nodes=[Decimal(1)] * 23 + [None]),
            ["'nodes'", "1 missing value (row 24)"],
        ),
        "gaps": (
            frame.assign(nodes=frame["nodes"].astype("Int64").where(frame.index != 3)),
            ["row 4"],
        ),
        "no rows": (frame.head(0), ["no rows"]),
    }
    for content, words in refused.values():
        content.to_parquet("runs.parquet")
        result = run(FIT)
        assert_refused(result.exit_code, result.stdout, result.stderr, words)
        assert not Path("out").exists()


@pytest.mark.parametrize("table", ["-", "/dev/stdin", "<(cat)"])
def test_table_from_a_pipe_is_read_whole(table, folder):
    Path("new.csv").write_text(NEW + "1,1,m4\n" * 50)
    reader = f"cat new.csv | bash -c '{sys.executable} -m foretell predict model {table} -o p.csv'"
    done = subprocess.run(reader, shell=True, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert len(pd.read_csv("p.csv")) == 50


SCRIPT = str(Path(sys.executable).with_name("foretell"))
MODULE = f"{sys.executable} -m foretell"


@pytest.mark.parametrize(
    "program, name",
    [
        (SCRIPT, "target-zero"),
        (MODULE, "thousands"),
        (SCRIPT, "output-with-other-files"),
        (MODULE, "new-log-of-zero"),
        (SCRIPT, "option fit c.toml -o out -j two"),
    ],
)
def test_the_program_itself_refuses(program, name, folder):
    case = next(c for c in CASES if c.name == name)
    case.write()
    before = contents(folder)
    done = subprocess.run(
        [*program.split(), *case.command.split()], capture_output=True, text=True, timeout=120
    )
    assert_refused(done.returncode, done.stdout, done.stderr, case.words)
    assert contents(folder) == before


def test_traceback_is_shown_on_request(folder):
    done = subprocess.run(
        [SCRIPT, "--debug", "fit", "none.toml", "-o", "out"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1
    assert "Traceback" in done.stderr and "no campaign file 'none.toml'" in done.stderr


HOLD_LOCK = """
import fcntl, sys, time
with open("out/lock", "a") as lock:
    fcntl.lockf(lock, fcntl.LOCK_EX)
    print("held", flush=True)
    time.sleep(60)
"""


def test_second_process_in_one_directory_is_refused(folder):
    Case("sound", []).write()
    assert run(FIT).exit_code == 0
    before = contents(folder)
    with subprocess.Popen([sys.executable, "-c", HOLD_LOCK], stdout=subprocess.PIPE) as holder:
        try:
            assert holder.stdout.readline() == b"held\n"
            result = run(FIT)
        finally:
            holder.kill()
    words = ["another foretell", "out", "Wait", "-o"]
    assert_refused(result.exit_code, result.stdout, result.stderr, words)
    assert contents(folder) == before
