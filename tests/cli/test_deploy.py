"""`foretell deploy`: the answer, its forms, and what is refused with the flag named."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from foretell.cli._main import cli

FILE = Path(__file__).parents[1] / "deploy" / "networks.py"


def run(*words):
    return CliRunner().invoke(cli, ["deploy", *words])


@pytest.fixture(scope="module")
def answered(tmp_path_factory):
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("deploy")
    words = [f"{FILE}:small", "--input", "1,4,4", "--cache", str(folder / "cache"), "--vary",
             "batch=1,2,4", "--vary", "threads=1", "--arrivals", "poisson:20/s", "--p99", "2s",
             "--power", "20W,60W", "--set", "width=4"]  # fmt: skip
    return run(*words, "--json", "-o", str(folder / "report.html")), words, folder


def test_json_and_a_report_are_written(answered):
    found, _, folder = answered
    assert found.exit_code == 0, found.output
    told = json.loads(found.stdout)
    assert told["network"]["arguments"] == {"width": 4}
    assert told["setting"]["threads"] == 1
    page = (folder / "report.html").read_text()
    assert "Serving a network" in page
    assert "Latency against the rate" in page


def test_a_second_call_measures_nothing_and_prints_the_form(answered):
    _, words, _ = answered
    found = run(*words, "--as", "triton")
    assert found.exit_code == 0, found.output
    assert "max_batch_size:" in found.stdout
    assert "Time of a batch" in found.stderr
    assert "3 of them before" in found.stderr


GOOD, OFFLINE = ["--arrivals", "poisson:5/s"], ["--scenario", "offline"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([f"{FILE}:small", "--input", "1,a", *GOOD], "--input"),
        ([f"{FILE}:small", "--input", "16"], "--arrivals"),
        ([f"{FILE}:small", "--input", "16", "--arrivals", "often"], "--arrivals"),
        ([f"{FILE}:small", "--input", "16", *GOOD, "--p99", "soon"], "--p99"),
        ([f"{FILE}:small", "--input", "16", *GOOD, "--p99", "20"], "write 20ms or 20s"),
        ([f"{FILE}:small", "--input", "16", *GOOD, "--pause", "1"], "write 1ms or 1s"),
        ([f"{FILE}:small", "--input", "16", *GOOD, "--vary", "batch=0"], "--vary"),
        ([f"{FILE}:small", "--input", "16", *GOOD, "--vary", "batch"], "--vary"),
        ([f"{FILE}:small", "--input", "16", *GOOD, "--scenario", "servre"], "--scenario"),
        ([f"{FILE}:small", "--input", "16", *GOOD, "--dtype", "complex"], "--dtype"),
        ([f"{FILE}:small", "--input", "16", *GOOD, "--overhead", "x"], "--overhead"),
        ([f"{FILE}:small", "--input", "16", *GOOD, "--pause", "x"], "--pause"),
        ([f"{FILE}:small", "--input", "16", *GOOD, "--as", "torchserve"], "--as"),
        ([f"{FILE}:small", "--input", "16", *GOOD, "--as", "triton", "--json"], "--as triton"),
        ([f"{FILE}:small", "--input", "16", *OFFLINE, "--replicas", "4"], "--replicas 4"),
        ([f"{FILE}:small", "--input", "16", *OFFLINE, "--vary", "wait=2ms"], "--vary wait"),
        ([f"{FILE}:small", "--input", "16", *GOOD, "--set", "width=1,2"], "--set"),
        ([f"{FILE}:small", "--input", "16", *GOOD, "-o", "report.doc"], "report.doc"),
        (["nowhere.py:build", "--input", "16", *GOOD], "nowhere.py"),
        (["net.py", "--input", "16", *GOOD], "FILE.py:FUNCTION"),
        ([f"{FILE}:small"], "--input"),
    ],
)
def test_wrong_words_are_refused_with_the_flag_before_anything_is_measured(words, told):
    found = run(*words)
    assert found.exit_code == 2
    assert told in found.stderr
    assert "Traceback" not in found.output
