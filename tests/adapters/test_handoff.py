"""Plans in the words of other systems, read by those systems' own rules."""

from __future__ import annotations

import json
import re
import shlex
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretell.adapters.handoff import hand_off, read_roles, yaml_lines
from foretell.decide.plan.plan import make_plan
from foretell.errors import UsageError

from ..decide.conftest import Law

HOSTILE = "a b'; $(touch owned) `x` \"\\ : #é\n- y"


@pytest.fixture
def plan():
    law = Law(
        ranges={"workers": (1.0, 64.0), "cpus_per_worker": (1.0, 8.0)},
        categories={"data": (HOSTILE,)},
    )
    memory = Law(target="peak_memory_bytes", law=lambda f: 3.0 * 2**30 + 0 * f["workers"],
                 spread=1e-9)  # fmt: skip
    asked = {"fix": {"workers": 6, "cpus_per_worker": 2, "data": HOSTILE}, "deadline": "1h"}
    return make_plan([law, memory], asked)


def test_ray_takes_the_scaling_values(plan):
    from ray.train import ScalingConfig

    values = json.loads(hand_off(plan, "ray"))
    scaling = ScalingConfig(**values["scaling_config"])
    assert scaling.num_workers == 6
    assert scaling.resources_per_worker["CPU"] == 2
    assert scaling.resources_per_worker["memory"] == pytest.approx(3 * 2**30, rel=1e-6)
    assert values["configuration"]["data"] == HOSTILE


def test_kubernetes_reads_a_job_with_requests_and_limits(plan):
    import yaml

    job = yaml.safe_load(hand_off(plan, "kubernetes"))
    assert job["kind"] == "Job"
    assert job["spec"]["parallelism"] == 6
    assert job["spec"]["activeDeadlineSeconds"] == 3600
    container = job["spec"]["template"]["spec"]["containers"][0]
    for word in ("requests", "limits"):
        assert container["resources"][word] == {"cpu": "2000m", "memory": "3073Mi"}
    assert {"name": "FORETELL_DATA", "value": HOSTILE} in container["env"]


def test_spark_submit_gets_one_word_per_setting(plan):
    words = shlex.split(hand_off(plan, "spark"))
    settings = dict(word.split("=", 1) for word in words if word != "--conf")
    assert settings["spark.executor.instances"] == "6"
    assert settings["spark.executor.cores"] == "2"
    assert settings["spark.executor.memory"] == "3073m"
    assert settings["spark.foretell.data"] == HOSTILE


def test_a_shell_reads_variables_and_runs_nothing(plan, tmp_path):
    (tmp_path / "plan.env").write_text(hand_off(plan, "env"), encoding="utf-8")
    told = subprocess.run(
        ["sh", "-c", '. ./plan.env; printf "%s|%s" "$FORETELL_WORKERS" "$FORETELL_DATA"'],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert told.stdout == f"6|{HOSTILE}"
    assert not (tmp_path / "owned").exists()


def test_json_is_the_whole_plan(plan):
    assert json.loads(hand_off(plan, "json")) == json.loads(json.dumps(plan.to_json()))


def test_a_role_says_which_column_to_take(plan):
    values = json.loads(hand_off(plan, "ray", {"workers": "cpus_per_worker"}))
    assert values["scaling_config"]["num_workers"] == 2


@pytest.mark.parametrize(
    ("form", "roles", "told"),
    [
        ("kubernets", {}, "Did you mean 'kubernetes'"),
        ("ray", {"workers": "wrkers"}, "the plan has no such column"),
        ("ray", {"workers": "data"}, "is not an amount"),
    ],
)
def test_a_hand_off_that_cannot_be_is_refused(plan, form, roles, told):
    with pytest.raises(UsageError, match=told):
        hand_off(plan, form, roles)


def test_a_plan_without_a_choice_is_not_handed_on():
    plan = make_plan(Law(), {"vary": {"workers": [1]}, "deadline": 1})
    with pytest.raises(UsageError, match="no configuration meets the limits"):
        hand_off(plan, "ray")


@pytest.mark.parametrize("text", ["workers", "workers=", "wrkers=nodes", "=nodes"])
def test_roles_are_written_as_role_and_column(text):
    with pytest.raises(UsageError, match="write ROLE=COLUMN"):
        read_roles([text])


def test_a_part_of_a_worker_is_not_handed_on():
    plan = make_plan(Law(), {"fix": {"workers": 6.8}})
    with pytest.raises(UsageError, match=r"6\.8 workers cannot be handed off"):
        hand_off(plan, "ray")


def test_whole_numbers_are_handed_on_as_such():
    law = Law(ranges={"workers": (1.0, 64.0), "epochs": (3.0, 3.0)})
    plan = make_plan(law, {"vary": {"workers": [2.0]}, "derive": {"cpus": "workers * 2"}})
    told = hand_off(plan, "env").splitlines()
    assert set(told) == {"FORETELL_WORKERS=2", "FORETELL_EPOCHS=3", "FORETELL_CPUS=4"}


@pytest.mark.parametrize(
    ("form", "name"),
    [("env", "FORETELL_A_B"), ("kubernetes", "FORETELL_A_B"), ("spark", "spark.foretell.a_b")],
)
def test_columns_that_would_have_one_name_are_refused(form, name):
    law = Law(ranges={"workers": (1.0, 64.0), "a b": (1.0, 2.0), "a_b": (1.0, 2.0)})
    plan = make_plan(law, {"fix": {"workers": 1, "a b": 1, "a_b": 1}})
    with pytest.raises(UsageError, match=f"would both become {re.escape(name)}"):
        hand_off(plan, form)


def test_spark_gets_whole_cores():
    law = Law(ranges={"workers": (1.0, 64.0), "cpus": (1.0, 2.0)})
    plan = make_plan(law, {"fix": {"workers": 1, "cpus": 1.5}})
    assert "spark.executor.cores=2" in shlex.split(hand_off(plan, "spark"))


scalars = st.text() | st.integers() | st.booleans() | st.none()
documents = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)


@given(documents)
def test_what_is_written_as_yaml_is_read_back_by_a_yaml_parser(document):
    yaml = pytest.importorskip("yaml")
    assert yaml.safe_load("\n".join(yaml_lines(document))) == document


@pytest.mark.parametrize("key", ["yes", "No", "null", "on", "y", "nvidia.com/gpu", "1", "a b", ""])
def test_keys_that_yaml_would_take_for_something_else_are_quoted(key):
    yaml = pytest.importorskip("yaml")
    assert yaml.safe_load("\n".join(yaml_lines({key: "x"}))) == {key: "x"}
