"""Traces: what is written is read again, and what is not a trace is refused."""

import contextlib
import json
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from foretell.errors import DatasetError
from foretell.traces import Trace, read_trace

names = st.lists(st.text(max_size=8).filter(lambda n: n != "time_s"), max_size=4, unique=True)
any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)


@st.composite
def traces(draw):
    steps = draw(st.lists(st.floats(1e-3, 1e3), max_size=20))
    floats = arrays(np.float64, len(steps), elements=st.floats())
    columns = {name: draw(floats) for name in draw(names)}
    return Trace(np.cumsum(steps), columns, draw(st.dictionaries(st.text(max_size=5), any_json)))


@given(traces())
def test_a_trace_that_is_written_and_read_is_the_same(trace):
    content = trace.to_bytes()
    again = Trace.from_bytes(content)
    assert again.times_s.tobytes() == trace.times_s.tobytes()
    assert list(again.columns) == list(trace.columns)
    for name, values in trace.columns.items():
        np.testing.assert_array_equal(again.columns[name], values)  # NaN equals NaN
    assert again.about == trace.about
    assert again.to_bytes() == content
    assert again.times_s.flags.writeable


@given(traces(), st.data())
def test_a_trace_cut_short_or_made_longer_is_refused(trace, data):
    content = trace.to_bytes()
    cut = data.draw(st.integers(0, len(content) - 1))
    with pytest.raises(ValueError):
        Trace.from_bytes(content[:cut])
    with pytest.raises(ValueError, match="bytes of numbers are expected"):
        Trace.from_bytes(content + b"\0")


def test_what_a_trace_is_about_may_have_numbers_as_keys():
    content = Trace(np.array([0.0]), {}, {"runs": {2: 1, 10: 3}}).to_bytes()
    assert Trace.from_bytes(content).about == {"runs": {"2": 1, "10": 3}}


@given(traces(), st.data())
def test_a_trace_with_a_changed_bit_is_refused(trace, data):
    content = bytearray(trace.to_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with contextlib.suppress(ValueError):
        again = Trace.from_bytes(bytes(content))
        assert again.to_bytes() == trace.to_bytes()  # another way to write the same header


@given(st.binary(max_size=200))
def test_any_bytes_after_the_first_line_are_a_trace_or_a_value_error(content):
    with contextlib.suppress(ValueError):
        assert isinstance(Trace.from_bytes(b"foretell trace 1\n" + content), Trace)


def header(**changes):
    return {"columns": ["a"], "n_samples": 1, "about": {}, **changes}


HOSTILE = {
    "a pickle": pickle.dumps({"times_s": [0.0]}),
    "nothing": b"",
    "no header": b"foretell trace 1\n",
    "no JSON": b"foretell trace 1\n{]\n",
    "deep JSON": b"foretell trace 1\n" + b"[" * 100_000 + b"\n",
    "a list": b"foretell trace 1\n[]\n",
}
for word, changes in {
    "a number of columns": {"columns": 3},
    "columns that are numbers": {"columns": [1]},
    "a column twice": {"columns": ["a", "a"]},
    "a column of times": {"columns": ["time_s"]},
    "negative samples": {"n_samples": -1},
    "samples by truth": {"n_samples": True},
    "more samples than bytes": {"n_samples": 10**15},
    "about a list": {"about": []},
}.items():
    text = json.dumps(header(**changes)).encode()
    HOSTILE[word] = b"foretell trace 1\n" + text + b"\n" + bytes(16)
for word, times in {"times that fall": [2.0, 1.0], "times that are NaN": [0.0, np.nan]}.items():
    text = json.dumps(header(columns=[], n_samples=2)).encode()
    HOSTILE[word] = b"foretell trace 1\n" + text + b"\n" + np.array(times).tobytes()


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
def test_what_is_no_trace_is_refused_with_a_remedy(tmp_path, content):
    path = tmp_path / "a.trace"
    path.write_bytes(content)
    with pytest.raises(DatasetError, match=r"a\.trace is not a trace of foretell: .*traces = true"):
        read_trace(path)


def test_a_file_that_is_too_long_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr("foretell.traces._MOST_BYTES", 20)
    (tmp_path / "long.trace").write_bytes(bytes(21))
    with pytest.raises(DatasetError, match="21 bytes, more than 20"):
        read_trace(tmp_path / "long.trace")


def test_a_file_that_is_not_there_is_told(tmp_path):
    with pytest.raises(DatasetError, match=r"none\.trace cannot be read: No such file"):
        read_trace(tmp_path / "none.trace")


def test_columns_of_another_length_and_times_that_repeat_are_refused():
    with pytest.raises(ValueError, match="'a' must have one value for each of 2 samples"):
        Trace(np.array([0.0, 1.0]), {"a": np.array([1.0])})
    with pytest.raises(ValueError, match="finite and increase"):
        Trace(np.array([1.0, 1.0]), {})
