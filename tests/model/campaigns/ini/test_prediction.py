"""aMLLibrary's prediction files: which table they name, and which column they expect."""

from pathlib import Path

import pytest

from foretell.errors import DatasetError, UsageError
from foretell.model.campaigns.sources import load_campaign, table_to_predict

PREDICTION = '[General]\ny = "time_s"\n\n[DataPreparation]\ninput_path = "new.csv"\n'
CAMPAIGN = """
[General]
techniques = ['LRRidge']
y = "time_s"
hp_selection = KFold
validation = HoldOut
folds = 4
hold_out_ratio = 0.2

[DataPreparation]
input_path = new.csv   # the same file may serve for training and for prediction
rename_columns = {"n": "nodes"}

[LRRidge]
alpha = [0.1]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(text, name="predict.ini"):
    Path(name).write_text(text)
    return Path(name)


@pytest.mark.parametrize("text", [PREDICTION, CAMPAIGN, PREDICTION.replace('y = "time_s"', "")])
def test_the_table_of_a_prediction_file_is_predicted(text):
    Path("new.csv").touch()
    assert table_to_predict(write(text), "time_s") == Path("new.csv")


def test_a_table_is_itself_what_is_predicted():
    assert table_to_predict(Path("new.csv"), "time_s") == Path("new.csv")


def test_the_current_directory_comes_before_that_of_the_file():
    Path("files").mkdir()
    file = write(PREDICTION, "files/predict.ini")
    Path("files/new.csv").touch()
    assert table_to_predict(file, "time_s") == Path("files/new.csv")
    Path("new.csv").touch()
    assert table_to_predict(file, "time_s") == Path("new.csv")


def test_another_target_than_the_models_is_refused():
    Path("new.csv").touch()
    with pytest.raises(UsageError) as caught:
        table_to_predict(write(PREDICTION), "energy_j")
    assert "predict.ini, [General] y" in str(caught.value)
    assert "time_s" in str(caught.value)
    assert "energy_j" in str(caught.value)


def test_a_file_without_a_table_asks_for_one():
    with pytest.raises(UsageError, match=r"predict\.ini, \[DataPreparation\] input_path"):
        table_to_predict(write("[General]\ny = time_s\n"), "time_s")


def test_a_missing_table_is_reported_with_the_option_that_names_it():
    with pytest.raises(DatasetError) as caught:
        table_to_predict(write(PREDICTION), "time_s")
    assert "predict.ini, [DataPreparation] input_path" in str(caught.value)
    assert "new.csv" in str(caught.value)


def test_a_prediction_file_given_as_campaign_is_recognized():
    with pytest.raises(UsageError, match=r"foretell predict MODEL predict\.ini"):
        load_campaign(write(PREDICTION))
