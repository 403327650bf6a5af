"""Parts of the driver that need no Spark."""

import json
import sys
from types import SimpleNamespace

import pytest

from foretell.adapters.spark import driver

ALIVE = {"is_alive": True, "was_cut": False}


@pytest.mark.parametrize("name", ["json", "random"])
def test_a_job_file_may_have_the_name_of_a_module_of_a_library(tmp_path, name):
    pytest.importorskip("pyspark")
    module = sys.modules[name]
    (tmp_path / f"{name}.py").write_text("def answer(spark):\n    return 42\n")
    function = driver._load(tmp_path / f"{name}.py", "answer")
    assert function(None) == 42
    assert sys.modules[name] is module
    assert sys.modules[function.__module__].answer is function


@pytest.fixture
def conclude(tmp_path, monkeypatch):
    """Conclude a function; return what is said, and what was written before tasks had ended."""
    outcome = tmp_path / "outcome-1"
    before = []
    monkeypatch.setattr(driver, "_settle", lambda _: before.append(outcome.exists()))
    monkeypatch.setattr(driver, "_is_alive", lambda _: True)

    def play(*, is_done, is_canceled=False):
        ended = {"is_done": is_done, "reason": "" if is_done else "why"}
        orders = SimpleNamespace(is_canceled=is_canceled)
        said = driver._conclude(None, orders, {"outcome": str(outcome)}, ended)
        return said, before[0], json.loads(outcome.read_text()) if outcome.exists() else None

    return play


@pytest.mark.parametrize("is_canceled", [True, False])
def test_that_a_function_is_done_is_written_before_its_last_tasks_end(conclude, is_canceled):
    done = {"is_done": True, "reason": ""}
    assert conclude(is_done=True, is_canceled=is_canceled) == ({**done, **ALIVE}, True, done)


def test_a_failure_is_written_once_it_is_known_whether_spark_is_alive(conclude):
    failed = {"is_done": False, "reason": "why"}
    assert conclude(is_done=False) == ({**failed, **ALIVE}, False, failed)


def test_a_function_that_was_cut_has_no_outcome(conclude):
    said, _, written = conclude(is_done=False, is_canceled=True)
    assert (said["was_cut"], written) == (True, None)
