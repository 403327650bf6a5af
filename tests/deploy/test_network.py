"""Networks in processes of their own: what is timed, what is refused, and how that is told."""

from pathlib import Path

import pytest

from foretell.deploy.child import _undisturbed
from foretell.deploy.choose import choose_deployment
from foretell.deploy.measuring import Stopwatch
from foretell.deploy.network import (
    BatchFailedError,
    Effort,
    Network,
    NetworkProcess,
    TorchMissingError,
    read_network,
)
from foretell.deploy.shapes import UnfitNetworkError, check_shapes
from foretell.errors import NothingUsableError, UsageError

from . import networks

pytest.importorskip("torch")
FILE = Path(__file__).parent / "networks.py"
SHORT = Effort(n_warm_ups=1, warm_up_s=0.0, n_calls=16, calls_s=0.0, n_pauses=3)


def network(name, shape="1,4,4", **options):
    return read_network(f"{FILE}:{name}", shape, **options)


def refusal(name, shape="1,4,4", **options):
    with pytest.raises((UsageError, NothingUsableError)) as caught:
        NetworkProcess(network(name, shape, **options), 1).close()
    return str(caught.value)


def unfit(name, *shape):
    """Return what is said of a network here, as starting processes takes time."""
    torch = pytest.importorskip("torch")
    model = getattr(networks, name)().eval()

    def make_input(n, seed):
        return torch.rand((n, *shape), generator=torch.Generator().manual_seed(seed))

    with pytest.raises(UnfitNetworkError) as caught:
        check_shapes(model, make_input)
    return str(caught.value)


def test_a_network_is_described_and_timed():
    with NetworkProcess(network("chatty"), 1) as process:
        described = process.description
        timed = process.timed(4, SHORT)
    assert described["n_parameters"] == 16 * 8 + 8 + 8 * 3 + 3
    assert described["output_shape"] == [3]
    # Rounds of two calls; those that other work disturbed are left out, but for two.
    assert timed["n_calls"] % 2 == 0
    assert 4 <= timed["n_calls"] <= 48
    assert timed["median_s"] > 0
    assert sorted(timed["levels"]) == timed["levels"]
    assert 0 < timed["busy_cores"] < 3


def test_single_samples_are_timed_after_a_pause_as_well():
    with NetworkProcess(network("small"), 1) as process:
        assert process.timed(1, SHORT)["pause_s"] >= 0
        assert process.timed(2, SHORT)["pause_s"] == 0
    with NetworkProcess(network("Rested"), 1) as process:
        assert process.timed(1, SHORT)["pause_s"] > 0.01


def test_rounds_that_lost_the_processor_are_left_out_and_slow_ones_are_kept():
    quick, slow, disturbed = ([1.0] * 4, 4.0), ([1.3] * 4, 5.2), ([1.3] * 4, 4.0)
    assert _undisturbed([quick, disturbed, slow, quick]) == [quick, slow, quick]


def test_indices_are_drawn_below_the_number_given():
    with NetworkProcess(network("words", "7", dtype="int64:50"), 1) as process:
        assert process.description["output_shape"] == [8]


def test_equal_structures_have_equal_graphs_and_others_have_not():
    graphs = []
    for arguments in ({"width": 8}, {"width": 9}):
        with NetworkProcess(network("small", arguments=arguments), 1) as process:
            graphs.append(process.description["graph"])
    with NetworkProcess(network("small"), 1) as process:
        assert process.description["graph"] == graphs[0] != graphs[1]
        assert process.timed(1, Effort(1, 0.0, 50, 0.0))["n_calls"] >= 50


def test_layers_without_a_batch_dimension_are_named():
    told = unfit("without_batches", 1, 4, 4)
    assert "no batch dimension" in told
    assert "layer 0 (Flatten)" in told
    told = unfit("averaging", 16)
    assert "no batch dimension" in told
    assert "layer 2 (Mean)" in told
    told = unfit("Total", 16)
    assert "after layer layer (Linear) the output for 1 sample is a number" in told


def test_layers_with_dynamic_shapes_are_named():
    told = unfit("dynamic", 16)
    assert "dynamic shapes" in told
    assert "layer 1 (Positive)" in told


def test_inputs_that_do_not_fit_name_the_layer():
    assert "layer 1 (Linear)" in refusal("small", "1,5,5")
    assert "layer 1 (Linear)" in unfit("small", 1, 5, 5)


def test_what_a_function_raises_is_told_with_its_line():
    told = refusal("failing")
    assert "ValueError: no such weights" in told
    assert "networks.py, line" in told


def test_a_function_that_returns_something_else_is_refused():
    assert "returned int" in refusal("wrong_kind")


def test_unknown_functions_get_the_nearest_name():
    assert "Did you mean 'small'" in refusal("smal")


def test_files_that_cannot_be_imported_are_told(tmp_path):
    (tmp_path / "broken.py").write_text("import nothing_of_that_name\n")
    with pytest.raises(UsageError, match="nothing_of_that_name"):
        NetworkProcess(read_network(f"{tmp_path}/broken.py:build", "3"), 1).close()


def test_a_batch_that_cannot_be_computed_is_told_apart_from_a_broken_network():
    process = NetworkProcess(network("killed"), 1)
    with pytest.raises(BatchFailedError, match="memory"):
        process.timed(8, SHORT)
    process.close()


def sizes_of_calls(tmp_path, largest):
    """Return the sizes of all batches that a network computed until a batch of 2 was timed."""
    asked = network("noting", arguments={"path": str(tmp_path / "sizes")})
    with Stopwatch(asked, 1, SHORT, None) as stopwatch:
        (tmp_path / "sizes").unlink()
        stopwatch.largest = largest
        assert stopwatch.point(1, 2).batch == 2
    return [int(n) for n in (tmp_path / "sizes").read_text().split()]


def test_a_process_computes_the_largest_batch_first_as_a_server_has_had_it(tmp_path):
    sizes = sizes_of_calls(tmp_path, 8)
    assert sizes[0] == 8
    assert set(sizes) == {2, 8}
    assert sizes.index(2) == sizes.count(8)


def test_where_the_largest_batch_cannot_be_computed_others_are_timed_all_the_same(tmp_path):
    assert sizes_of_calls(tmp_path, 9)[-1] == 2


@pytest.mark.parametrize("error", ["MemoryError", "AssertionError"])
def test_whatever_a_large_batch_raises_is_told_with_the_kind_of_error(error):
    with NetworkProcess(network("picky", arguments={"error": error}), 1) as process:
        with pytest.raises(BatchFailedError, match=error):
            process.timed(8, SHORT)
        assert process.timed(4, SHORT)["median_s"] > 0


def test_where_pytorch_is_not_installed_that_is_told(tmp_path, monkeypatch):
    (tmp_path / "torch.py").write_text("raise ImportError('no torch')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(TorchMissingError, match=r"pip install 'foretell\[torch\]'"):
        NetworkProcess(network("small"), 1).close()


@pytest.mark.parametrize(
    ("build", "shape", "told"),
    [
        ("net.py", "3", "names no function"),
        ("nowhere.py:build", "3", "no file"),
        (f"{FILE}:small", "", "shape of one sample"),
        (f"{FILE}:small", "1,a", "shape of one sample"),
        (f"{FILE}:small", "1,-3", "shape of one sample"),
        (f"{FILE}:small", "0", "shape of one sample"),
        (f"{FILE}:small", "99999,99999", "shape of one sample"),
        (lambda: None, "3", "function of its own"),
    ],
)
def test_garbage_is_refused_before_anything_starts(build, shape, told):
    with pytest.raises(UsageError, match=told):
        read_network(build, shape)


def test_unknown_types_get_the_nearest_name():
    with pytest.raises(UsageError, match="float32"):
        read_network(f"{FILE}:small", "3", "flaot32")


def test_a_script_that_asks_while_it_is_imported_is_told_to_guard_the_call(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import torch, foretell\n"
        "def build():\n"
        "    return torch.nn.Linear(4, 2)\n"
        "foretell.choose_deployment(build, (4,), scenario='offline', vary={'batch': [1, 2]})\n"
    )
    with pytest.raises(UsageError, match="__main__"):
        choose_deployment(f"{script}:build", (4,), scenario="offline", cache=tmp_path / "cache")


def test_code_that_a_network_calls_is_part_of_what_its_times_belong_to(tmp_path):
    file = tmp_path / "net.py"
    code = (
        "import torch\n"
        "def steps():\n    return 1\n"
        "class Net(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        for _ in range(steps()):\n            x = x + 1\n        return x\n"
    )
    graphs = []
    for text in (code, code.replace("return 1", "return 100")):
        file.write_text(text)
        with NetworkProcess(Network(f"{file}:Net", (4,)), 1) as process:
            graphs.append(process.description["graph"])
    assert graphs[0] != graphs[1]
