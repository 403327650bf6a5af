"""Tables in files: which columns come out, and what is told from a table."""

from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from foretell.dataset import TextTable, read_dataset
from foretell.errors import DatasetError


def text_table(text):
    return read_dataset(TextTable(text.encode(), "t.csv"))


@pytest.mark.parametrize(
    "header",
    ["{0},{1},time_s", "[0],[1],time_s", "{a},time_s", "<script>alert(1)</script>,time_s",
     '"<p>a</p>",time_s', "<,time_s"],
)  # fmt: skip
def test_columns_may_have_names_that_look_like_other_languages(header):
    n = header.count(",") + 1
    dataset = text_table(f"{header}\n" + ",".join("1" * n) + "\n")
    assert len(dataset.columns) == n
    assert dataset.columns[-1] == "time_s"
    assert dataset.columns[0] == header.split(",")[0].strip('"')


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('{"a": 1}\n', "JSON"),
        ('{\n "a": 1\n}', "JSON"),
        ('[{"a": 1}]', "JSON"),
        ("[[1, 2]]", "JSON"),
        ("<!DOCTYPE html>\n<p>", "HTML"),
        ("<html lang='en'>\n", "HTML"),
        ('<?xml version="1.0"?>\n<runs/>', "XML"),
        ("<runs>\n<run/></runs>", "XML"),
    ],
)
def test_other_languages_are_told_from_tables(text, kind):
    with pytest.raises(DatasetError, match=kind):
        text_table(text)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-32-be", "utf-16-be"])
def test_encodings_are_called_by_their_name(encoding):
    content = ("" if encoding[-2:].isdigit() else "\ufeff").encode(encoding)
    content += "a,b\n1,2\n".encode(encoding)
    with pytest.raises(DatasetError, match=f"{encoding[:6].upper()} text; save it as UTF-8"):
        read_dataset(TextTable(content, "t.csv"))


def parquet(path, **columns):
    base = {"nodes": [1, 2, 4, 8], "time_s": [9.0, 5.0, 3.0, 2.0]}
    pq.write_table(pa.table({**base, **columns}), path)
    return read_dataset(path)


NESTED = {
    "list": pa.array([[1, 2]] * 4),
    "struct": pa.array([{"a": 1}] * 4),
    "map": pa.array([[("k", 1)]] * 4, type=pa.map_(pa.string(), pa.int32())),
    "binary": pa.array([b"\xff\x00"] * 4),
    "gaps": pa.array([None, [1], None, None]),
    "large list": pa.array([[1, 2]] * 4, type=pa.large_list(pa.int64())),
    "fixed list": pa.array([[1, 2]] * 4, type=pa.list_(pa.int64(), 2)),
    "large binary": pa.array([b"\xff\x00"] * 4, type=pa.large_binary()),
    "fixed binary": pa.array([b"\xff\x00"] * 4, type=pa.binary(2)),
}


@pytest.mark.parametrize("values", NESTED.values(), ids=NESTED)
def test_columns_of_nested_values_and_bytes_are_left_out_with_a_note(values, tmp_path):
    dataset = parquet(tmp_path / "t.parquet", odd=values)
    assert dataset.columns == ["nodes", "time_s"]
    _, notes = dataset.for_target("time_s")
    assert any("'odd' was left out: it holds" in note for note in notes)
    with pytest.raises(DatasetError, match=r"column 'odd' holds .* one number or name per row"):
        dataset.require(["odd"])


def test_half_precision_decimals_and_encoded_text_are_plain_values(tmp_path):
    dataset = parquet(
        tmp_path / "t.parquet",
        half=pa.array(np.array([0.5, 1, 2, 4], dtype=np.float16)),
        exact=pa.array([Decimal("1.5"), Decimal("2.5"), None, Decimal("4")]),
        text=pa.array([b"m4"] * 4),
    )
    frame = dataset.frame
    assert frame["half"].dtype == float
    assert frame["half"].tolist() == [0.5, 1, 2, 4]
    assert frame["exact"].dropna().tolist() == [1.5, 2.5, 4]
    assert frame["exact"].dtype == float
    assert frame["text"].tolist() == ["m4"] * 4
    assert not dataset.unreadable


def test_frames_are_cleaned_like_files_and_left_as_they_were():
    frame = pd.DataFrame({"a": [1, 2], "b": [[1], [2]], "c": [b"x", b"\xff"]})
    dataset = read_dataset(frame)
    assert dataset.columns == ["a"]
    assert dataset.unreadable == {"b": "lists", "c": "bytes that are not text"}
    assert list(frame.columns) == ["a", "b", "c"]


@pytest.mark.parametrize("values", NESTED.values(), ids=NESTED)
def test_arrow_frames_are_cleaned_too(values):
    column = pd.Series(values.to_pylist(), dtype=pd.ArrowDtype(values.type))
    dataset = read_dataset(pd.DataFrame({"a": [1, 2, 3, 4], "odd": column}))
    assert dataset.columns == ["a"]
    assert list(dataset.unreadable) == ["odd"]


PLAIN = {
    "text": (pa.large_binary(), [b"m4", b"c5"], ["m4", "c5"]),
    "decimals": (pa.decimal256(40, 1), [Decimal("1.5"), None], [1.5, None]),
    "names": (pa.dictionary(pa.int8(), pa.string()), ["m4", "c5"], ["m4", "c5"]),
    "flags": (pa.bool_(), [True, None], [True, None]),
    "numbers": (pa.uint8(), [1, None], [1, None]),
}


@pytest.mark.parametrize(("kind", "given", "expected"), PLAIN.values(), ids=PLAIN)
def test_arrow_frames_keep_plain_values(kind, given, expected):
    column = pd.Series(given, dtype=pd.ArrowDtype(kind))
    dataset = read_dataset(pd.DataFrame({"a": [1, 2], "b": column}))
    assert not dataset.unreadable
    found = dataset.frame["b"].astype(object)
    assert found.where(found.notna(), None).tolist() == expected


def test_a_column_to_convert_may_be_called_self():
    frame = pd.DataFrame({"a": [1, 2], "self": np.array([0.5, 2], dtype=np.float16)})
    dataset = read_dataset(frame)
    assert dataset.frame["self"].tolist() == [0.5, 2]
    assert dataset.columns == ["a", "self"]
    assert frame["self"].dtype == np.float16  # the frame that was given is left as it was


@pytest.mark.parametrize("end", [",", ",,", ", , "], ids=repr)
def test_empty_columns_at_the_end_of_a_spreadsheet_are_left_out(end):
    dataset = text_table(f"n,time_s{end}\n1,2.5{end}\n2,3.5{end}\n")
    assert dataset.columns == ["n", "time_s"]
    assert dataset.frame["time_s"].tolist() == [2.5, 3.5]


def test_columns_with_a_name_or_with_values_are_kept():
    dataset = text_table("n,,empty,time_s,,\n1,7,,2.5,,\n2,8,,3.5,,\n")
    first, unnamed, *rest = dataset.columns
    assert [first, *rest] == ["n", "empty", "time_s"]
    assert dataset.frame[unnamed].tolist() == [7, 8]


def test_two_columns_of_one_name_are_refused_beside_empty_ones():
    with pytest.raises(DatasetError, match="more than one column 'n'"):
        text_table("n,n ,time_s,,\n1,2,3,,\n")
