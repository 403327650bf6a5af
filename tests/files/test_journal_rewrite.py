"""Journals that are made shorter: the old records or the new ones are there, never a mix."""

import pytest

from foretell.errors import StorageError
from foretell.files.journal import Journal, read_journal

PRINT = {"holds": "numbers"}


def test_other_records_take_the_place_of_all_and_more_can_follow(tmp_path):
    with Journal(tmp_path / "journal", PRINT) as journal:
        journal.append({"n": i} for i in range(5))
        journal.rewrite([{"sum": 10}])
        assert journal.records == [{"sum": 10}]
        journal.append([{"n": 5}])
    assert read_journal(tmp_path / "journal") == [{"sum": 10}, {"n": 5}]
    with Journal(tmp_path / "journal", PRINT) as journal:
        assert journal.records == [{"sum": 10}, {"n": 5}]
    assert [path.name for path in tmp_path.iterdir()] == ["journal"]


def test_a_journal_that_does_not_remember_keeps_only_what_was_there_before(tmp_path):
    with Journal(tmp_path / "journal", PRINT, is_remembering=False) as journal:
        journal.append([{"n": 0}])
        assert journal.records == []
    with Journal(tmp_path / "journal", PRINT, is_remembering=False) as journal:
        assert journal.records == [{"n": 0}]


def test_the_old_records_stay_if_the_new_ones_cannot_be_written(tmp_path):
    with Journal(tmp_path / "journal", PRINT) as journal:
        journal.append([{"n": 0}])
        (tmp_path / "journal.part").mkdir()  # in the way
        with pytest.raises(StorageError, match="cannot be written"):
            journal.rewrite([])
        journal.append([{"n": 1}])
    assert read_journal(tmp_path / "journal") == [{"n": 0}, {"n": 1}]
