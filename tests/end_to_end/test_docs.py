"""The documentation is true: options, flags, keys, examples, commands and links."""

import ast
import doctest
import importlib
import importlib.util
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pandas as pd
import pydantic
import pytest
import tomli_w

import foretell
from foretell.adapters.dispatcher.metrics import DispatcherMetrics
from foretell.adapters.dispatcher.sprints import SPRINTS
from foretell.adapters.dispatcher.store.runs import COLUMNS
from foretell.cli import _main as main
from foretell.corun.group import JobEntry, JobFile
from foretell.corun.measuring.set_file import CoRunSet, Program, read_set
from foretell.corun.measuring.table import COLUMNS as CO_RUN_COLUMNS
from foretell.corun.running.child import COLUMNS as SAMPLED
from foretell.decide.placement import cluster as cluster_file
from foretell.decide.placement.cluster import read_cluster
from foretell.decide.placement.policies import POLICIES
from foretell.decide.question.objective import read_request
from foretell.decide.question.prices import read_prices
from foretell.decide.queueing import job_class, queue_file
from foretell.decide.queueing.disciplines import DISCIPLINES
from foretell.decide.queueing.queue_file import read_queue
from foretell.decide.tuning.schedulers import SCHEDULERS
from foretell.decide.tuning.space import Space, read_space
from foretell.measure.sweep import Design, NeedsTable, Power, Sweep, read_sweep
from foretell.measure.workloads.command import CommandOptions
from foretell.measure.workloads.python import PythonOptions
from foretell.measure.workloads.ray_train import RayTrainOptions
from foretell.measure.workloads.torch_layers import TorchLayersOptions
from foretell.model.campaigns import schema
from foretell.model.campaigns.ini.campaign import parse_ini, read_sections
from foretell.model.campaigns.ini.options import OPTIONS
from foretell.model.campaigns.schema import Campaign, read_campaign
from foretell.model.campaigns.search.priors import PRIORS, parse_prior
from foretell.model.techniques import TECHNIQUES
from foretell.spaces.values import Range
from foretell.tune.hook.start import PipelineOptions
from foretell.tune.knobs import KNOBS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md")])
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LEAST_TOML = {"data": {"target": "time_s"}, "techniques": {"LRRidge": {}}}
LEAST_INI = {
    "General": {
        "techniques": "[LRRidge]",
        "y": "time_s",
        "hp_selection": "All",
        "validation": "All",
    },
    "DataPreparation": {"input_path": "runs.csv"},
}

PREDICTION = {"General": {"y"}, "DataPreparation": {"input_path"}}


def name_of(page):
    return str(page.relative_to(ROOT))


def read(page):
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(language):
    """List the fenced blocks of a language in all pages, each with its page and number."""
    return [
        pytest.param(text, id=f"{name_of(page)}-{number}")
        for page in PAGES
        for number, (found, text) in enumerate(BLOCK.findall(read(page)))
        if found == language
    ]


def section(page, heading):
    """Return what stands below a heading, down to the next one of its level or above."""
    text = BLOCK.sub("", read(page))
    start = re.search(rf"^(#+) {re.escape(heading)}$", text, re.MULTILINE)
    assert start, f"{page} has no heading '{heading}'"
    rest = text[start.end() :]
    end = re.search(rf"^#{{1,{len(start[1])}}} ", rest, re.MULTILINE)
    return rest[: end.start()] if end else rest


def rows(page, heading):
    """Return the rows of all tables below a heading, without their headers."""
    lines = [line for line in section(page, heading).splitlines() if line.startswith("|")]
    cells = [[c.strip() for c in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    headers = {i - 1 for i, row in enumerate(cells) if set(row[0]) == {"-"}}
    return [r for i, r in enumerate(cells) if i not in headers and i - 1 not in headers]


def code(text):
    """List what stands between single backticks."""
    return re.findall(r"`([^`]+)`", text)


def script(name):
    """Load a script of the documentation."""
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# Links and examples


def slug(heading):
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_relative_links_lead_somewhere(page):
    text = BLOCK.sub("", read(page))
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"\w+:", target):
            continue
        file, _, anchor = target.partition("#")
        found = (page.parent / file).resolve() if file else page
        assert found.exists(), f"{target} does not exist"
        if anchor and found.suffix == ".md":
            headings = re.findall(r"^#+ (.+)$", BLOCK.sub("", read(found)), re.MULTILINE)
            assert anchor in map(slug, headings), f"{target}: no such heading"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_python_examples_print_what_they_show(page, tmp_path, monkeypatch):
    examples = "\n".join(text for language, text in BLOCK.findall(read(page)) if ">>>" in text)
    monkeypatch.chdir(tmp_path)
    test = doctest.DocTestParser().get_doctest(examples, {}, name_of(page), str(page), 0)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    said = []
    runner.run(test, out=said.append)
    assert runner.failures == 0, "".join(said)


#: What a block is by one of its keys.
READERS = {
    "workload": read_sweep,
    "vary": read_request,
    "node_type": read_cluster,
    "class": read_queue,
    "program": read_set,
    "job": JobFile.model_validate,
    "hyperparameters": read_space,
}


@pytest.mark.parametrize("text", blocks("toml"))
def test_toml_blocks_are_campaigns_sweeps_questions_or_prices(text):
    """A block is a whole campaign or sweep unless its first line says ``# part of a campaign``."""
    values = tomllib.loads(text)
    first = text.partition("\n")[0]
    if first == "# pyproject.toml" or "that needs the technique" in first:
        return
    for key, read_it in READERS.items():
        if key in values:
            read_it(values)
            return
    if "price_per_hour" in text:
        read_prices(values)
        return
    if first == "# part of a campaign":
        values = {**LEAST_TOML, **values}
    read_campaign(values)


@pytest.mark.parametrize("text", blocks("ini"))
def test_ini_blocks_are_campaigns_or_prediction_files(text):
    sections = parse_ini(text, place="the page")
    if {name: set(options) for name, options in sections.items()} == PREDICTION:
        return
    if text.partition("\n")[0] == "# part of a campaign":
        sections = {name: {**LEAST_INI.get(name, {}), **sections.get(name, {})}
                    for name in {**LEAST_INI, **sections}}  # fmt: skip
    read_sections(sections, place="the page", refuse_unknown=False)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_output_says_which_command_printed_it(page):
    text = read(page)
    steps = {step.start(): step for step in script("refresh").STEP.finditer(text)}
    for marked in re.finditer(r"^<!-- (file|run|output): ", text, re.MULTILINE):
        step = steps[marked.start()]
        if step["kind"] == "output":
            assert step["block"].startswith(f"$ {step['words']}\n"), "run docs/refresh.py"
        else:
            assert step["kind"] == "run" or step["block"]


def test_commands_of_the_tutorial_work(tmp_path):
    """They run on fewer runs than those shown, which takes a third of the time."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    table, sweep = (tmp_path / "examples" / n for n in ("xz/runs.csv", "sort/sweep.toml"))
    runs = pd.read_csv(table)
    runs.drop_duplicates(["content", "size_mib", "level", "threads"]).to_csv(table, index=False)
    shorter = (
        sweep.read_text().replace("repeats = 3", "repeats = 1").replace("1_600_000", "200_000")
    )
    sweep.write_text(shorter)
    refresh, printed = script("refresh"), []

    def shell(command, folder):
        printed.append(refresh.shell(command, folder))
        return printed[-1]

    refresh.run_steps(read("docs/tutorial.md"), tmp_path, shell)
    assert not any(re.search(r"^(error:|Traceback)", text, re.MULTILINE) for text in printed)
    assert "← best" in printed[3]
    assert "unknown level" in printed[5]


def test_no_page_tells_where_it_was_written():
    for page in PAGES:
        assert not re.search(r"/(tmp|root|home|work)/", read(page)), page


# Campaign files

CAMPAIGN = "docs/reference/campaign.md"
#: Heading of each table of options: its model, and where the table stands in a campaign.
TABLES = {
    "Top level": (Campaign, ()),
    "`[data]`": (schema.Data, ("data",)),
    "`[features]`": (schema.Features, ("features",)),
    "Selection with `SFS`": (schema.SFS, ("feature_selection",)),
    "Selection with `XGBoost`": (schema.XGBoostImportance, ("feature_selection",)),
    "`[search]`": (schema.Search, ("search",)),
    "`All`": (schema.AllRows, ("validation",)),
    "`HoldOut`": (schema.HoldOut, ("validation",)),
    "`KFold`": (schema.KFold, ("search", "splits")),
    "`Interpolation`": (schema.Interpolation, ("validation",)),
    "`Extrapolation`": (schema.Extrapolation, ("search", "splits")),
}


def toml(value):
    """Write a value as TOML does, none as a word and tables on one line."""
    if isinstance(value, dict):
        inside = ", ".join(f"{k} = {toml(v)}" for k, v in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml, value))}]"
    if value is None:
        return '"none"'
    return tomli_w.dumps({"x": value}).removeprefix("x = ").strip()


def default_cell(field):
    if field.is_required():
        return "required"
    default = field.default
    if default is None:
        return "none"
    if isinstance(default, pydantic.BaseModel):
        default = default.model_dump(exclude_defaults=True)
    return f"`{toml(default)}`"


def options(heading):
    """Return the rows of a table of options by name: type, default, meaning, example."""
    return {code(row[0])[0]: row[1:] for row in rows(CAMPAIGN, heading) if len(row) == 5}


def test_every_table_of_a_campaign_is_described():
    described = {model.__name__ for model, _ in TABLES.values()}
    assert {*Campaign.model_json_schema()["$defs"], "Campaign"} == described


@pytest.mark.parametrize("heading", TABLES)
def test_every_option_is_described_with_its_default(heading):
    fields = TABLES[heading][0].model_fields
    found = options(heading)
    assert list(found) == list(fields)
    assert {name: row[1] for name, row in found.items()} == {
        name: default_cell(field) for name, field in fields.items()
    }


@pytest.mark.parametrize("heading", TABLES)
def test_every_option_has_an_example_that_is_legal(heading):
    model, place = TABLES[heading]
    examples = {name: tomllib.loads(code(row[3])[0]) for name, row in options(heading).items()}
    for name, example in examples.items():
        assert list(example) == [name]
        table = example
        for other, field in model.model_fields.items():
            if field.is_required() and other != name:
                table = {**examples[other], **table}
        for step in reversed(place):
            table = {step: table}
        if place == ("data",):
            table = {"data": {**LEAST_TOML["data"], **table["data"]}}
        read_campaign({**LEAST_TOML, **table})


@pytest.mark.parametrize("technique", TECHNIQUES.names())
def test_every_hyperparameter_is_described_with_its_default_grid_and_prior(technique):
    def cell(value, is_given):
        return f"`{toml(value)}`" if is_given else "–"

    found = [row[:4] for row in rows(CAMPAIGN, technique)]
    assert found == [
        [f"`{h.name}`", f"`{toml(h.default)}`", cell(h.grid, h.grid), cell(h.prior, h.prior)]
        for h in TECHNIQUES.get(technique).hyperparameters
    ]


def test_every_prior_is_described_with_an_example():
    found = rows(CAMPAIGN, "Priors")
    assert [row[0].replace("`", "") for row in found] == [text for text, _ in PRIORS.values()]
    for signature, _, _, example, middle in found:
        prior = code(example)[0]
        assert prior.partition("(")[0] == code(signature)[0].partition("(")[0]
        value = ast.literal_eval(code(middle)[0])
        expected = value if isinstance(value, str) else pytest.approx(value)
        assert parse_prior(prior).at(0.5) == expected
        assert isinstance(parse_prior(prior).at(0.5), type(value))


def test_features_have_the_names_and_values_described():
    runs = pd.DataFrame(
        {"nodes": [4, 2], "data_mb": [100.0, 50.0], "zone": ["east", "west"], "time_s": [1.0, 2.0]}
    )

    def features(**options):
        campaign = {**LEAST_TOML, "features": options, "techniques": {"Dummy": {}}}
        everything = {"search": {"splits": {"method": "All"}}, "validation": {"method": "All"}}
        model = foretell.fit_model({**campaign, **everything}, runs).best
        values = model.feature_map.matrix(foretell.Dataset(runs, "runs"))[0]
        return dict(zip(model.feature_map.names, values, strict=True))

    made = {
        **features(inverse=["*"], log=["*"]),
        **features(product_max_degree=2),
        **features(selected_products=["nodes data_mb"]),
    }
    described = rows(CAMPAIGN, "How features are named")
    for name, *_, value in described[:-4]:
        assert made[code(name)[0]] == pytest.approx(float(value.replace("−", "-")), abs=1e-3)
    runs = runs.rename(columns={"nodes": "cores", "data_mb": "datasize"})
    assert [code(name)[0] for name, _ in described[-4:]] == list(features(ernest=True))


# Command line

COMMANDS = "docs/reference/command-line.md"


def verbs():
    """List all verbs with their commands; those of a group by both of their names."""
    for verb in main.VERBS:
        command = main.cli.get_command(None, verb)
        for name, inner in getattr(command, "commands", {"": command}).items():
            yield pytest.param(f"{verb} {name}".strip(), inner, id=f"{verb} {name}".strip())


@pytest.mark.parametrize(("verb", "command"), list(verbs()))
def test_every_verb_and_flag_is_described(verb, command):
    described = [code(row[0]) for row in rows(COMMANDS, f"foretell {verb}")]
    for parameter in command.params:
        is_argument = parameter.param_type_name == "argument"
        names = [parameter.name.upper()] if is_argument else parameter.opts
        assert names in described
    assert len(described) == len(command.params)


def test_flags_of_the_program_are_described():
    described = [word for row in rows(COMMANDS, "Command line")[:3] for word in code(row[0])]
    assert described == ["--version", "--debug", "-h", "--help"]


HELP = re.findall(r"^<!-- output: foretell (.*--help) -->$", read(COMMANDS), re.MULTILINE)


@pytest.mark.parametrize("words", HELP)
def test_help_is_what_is_printed(words, tmp_path):
    printed = script("refresh").shell(f"foretell {words}", tmp_path)
    lines = [line.rstrip() for line in printed.rstrip().splitlines()]
    shown = next(text for _, text in BLOCK.findall(read(COMMANDS)) if f"foretell {words}" in text)
    assert shown.splitlines()[1:] == lines, "run docs/refresh.py"


def test_exit_codes_are_described():
    described = [int(row[0]) for row in rows(COMMANDS, "Exit codes")]
    assert described == [0, main.NOTHING_USABLE, main.WRONG_INPUT, main.INTERRUPTED]


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """Run a campaign with every technique, a failure among them, and return its directory."""
    settings = {
        "NeuralNetwork": {"epochs": 1},
        "RandomForest": {"n_estimators": 2},
        "Stepwise": {"p_to_add": [0.05, 0.5]},  # the second is more than p_to_remove, and fails
        "XGBoost": {"n_estimators": 2},
    }
    runs = pd.DataFrame({"nodes": [1, 2, 3, 4, 5, 6] * 2, "zone": list("abc") * 4})
    runs["time_s"] = 10 + 80 / runs["nodes"] + runs.index % 5
    campaign = {
        "data": {"target": "time_s"},
        "features": {"normalization": True},
        "search": {"splits": {"method": "KFold", "folds": 2}},
        "techniques": {
            name: settings.get(name, {"fit_intercept": True} if name == "NNLS" else {})
            for name in TECHNIQUES.names()
        },
        "save_training_models": True,
    }
    output = tmp_path_factory.mktemp("docs") / "models"
    foretell.fit_model(campaign, runs, output=output)
    return output


def test_every_file_of_the_output_directory_is_described(fitted):
    described = {code(row[0])[0] for row in rows(COMMANDS, "The output directory")[:12]}
    techniques = "|".join(TECHNIQUES.names())
    found = {re.sub(rf"^({techniques})\b", "<Technique>", p.name) for p in fitted.iterdir()}
    assert found == described


NAMED = {
    "campaign", "versions", "hyperparameters", "importances", "shares", "coefficients", "fit_s",
    "reaches",
}  # fmt: skip


def keys_of(value, named=frozenset(NAMED)):
    """Collect the keys of nested objects, but not those that are names of something."""
    if isinstance(value, list):
        return set().union(*map(keys_of, value))
    if not isinstance(value, dict):
        return set()
    inside = [keys_of(v) for k, v in value.items() if k not in named]
    return set(value).union(*inside)


def test_every_key_of_the_results_is_described(fitted):
    results = json.loads((fitted / "results.json").read_text())
    assert any(trial["status"] == "failed" for trial in results["trials"])
    text = section(COMMANDS, "results.json")
    assert keys_of(results) <= set(code(text))
    described = {code(row[0])[0] for row in rows(COMMANDS, "results.json")}
    assert described <= keys_of(results)


def test_every_column_of_the_leaderboard_is_described(fitted):
    columns = list(pd.read_csv(fitted / "leaderboard.csv").columns)
    assert code(section(COMMANDS, "leaderboard.csv")) == columns


def test_every_kind_of_record_in_the_journal_is_described(fitted):
    records = [json.loads(line[9:]) for line in (fitted / "journal").read_text().splitlines()]
    kinds = {record["kind"] for record in records}
    assert kinds - {"header"} == set(code(section(COMMANDS, "journal")))


# Model files


def test_every_part_of_a_model_file_is_described(fitted):
    page = "docs/design/model-file.md"
    described = set(code(BLOCK.sub("", read(page))))
    for path in fitted.glob("*.foretell"):
        with zipfile.ZipFile(path) as archive:
            header = json.loads(archive.read("model.json"))
            arrays = {name.removesuffix(".npy") for name in archive.namelist()[1:]}
        fields = [code(row[0])[0] for row in rows(page, "The header: `model.json`")]
        assert fields == list(header)
        assert {re.sub(r"_\d+$", "_0", name) for name in header["values"]} <= described
        for name in arrays:
            own = name.rpartition("/")[2]  # members of an ensemble have states of their own
            parts = {own, f"{own}.npy", re.sub(r"_\d+$", "_0", own)}
            assert parts & described, f"{path.name}: {name}"


# Python

PYTHON = "docs/reference/python.md"


def test_every_public_name_is_described():
    assert set(foretell.__all__) <= set(re.findall(r"\w+", read(PYTHON)))


@pytest.mark.parametrize(
    "name", ["fit_model", "load_model", "read_dataset", "write_report", "ForetellRegressor"]
)
def test_signatures_are_those_of_the_code(name):
    signature = inspect.signature(getattr(foretell, name))
    bare = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    words = f"{name}{signature.replace(parameters=bare, return_annotation=signature.empty)}"
    shown = " ".join(text for _, text in BLOCK.findall(read(PYTHON)))
    assert words.replace(" ", "") in re.sub(r"\s", "", shown)


# aMLLibrary's files

OLD = "docs/coming-from-amllibrary.md"


@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_of_an_amllibrary_file_is_described(name):
    described = [word for row in rows(OLD, f"`[{name}]`") for word in code(row[0])]
    assert set(described) == set(OPTIONS[name])
    assert len(described) == len(set(described))


def test_every_technique_of_amllibrary_is_described():
    described = [word for row in rows(OLD, "Sections of techniques") for word in code(row[0])]
    assert {f"[{name}]" for name in TECHNIQUES.names()} == set(described)


# Sweeps

SWEEP_TABLES = {
    "Top level": Sweep,
    "Values": Range,
    "Design": Design,
    "Power": Power,
    "Needs": NeedsTable,
    "command": CommandOptions,
    "python": PythonOptions,
    "ray_train": RayTrainOptions,
    "torch_layers": TorchLayersOptions,
}


@pytest.mark.parametrize("heading", SWEEP_TABLES)
def test_every_option_of_a_sweep_is_described(heading):
    fields = SWEEP_TABLES[heading].model_fields
    described = [name for row in rows("docs/reference/sweep.md", heading) for name in code(row[0])]
    assert described == [field.alias or name for name, field in fields.items()]


# Cluster files

CLUSTER_TABLES = {
    "Top level": cluster_file.Cluster,
    "Policy": cluster_file.PolicyTable,
    "Migration": cluster_file.Migration,
    "Maintenance": cluster_file.Maintenance,
    "Trace": cluster_file.TraceTable,
    "Node types": cluster_file.NodeTypeTable,
    "Nodes": cluster_file.NodeTable,
}
CLUSTER_PAGE = "docs/reference/cluster.md"


@pytest.mark.parametrize("heading", CLUSTER_TABLES)
def test_every_option_of_a_cluster_file_is_described_with_its_default(heading):
    found = {code(row[0])[0]: row[1] for row in rows(CLUSTER_PAGE, heading)}
    fields = CLUSTER_TABLES[heading].model_fields
    assert list(found) == list(fields)
    for name, field in fields.items():
        plain = field.default is not None and not isinstance(field.default, pydantic.BaseModel)
        if field.is_required():
            assert found[name] == "required"
        elif plain and field.default not in ({}, []):
            assert found[name] == f"`{toml(field.default)}`", name


def test_every_policy_is_described():
    assert [code(row[0])[0] for row in rows(CLUSTER_PAGE, "Policies")] == POLICIES.names()


# Queues

QUEUE_PAGE = "docs/reference/queue.md"
QUEUE_TABLES = {
    "Top level": queue_file.Queue,
    "Classes": job_class.JobClass,
    "Overhead": job_class.Overhead,
    "Stages": job_class.StageTable,
    "Service": job_class.ServiceTable,
    "Arrivals": queue_file.ArrivalsTable,
    "Sprint": queue_file.SprintTable,
    "Run": queue_file.RunTable,
}


@pytest.mark.parametrize("heading", QUEUE_TABLES)
def test_every_option_of_a_class_file_is_described(heading):
    text = read(QUEUE_PAGE).partition(f"## {heading}\n")[2].partition("\n#")[0]
    described = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", text, re.MULTILINE))
    fields = {f.alias or name: f for name, f in QUEUE_TABLES[heading].model_fields.items()}
    assert list(described) == list(fields)
    for name, field in fields.items():
        if field.is_required():
            assert described[name] == "required"
        elif isinstance(field.default, int | float | str):
            assert described[name] == f"`{toml(field.default)}`", name


def test_every_discipline_is_described():
    assert [code(row[0])[0] for row in rows(QUEUE_PAGE, "Disciplines")] == DISCIPLINES.names()


def test_every_sprint_mechanism_is_described():
    found = rows(QUEUE_PAGE, "Sprint mechanisms")
    assert [code(row[0])[0] for row in found] == SPRINTS.names()


def test_every_column_of_a_table_of_runs_is_described():
    found = [name for row in rows(QUEUE_PAGE, "The table of runs") for name in code(row[0])]
    assert found == list(COLUMNS)


def test_every_metric_of_a_dispatcher_is_described():
    metrics = DispatcherMetrics()
    described = {name for row in rows(QUEUE_PAGE, "HTTP") for name in code(row[0])}
    for family in metrics.registry.collect():
        if not family.name.startswith("process_"):
            assert described & {family.name, f"{family.name}_total"}, family.name


# Searches


def test_every_knob_is_described():
    found = rows("docs/how-to/tune.md", "Three lines that end it sooner")
    assert [code(row[0])[0] for row in found if code(row[0])][: len(KNOBS.names())] == KNOBS.names()


def test_every_option_of_the_three_lines_is_described():
    described = [code(row[0])[0] for row in rows(PYTHON, "foretell.tune.pipeline")]
    options = ["job", "settings", "params", *PipelineOptions.__annotations__]
    assert described[: len(options)] == options


# Studies

STUDIES = {
    "any-program": "runs.csv",
    "placement": "runs.csv",
    "ray-training": "actors.csv",
    "vgg-layers": "runs.csv",
}


@pytest.mark.parametrize("study", STUDIES)
def test_the_page_of_a_study_tells_of_the_runs_that_come_along(study, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "studies"))
    page = importlib.import_module("page")
    table = ROOT / "examples" / study / STUDIES[study]
    found = page.Study(table, ROOT, ROOT)
    assert found.facts().split(";")[0] in read(f"docs/studies/{study}.md"), "run make studies"
    assert len(found.table()) > 100


# Space files


def test_every_key_of_a_space_file_is_described_with_its_default():
    described = {code(r[0])[0]: r[1] for r in rows("docs/reference/tune.md", "Space")}
    assert list(described) == list(Space.model_fields)
    assert described["start_up_s"] == "`0.0`"


def test_every_scheduler_is_described():
    described = [code(row[0])[0] for row in rows("docs/reference/tune.md", "Schedulers")]
    assert sorted(described) == sorted(SCHEDULERS.names())


# Architecture


def test_tree_is_that_of_the_source():
    (shown,) = [t for _, t in BLOCK.findall(read("docs/design/architecture.md")) if "fit.py" in t]
    assert shown.splitlines()[1:] == list(script("tree").tree()), "run docs/refresh.py"


@pytest.mark.parametrize("page", ["docs/design/architecture.md", "CONTRIBUTING.md"])
def test_files_and_names_in_the_text_exist(page):
    """A word such as ``model/fit.py:fit_model`` is a file, and something defined in it."""
    package = ROOT / "src" / "foretell"
    for word in code(BLOCK.sub("", read(page))):
        named = re.fullmatch(r"([\w./-]+(?:\.py|/))(?::(\w+))?", word)
        if named is None:
            continue
        places = [package / named[1], ROOT / named[1]]
        found = [path for path in places if path.exists()]
        found = found if "/" in named[1] else [*found, *package.rglob(named[1])]
        assert found, word
        assert named[2] is None or re.search(
            rf"^(def|class) {named[2]}\b", found[0].read_text(), re.MULTILINE
        ), word


def test_layers_are_those_of_import_linter():
    project = tomllib.loads(read("pyproject.toml"))
    contracts = project["tool"]["importlinter"]["contracts"]
    contract = next(c for c in contracts if c["type"] == "layers")
    layers = [re.sub(r"foretell\.|[()]", "", layer) for layer in contract["layers"]]
    shown = [text.splitlines() for _, text in BLOCK.findall(read("docs/design/architecture.md"))]
    assert layers in shown


# Plug-ins

HOW_TO = "docs/how-to/add-a-technique.md"
USE = """
import pandas as pd, foretell
from foretell.testing import check_technique
from foretell.model.techniques import TECHNIQUES
check_technique(TECHNIQUES.get("Nearest"))
runs = pd.DataFrame({"nodes": [1, 2, 3, 4, 5, 6] * 2, "time_s": [9.0, 8, 7, 6, 5, 4] * 2})
campaign = {"data": {"target": "time_s"}, "techniques": {"Nearest": {"n_neighbors": [1, 3]}}}
foretell.fit_model(campaign, runs, output="models")
print(foretell.load_model("models").predict(pd.DataFrame({"nodes": [2]})))
"""


def test_technique_of_another_package_works_as_the_page_says(tmp_path):
    text = read(HOW_TO)
    source = re.search(r"^<!-- file: (.+) -->\n```python\n(.*?)^```$", text, re.S | re.M)
    (tmp_path / source[1]).write_text(source[2])
    project = next(
        tomllib.loads(t) for _, t in BLOCK.findall(text) if t.startswith("# pyproject.toml")
    )["project"]
    info = tmp_path / "nearest_runs-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    lines = ["[foretell.techniques]"]
    lines += [f"{k} = {v}" for k, v in project["entry-points"]["foretell.techniques"].items()]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    done = subprocess.run(
        [sys.executable, "-c", USE],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == "[8.]", done.stderr


# Co-runs

CO_RUNS = "docs/reference/corun.md"


def described_names(heading):
    return {name for row in rows(CO_RUNS, heading) for name in code(row[0])}


@pytest.mark.parametrize(
    ("heading", "models", "table"),
    [
        ("Job files", (JobFile, JobEntry), "[job.NAME]"),
        ("Set files", (CoRunSet, Program), "[program.NAME]"),
    ],
)
def test_every_option_of_files_of_co_runs_is_described(heading, models, table):
    fields = {name for model in models for name in model.model_fields}
    assert described_names(heading) == (fields - {"job", "program"}) | {table}


def test_every_column_of_co_runs_is_described():
    assert described_names("The folder of a measurement") == set(CO_RUN_COLUMNS)
    assert described_names("Profiles") == {"time_s", *SAMPLED}
