"""What a fit does with its journal: what it depends on, and what a full disk does to it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import foretell
from foretell import fit_model
from foretell.errors import StorageError
from foretell.model.campaigns.schema import read_campaign
from foretell.model.fingerprint import fingerprint


def test_fingerprint_depends_on_values_columns_and_campaign_but_not_on_where_the_table_lies():
    source = {"data": {"target": "y", "path": "a.csv"}, "techniques": {"LRRidge": {}}}
    frame = pd.DataFrame({"x": [1.0, 2.0], "y": [3.0, 4.0]})
    one = fingerprint(read_campaign(source), frame)
    assert fingerprint(read_campaign(source), frame.copy()) == one
    moved = {**source, "data": {"target": "y", "path": "elsewhere/a.csv"}}
    assert fingerprint(read_campaign(moved), frame) == one
    for other in (
        frame.assign(x=[1.0, 2.5]),
        frame.rename(columns={"x": "z"}),
        frame[::-1].reset_index(drop=True),
        frame[["y", "x"]],
        frame.assign(w=0),
    ):
        found = fingerprint(read_campaign(source), other)
        assert {k for k in one if found[k] != one[k]} == {"data"}
    found = fingerprint(read_campaign({**source, "seed": 1}), frame)
    assert {k for k in one if found[k] != one[k]} == {"campaign"}


SMALL = {
    "data": {"target": "time_s"},
    "search": {"splits": {"method": "HoldOut", "ratio": 0.3}},
    "techniques": {"LRRidge": {"alpha": [0.1, 1]}},
}


def test_other_data_or_campaign_in_the_same_directory_is_refused(runs, tmp_path, outcome):
    output = tmp_path / "out"
    fit_model(SMALL, runs, output=output)
    expected = outcome(output)
    with pytest.raises(StorageError, match="other data"):
        fit_model(SMALL, runs.head(50), output=output)
    with pytest.raises(StorageError, match="another campaign"):
        fit_model({**SMALL, "score": "rmse"}, runs, output=output)
    with pytest.raises(StorageError, match="another campaign"):
        fit_model(SMALL, runs, output=output, seed=5)
    assert outcome(output) == expected


def edited(file, old, new):
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


def test_journal_is_continued_after_an_edit_of_words_and_refused_after_one_of_numbers(
    runs, tmp_path
):
    package = tmp_path / "src" / "foretell"
    shutil.copytree(Path(foretell.__file__).parent, package)
    runs.to_csv(tmp_path / "runs.csv", index=False)
    (tmp_path / "small.json").write_text(json.dumps(SMALL))
    call = (
        "import foretell, json; "
        "foretell.fit_model(json.load(open('small.json')), 'runs.csv', output='out')"
    )

    def run():
        environment = {**os.environ, "PYTHONPATH": str(package.parent)}
        command = [sys.executable, "-c", call]
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
        )

    first = run()
    assert first.returncode == 0, first.stderr
    journal = (tmp_path / "out" / "journal").read_bytes()
    edited(package / "model" / "fitter.py", '"""', '"""In other words: ')
    again = run()
    assert again.returncode == 0, again.stderr
    assert (tmp_path / "out" / "journal").read_bytes() == journal
    version = package / "_version.py"
    edited(version, "RESULTS_VERSION = ", "RESULTS_VERSION = 1")
    refused = run()
    assert "StorageError" in refused.stderr
    assert "results version" in refused.stderr and "another place" in refused.stderr
    assert (tmp_path / "out" / "journal").read_bytes() == journal


# Full disks


@pytest.mark.slow
@pytest.mark.parametrize("most_bytes", [220, 20_000])
def test_run_that_hits_a_file_size_limit_stops_cleanly_and_continues_with_room(
    most_bytes, foretell, fit_arguments, campaign_directory, expected, outcome
):
    run = foretell(*fit_arguments("out", 2), most_file_bytes=most_bytes)
    assert run.wait() == 2, run.text
    assert run.text.count("\n") == 1, run.text
    assert run.text.startswith("error: out/")
    assert "cannot be written: File too large" in run.text
    assert run.leaves_nobody_behind()
    again = foretell(*fit_arguments("out", 1))
    assert again.wait() == 0, again.text
    assert outcome(campaign_directory / "out") == expected


_ON_A_SMALL_DISK = """
mount -t tmpfs -o size=$SIZE none disk || exit 77
"$@" >first.txt 2>&1; echo $? >first.code; df --output=avail disk | tail -1 >room
mount -o remount,size=20m disk || exit 77
"$@" >second.txt 2>&1; echo $? >second.code
cp -r disk/out out
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs a disk of its own")
@pytest.mark.parametrize("size", ["4k", "60k", "96k"])
def test_run_on_a_disk_that_fills_up_stops_cleanly_and_continues_with_room(
    size, campaign_directory, fit_arguments, expected, outcome
):
    (campaign_directory / "disk").mkdir()
    command = ["unshare", "--map-root-user", "--mount", "sh", "-c", _ON_A_SMALL_DISK, "sh"]
    command += [sys.executable, "-m", "foretell", *map(str, fit_arguments("disk/out", 1))]
    environment = {**os.environ, "SIZE": size}
    done = subprocess.run(
        command, cwd=campaign_directory, env=environment, capture_output=True, timeout=120
    )
    if done.returncode == 77 or b"unshare" in done.stderr:
        pytest.skip("may not mount a disk here")
    told = (campaign_directory / "first.txt").read_text()
    assert (campaign_directory / "first.code").read_text() == "2\n", told
    assert told.startswith("error: ") and told.count("\n") == 1, told
    assert "No space left on device" in told
    told = (campaign_directory / "second.txt").read_text()
    assert (campaign_directory / "second.code").read_text() == "0\n", told
    assert outcome(campaign_directory / "out") == expected
