"""The layers of VGG networks: their shapes, their operations, and real runs."""

import importlib.util
import json
from pathlib import Path

import pandas as pd
import pytest

from foretell.dataset import read_dataset
from foretell.errors import UsageError
from foretell.measure.measure import measure_sweep, prepare_sweep
from foretell.measure.workloads import load_workload
from foretell.measure.workloads.torch_layers import layers

SHAPE = {
    "filter_height", "filter_width", "input_channels", "output_channels", "spatial_size", "flops",
}  # fmt: skip
LAYER = {"network": "vgg16", "layer": 3, "image_size": 32, "batch_size": 2}


def sweep(parameters=None, **more):
    return {
        "workload": {"use": "torch_layers"},
        "parameters": {**LAYER, **(parameters or {})},
        **more,
    }


def derived(**parameters):
    return load_workload({"use": "torch_layers"}, Path()).derived({**LAYER, **parameters})


# Shapes


@pytest.mark.parametrize(("network", "n_layers"), [("vgg16", 13), ("vgg19", 16)])
def test_networks_have_as_many_convolutions_as_published(network, n_layers):
    assert len(layers(network, 224)) == n_layers


@pytest.mark.parametrize(("network", "n_weights"), [("vgg16", 14_714_688), ("vgg19", 20_024_384)])
def test_convolutions_have_as_many_weights_as_published(network, n_weights):
    # Filters of 3 by 3, and one bias for each output channel.
    found = [
        (9 * layer.input_channels + 1) * layer.output_channels for layer in layers(network, 224)
    ]
    assert sum(found) == n_weights


def test_channels_of_one_layer_are_taken_by_the_next():
    for network in ("vgg16", "vgg19"):
        found = layers(network, 224)
        assert found[0].input_channels == 3
        assert [a.output_channels for a in found[:-1]] == [b.input_channels for b in found[1:]]
        assert found[-1].output_channels == 512


def test_image_is_halved_after_each_block():
    sizes = [layer.spatial_size for layer in layers("vgg16", 224)]
    assert sizes == [224] * 2 + [112] * 2 + [56] * 3 + [28] * 3 + [14] * 3


def test_vgg16_takes_about_31_billion_operations_on_an_image():
    total = sum(layer.flops(1) for layer in layers("vgg16", 224))
    assert total == pytest.approx(2 * 15.35e9, rel=0.001)


def test_operations_of_a_layer_are_those_counted_by_hand():
    # Layer 3: 64 channels in, 128 out, 16 × 16 pixels, 9 weights per pair of channels, 2 images,
    # a multiplication and an addition each.
    assert derived()["flops"] == 64 * 128 * 16 * 16 * 9 * 2 * 2


def test_layer_is_described_by_its_shape():
    found = derived(network="vgg19", layer=9, image_size=96)
    assert set(found) == SHAPE
    assert (found["input_channels"], found["output_channels"]) == (256, 512)
    assert (found["filter_height"], found["filter_width"], found["spatial_size"]) == (3, 3, 12)


# Plans


def test_derived_columns_can_be_derived_from_and_ruled_out_by():
    plan = prepare_sweep(
        sweep(
            {"layer": [1, 2, 3, 4], "image_size": 64},
            derive={"mflops": "flops / 1e6"},
            only="input_channels >= 64",
            exclude="mflops > 500",
        )
    )
    # Layers 2 and 4 have 604 million operations on two images, layer 3 half of that.
    assert [run.configuration["layer"] for run in plan.runs] == [3]
    assert plan.runs[0].configuration["mflops"] == pytest.approx(301.99, rel=1e-4)


def test_layers_that_a_network_lacks_can_be_excluded():
    plan = prepare_sweep(
        sweep(
            {"network": ["vgg16", "vgg19"], "layer": {"from": 1, "to": 16, "step": 1}},
            exclude="network == 'vgg16' and layer > 13",
        )
    )
    assert len(plan.runs) == 13 + 16


# Bad input


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"layer": 14}, "vgg16 has the convolutions 1 to 13, and no 14.*exclude"),
        ({"network": "vgg17"}, "network: must be one of vgg16, vgg19, not 'vgg17'"),
        ({"layer": 0}, "layer: must be a positive whole number, not 0"),
        ({"batch_size": 1.5}, "batch_size: must be a positive whole number, not 1.5"),
        ({"image_size": "large"}, "image_size: must be a positive whole number, not 'large'"),
        ({"threads": True}, "threads: must be a positive whole number, not True"),
        ({"layer": 13, "image_size": 8}, "nothing is left of an image of 8 pixels at layer 13"),
        ({"bach_size": 4}, "bach_size: torch_layers has no such parameter.*'batch_size'"),
    ],
)
def test_runs_that_cannot_be_are_refused_before_any_is_made(parameters, said):
    with pytest.raises(UsageError, match=said):
        prepare_sweep(sweep(parameters))


def test_missing_parameter_is_named():
    with pytest.raises(UsageError, match="torch_layers needs 'batch_size'"):
        prepare_sweep(
            {
                "workload": {"use": "torch_layers"},
                "parameters": {"network": "vgg16", "layer": 1, "image_size": 32},
            }
        )


def test_unknown_name_in_a_rule_is_named_with_the_columns_of_the_workload():
    with pytest.raises(UsageError, match=r"only: 'flop > 1'.*'flops'"):
        prepare_sweep(sweep(only="flop > 1"))


def test_column_of_the_workload_is_not_derived_again():
    with pytest.raises(UsageError, match=r"derive: 'flops' is .*column of the workload"):
        prepare_sweep(sweep(derive={"flops": "layer * 2"}))


def test_missing_torch_is_said_with_the_extra_to_install(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'foretell\[torch\]'"):
        prepare_sweep(sweep())


# Real runs


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    table = tmp_path_factory.mktemp("layers") / "runs.csv"
    workload = {"use": "torch_layers", "budget_s": 0, "least_passes": 3, "warm_up_passes": 1}
    parameters = {**LAYER, "layer": [1, 13], "threads": 1}
    measure_sweep({"workload": workload, "parameters": parameters}, table)
    return table


def test_passes_of_a_layer_are_timed(measured):
    runs = pd.read_csv(measured)
    assert runs["status"].tolist() == ["ok", "ok"]
    assert runs["n_passes"].tolist() == [3, 3]
    # The job is the timed passes alone: at least as long as the two of them that are no less
    # than the median.
    assert (runs["forward_s"] > 0).all()
    assert (runs["wall_time_s"] >= 2 * runs["forward_s"]).all()


def test_shape_of_a_layer_is_a_parameter_and_its_time_is_not(measured):
    columns = json.loads(measured.with_suffix(".json").read_text())["columns"]
    assert {columns[name] for name in SHAPE} == {"parameter"}
    assert {columns[name] for name in ("forward_s", "n_passes", "wall_time_s")} == {"measured"}


def test_models_see_the_shape_and_no_other_measurement(measured):
    seen, _ = read_dataset(measured).for_target("forward_s")
    assert set(seen.columns) == {*LAYER, "threads", *SHAPE, "forward_s"}
