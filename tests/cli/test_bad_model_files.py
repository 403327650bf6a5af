"""Model files that are damaged, foreign, newer or hostile: refused, and nothing in them runs."""

import io
import json
import os
import pickle
import struct
import tempfile
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from foretell.cli._main import cli
from foretell.errors import ForetellError, ModelError
from foretell.model.saved.model import FORMAT, load_model

CAMPAIGN = """
[data]
path = "runs.csv"
target = "time_s"
[features]
log = ["data_gb"]
normalization = true
[search.splits]
method = "KFold"
folds = 2
[techniques.LRRidge]
alpha = 0.1
[techniques.DecisionTree]
max_depth = 3
[techniques.SVR]
kernel = "poly"
[techniques.NeuralNetwork]
n_features = [3]
epochs = 2
"""
NEW = pd.DataFrame({"nodes": [1, 64], "data_gb": [1.0, 900.0], "machine": ["m4", "x1"]})
HEADER = "model.json"


def invoke(*words):
    return CliRunner().invoke(cli, [str(w) for w in words], prog_name="foretell")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """The files of one model per technique, as ``fit`` wrote them."""
    folder = tmp_path_factory.mktemp("models")
    rows = [
        (nodes, data, machine, round(10 + 3 * data / nodes, 2))
        for nodes in (1, 2, 4, 8)
        for data in (1, 2, 4)
        for machine in ("m4", "c4")
    ]
    frame = pd.DataFrame(rows, columns=["nodes", "data_gb", "machine", "time_s"])
    frame.to_csv(folder / "runs.csv", index=False)
    (folder / "c.toml").write_text(CAMPAIGN)
    result = invoke("fit", folder / "c.toml", "-o", folder / "out", "-j", 1, "-q")
    assert result.exit_code == 0, result.output
    return {path.stem: path.read_bytes() for path in (folder / "out").glob("*.foretell")}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    NEW.to_csv("new.csv", index=False)
    return tmp_path


def unpacked(content):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(parts, compression=zipfile.ZIP_DEFLATED):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def npy(array, **options):
    buffer = io.BytesIO()
    np.save(buffer, array, **options)
    return buffer.getvalue()


def array_of(parts, name):
    return np.load(io.BytesIO(parts[f"{name}.npy"]))


def header(**changes):
    """Change entries of the header; ``a__b`` reaches into tables, None takes an entry out."""

    def change(content):
        parts = unpacked(content)
        values = json.loads(parts[HEADER])
        for key, value in changes.items():
            table = values
            *steps, last = key.split("__")
            for step in steps:
                table = table[int(step) if step.isdigit() else step]
            if value is None:
                del table[last]
            else:
                table[last] = value
        return packed({**parts, HEADER: json.dumps(values).encode()})

    return change


def replaced(name, content):
    """Replace a part by other bytes; None takes it out."""

    def change(model):
        parts = unpacked(model)
        if content is None:
            del parts[name]
        else:
            parts[name] = content
        return packed(parts)

    return change


def array(name, edit):
    """Change an array; ``edit`` gets it and returns another."""

    def change(content):
        parts = unpacked(content)
        return packed({**parts, f"{name}.npy": npy(edit(array_of(parts, name)))})

    return change


def node(name, index, value):
    def edit(values):
        values = values.copy()
        values[index] = value
        return values

    return array(f"regressor/{name}", edit)


def claiming(size):
    """Let the directory of the zip claim another unpacked size for every part."""

    def change(content):
        content = bytearray(content)
        at = content.find(b"PK\x01\x02")
        while at != -1:
            content[at + 24 : at + 28] = struct.pack("<I", size)
            at = content.find(b"PK\x01\x02", at + 1)
        return bytes(content)

    return change


def twice(name):
    def change(content):
        parts = unpacked(content)
        buffer = io.BytesIO(content)
        with zipfile.ZipFile(buffer, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr(name, parts[name])
        return buffer.getvalue()

    return change


def declared(shape, dtype="<f8"):
    """Return an array that says it is large and holds nothing."""
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}"
    text = text.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


def encrypted(content):
    content = bytearray(content)
    content[6] |= 1
    content[content.find(b"PK\x01\x02") + 8] |= 1
    return bytes(content)


COEFFICIENTS = "regressor/coefficients.npy"
FACTOR = {"column": "nodes", "steps": [], "level": None}
HUGE = 10**400
SOUND = "not a sound foretell model"
CASES = {
    "empty": (lambda _: b"", ["not a foretell model", "foretell fit"]),
    "table": (lambda _: b"nodes,time_s\n1,2\n", ["not a foretell model", "foretell fit"]),
    "png": (lambda _: b"\x89PNG\r\n\x1a\n" + bytes(99), ["not a foretell model"]),
    "zip-of-something-else": (
        lambda _: packed({"word/document.xml": "x"}),
        ["model.json", "foretell fit"],
    ),
    "bytes-after-the-start": (lambda _: b"PK\x03\x04" + bytes(99), [SOUND, "Copy it again"]),
    "bytes-before-it": (lambda c: b"x" + c, ["not a foretell model"]),
    "header-is-no-json": (replaced(HEADER, b"nodes = 1"), [SOUND, "fit it again"]),
    "header-is-no-text": (replaced(HEADER, b"\xff\xfe\x00"), [SOUND]),
    "header-is-a-list": (replaced(HEADER, b"[1, 2]"), ["no format", "foretell fit"]),
    "header-without-format": (header(format=None), ["no format"]),
    "header-nested-deeply": (replaced(HEADER, b"[" * 200_000), [SOUND]),
    "header-nested-inside": (
        replaced(HEADER, b'{"format": 1, "values": ' + b'{"a":' * 200_000 + b"1" + b"}" * 200_001),
        [SOUND],
    ),
    "newer": (header(format=9, foretell="7.1"), ["7.1", "format 9", f"up to {FORMAT}", "Upgrade"]),
    "older-with-another-state": (
        header(format=1, foretell="0.1.0", technique="ScalingLaw"),
        ["'0.1.0'", "format 1", "ScalingLaw", "Fit it again"],
    ),
    "older-than-the-first": (header(format=0), [SOUND, "no format 0"]),
    "entry-missing": (header(target=None), [SOUND, "target", "required"]),
    "entry-unknown": (header(run="rm -rf /"), [SOUND, "run"]),
    "entry-of-another-type": (header(columns="nodes"), [SOUND, "columns"]),
    "technique-unknown": (
        header(technique="LRRidge2"),
        ["'LRRidge2'", "not installed", "'LRRidge'?"],
    ),
    "technique-of-another-kind": (header(technique="DecisionTree"), [SOUND, "n_features"]),
    "step-unknown": (header(features__0__factors=[{**FACTOR, "steps": ["eval"]}]), [SOUND, "eval"]),
    "column-undeclared": (header(features__0__factors=[{**FACTOR, "column": "x"}]), ["undeclared"]),
    "category-as-a-number": (
        header(features__0__factors=[{**FACTOR, "column": "machine"}]),
        [SOUND, "kind of its column"],
    ),
    "number-as-a-category": (
        header(features__0__factors=[{**FACTOR, "level": "1"}]),
        ["kind of its"],
    ),
    "feature-of-nothing": (header(features__0__factors=[]), [SOUND, "features.0.factors"]),
    "no-features": (header(features=[]), [SOUND, "features"]),
    "range-of-no-column": (header(ranges={"x": [1, 2]}), [SOUND, "range"]),
    "range-without-end": (header(ranges={"nodes": [1, float("inf")]}), [SOUND, "ranges.nodes"]),
    "floor-of-nan": (header(floor=float("nan")), [SOUND, "floor"]),
    "scale-of-nan": (header(y_scaling=[1, float("nan")]), [SOUND, "y_scaling"]),
    "intercept-of-nan": (header(values__intercept=float("nan")), [SOUND, "intercept"]),
    "intercept-of-text": (header(values__intercept="1"), [SOUND, "intercept"]),
    "intercept-too-large": (header(values__intercept=HUGE), [SOUND]),
    "array-missing": (replaced(COEFFICIENTS, None), [SOUND, "'coefficients' is missing"]),
    "columns-missing": (replaced("columns.npy", None), [SOUND, "'columns' is missing"]),
    "array-is-no-array": (replaced(COEFFICIENTS, b"1, 2, 3"), [SOUND]),
    "array-of-another-shape": (array("regressor/coefficients", lambda a: a[:-1]), [SOUND, "shape"]),
    "array-of-another-type": (
        array("regressor/coefficients", lambda a: a.astype("f4")),
        ["float32"],
    ),
    "array-of-texts": (replaced(COEFFICIENTS, npy(np.array(["a", "b"]))), [SOUND, "only numbers"]),
    "array-of-nan": (array("regressor/coefficients", lambda a: a * np.nan), [SOUND, "finite"]),
    "array-of-infinity": (array("regressor/coefficients", lambda a: a + np.inf), [SOUND, "finite"]),
    "array-cut-short": (replaced(COEFFICIENTS, npy(np.ones(5))[:-4]), [SOUND, "size it claims"]),
    "array-claims-a-terabyte": (replaced(COEFFICIENTS, declared((2**37,))), ["size it claims"]),
    "array-claims-all": (replaced(COEFFICIENTS, declared((2**62, 2**62))), ["size it claims"]),
    "array-claims-less-than-nothing": (replaced(COEFFICIENTS, declared((-1,))), ["size it claims"]),
    "array-header-is-code": (replaced(COEFFICIENTS, declared("__import__('os')")), [SOUND]),
    "positions-outside": (array("columns", lambda a: a + 9), [SOUND, "among the features"]),
    "positions-negative": (array("columns", lambda a: a - 9), [SOUND, "among the features"]),
    "positions-repeated": (array("columns", lambda a: a * 0), [SOUND, "count up"]),
    "positions-too-many": (array("columns", lambda a: np.repeat(a, 9)), [SOUND, "count up"]),
    "positions-none": (array("columns", lambda a: a[:0]), [SOUND, "columns"]),
    "scaling-missing": (replaced("x_mean.npy", None), [SOUND, "'x_mean' is missing"]),
    "scaling-of-zero": (array("x_deviation", lambda a: a * 0), [SOUND, "scaling", "positive"]),
    "scaling-of-another-shape": (array("x_mean", lambda a: a[:-1]), [SOUND, "x_mean", "shape"]),
    "claims-three-gibibytes": (claiming(3 << 30), ["more than 2 GiB"]),
    "claims-less-than-it-holds": (claiming(10), [SOUND]),
    "part-twice": (twice(HEADER), [SOUND, "same name"]),
    "compressed-otherwise": (
        lambda c: packed(unpacked(c), zipfile.ZIP_BZIP2),
        ["compressed in an"],
    ),
    "encrypted": (encrypted, [SOUND, "encrypted"]),
}

TREES = {
    "tree-cycle": (node("left", 0, 0), [SOUND, "children must come after"]),
    "tree-child-outside": (node("right", 0, 10**6), [SOUND, "children"]),
    "tree-child-negative": (node("left", 0, -7), [SOUND, "children"]),
    "tree-child-shared": (node("right", 0, 1), [SOUND, "exactly one node|children"]),
    "tree-feature-outside": (node("feature", 0, 99), [SOUND, "features must be between"]),
    "tree-feature-negative": (node("feature", 0, -1), [SOUND, "features must be between"]),
    "tree-threshold-of-nan": (node("threshold", 0, np.nan), [SOUND, "finite"]),
    "tree-starts-outside": (node("starts", -1, 10**9), [SOUND, "starts"]),
    "tree-without-nodes": (array("regressor/starts", lambda a: a[:0]), [SOUND, "starts"]),
    "tree-of-other-features": (header(values__n_features=2), [SOUND, "features"]),
    "tree-nodes-missing": (array("regressor/value", lambda a: a[1:]), [SOUND, "shape"]),
}
OTHERS = {
    ("SVR", "degree-too-large"): (header(values__degree=HUGE), [SOUND, "degree"]),
    ("SVR", "kernel-unknown"): (header(values__kernel="custom"), [SOUND, "kernel", "rbf"]),
    ("SVR", "vectors-missing"): (array("regressor/vectors", lambda a: a[:0]), [SOUND, "shape"]),
    ("NeuralNetwork", "layers-too-many"): (header(values__n_layers=10**6), [SOUND, "bias"]),
    ("NeuralNetwork", "scale-of-zero"): (array("regressor/x_scale", lambda a: a * 0), ["positive"]),
}

TAMPERED = [
    *(("LRRidge", name, *case) for name, case in CASES.items()),
    *(("DecisionTree", name, *case) for name, case in TREES.items()),
    *((technique, name, *case) for (technique, name), case in OTHERS.items()),
]


def refused(model):
    """Predict with a file; return the message, after checking that it is the only outcome."""
    result = invoke("predict", model, "new.csv", "-o", "predictions.csv")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert (result.exit_code, result.stdout) == (2, ""), result.output
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"error: {model}") or line.startswith("error: there is no")
    assert not Path("predictions.csv").exists()
    return line


@pytest.mark.parametrize(
    "technique, change, words",
    [pytest.param(technique, *case, id=name) for technique, name, *case in TAMPERED],
)
def test_tampered_model_is_refused(technique, change, words, models, folder):
    Path("m.foretell").write_bytes(change(models[technique]))
    message = refused("m.foretell")
    assert all(any(one in message for one in word.split("|")) for word in words), message


def test_untampered_models_predict(models, folder):
    for name, content in models.items():
        Path("m.foretell").write_bytes(packed(unpacked(content)))  # so the helpers are sound
        result = invoke("predict", "m.foretell", "new.csv")
        assert result.exit_code == 0, (name, result.output)


@pytest.mark.parametrize(
    "path, words",
    [
        ("none.foretell", ["no model none.foretell", "check the path"]),
        ("folder", ["holds no best.foretell", "name a model file"]),
        ("broken", ["broken/best.foretell", "not a foretell model"]),
        ("new.csv", ["new.csv is not a foretell model"]),
        ("new.csv/m.foretell", ["new.csv/m.foretell"]),
        ("x" * 300, ["too long"]),
    ],
)
def test_path_without_a_model_is_refused(path, words, folder):
    Path("folder").mkdir()
    Path("broken").mkdir()
    Path("broken/best.foretell").write_text("")
    message = refused(path)
    assert all(word in message for word in words), message


class Trap:
    """Makes a directory when unpickled."""

    def __reduce__(self):
        return os.mkdir, ("marker",)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickle_under_another_name_is_refused_and_not_run(protocol, folder):
    content = pickle.dumps(Trap(), protocol=protocol)
    pickle.loads(content)
    assert Path("marker").exists()  # the trap works
    Path("marker").rmdir()
    Path("m.foretell").write_bytes(content)
    message = refused("m.foretell")
    assert not Path("marker").exists()
    if protocol >= 2:
        assert "pickle" in message and "can run code" in message


@pytest.mark.parametrize("name", [COEFFICIENTS, "columns.npy", "x_mean.npy", "regressor/more.npy"])
def test_pickle_inside_an_array_is_refused_and_not_run(name, models, folder):
    content = npy(np.array([Trap()], dtype=object), allow_pickle=True)
    np.load(io.BytesIO(content), allow_pickle=True)
    assert Path("marker").exists()
    Path("marker").rmdir()
    Path("m.foretell").write_bytes(replaced(name, content)(models["LRRidge"]))
    assert "only numbers are read" in refused("m.foretell")
    assert not Path("marker").exists()


@pytest.mark.parametrize(
    "change",
    [
        claiming(3 << 30),
        claiming(1 << 30),
        replaced(COEFFICIENTS, declared((2**37,))),
        # It unpacks to 256 MB of zeros, and claims to be small.
        lambda c: claiming(100)(packed({**unpacked(c), HEADER: bytes(1 << 28)})),
    ],
    ids=["too-much", "much", "in-an-array", "bomb"],
)
def test_huge_claims_take_no_memory(change, models, folder):
    Path("m.foretell").write_bytes(change(models["LRRidge"]))
    tracemalloc.start()
    try:
        with pytest.raises(ModelError):
            load_model("m.foretell")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20e6


def test_truncated_model_is_refused_at_every_length(models, folder):
    content = models["LRRidge"]
    lengths = {*range(40), *range(40, len(content), 61), len(content) - 1}
    for length in sorted(lengths):
        Path("m.foretell").write_bytes(content[:length])
        with pytest.raises(ModelError, match="not a"):
            load_model("m.foretell")
    Path("m.foretell").write_bytes(content[: len(content) // 2])
    assert SOUND in refused("m.foretell")


def outcome(content):
    """Load and predict; anything but a model, finite numbers or our own errors is a failure."""
    handle, path = tempfile.mkstemp(suffix=".foretell")
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    try:
        model = load_model(path)
    except ModelError:
        return
    finally:
        Path(path).unlink()
    try:
        assert np.isfinite(model.predict(NEW)).all()
        assert len(model.outside(NEW)) == len(NEW)
    except ForetellError:
        return
    assert repr(model) and (model.formula is None or model.formula)


FEW = settings(max_examples=100, deadline=None)


@FEW
@given(data=st.data())
def test_flipped_bytes_give_a_model_or_a_model_error(data, models):
    content = bytearray(models[data.draw(st.sampled_from(sorted(models)))])
    positions = st.integers(0, len(content) - 1)
    for at, value in data.draw(st.lists(st.tuples(positions, st.integers(1, 255)), min_size=1)):
        content[at] ^= value
    outcome(bytes(content[: data.draw(st.one_of(st.none(), positions))]))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.just(HUGE),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=4,
)


def places(value, place=()):
    """List the steps to every value inside a header."""
    inside = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return [p for key, v in inside for p in [(*place, key), *places(v, (*place, key))]]


@FEW
@given(data=st.data())
def test_any_value_anywhere_in_the_header_gives_a_model_or_a_model_error(data, models):
    parts = unpacked(models[data.draw(st.sampled_from(sorted(models)))])
    values = json.loads(parts[HEADER])
    *steps, last = data.draw(st.sampled_from(places(values)))
    table = values
    for step in steps:
        table = table[step]
    table[last] = data.draw(VALUES)
    outcome(packed({**parts, HEADER: json.dumps(values).encode()}))


@FEW
@given(data=st.data())
def test_any_array_gives_a_model_or_a_model_error(data, models):
    parts = unpacked(models[data.draw(st.sampled_from(sorted(models)))])
    name = data.draw(st.sampled_from([n for n in sorted(parts) if n != HEADER]))
    changed = np.load(io.BytesIO(parts[name])).copy()
    number = st.integers(-3, 99) if changed.dtype.kind == "i" else st.floats(width=64)
    for _ in range(data.draw(st.integers(1, 3))):
        changed.flat[data.draw(st.integers(0, changed.size - 1))] = data.draw(number)
    if data.draw(st.booleans()):
        changed = changed[: data.draw(st.integers(0, len(changed)))]
    outcome(packed({**parts, name: npy(changed)}))
