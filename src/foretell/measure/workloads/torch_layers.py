"""The torch_layers workload: the time of one convolution of VGG16 or VGG19 on the CPU."""

from __future__ import annotations

import importlib.util
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import pydantic

from foretell.errors import UsageError, suggest
from foretell.machines import Needs, Resources
from foretell.measure.workloads._base import Numbers, Options, Watch, Workload
from foretell.spaces.values import Scalar

#: Output channels of the convolutions, by block; a pooling layer ends each block and halves the
#: image (Simonyan and Zisserman, 2015, configurations D and E).
NETWORKS = {
    "vgg16": ((64,) * 2, (128,) * 2, (256,) * 3, (512,) * 3, (512,) * 3),
    "vgg19": ((64,) * 2, (128,) * 2, (256,) * 4, (512,) * 4, (512,) * 4),
}
IMAGE_CHANNELS = 3
FILTER_SIZE = 3

_NEEDED = ("network", "layer", "image_size", "batch_size")
_NAMES = (*_NEEDED, "threads")


@dataclass(frozen=True)
class Layer:
    """One convolution; its input and its output have the same size, as the filter is padded."""

    input_channels: int
    output_channels: int
    spatial_size: int

    def flops(self, batch_size: int) -> int:
        """Return the floating-point operations of a pass: two for each weight and pixel."""
        n_weights = FILTER_SIZE**2 * self.input_channels * self.output_channels
        return 2 * n_weights * self.spatial_size**2 * batch_size


def layers(network: str, image_size: int) -> list[Layer]:
    """List the convolutions of a network for images of a size, first to last.

    >>> len(layers("vgg16", 224)), layers("vgg16", 224)[2]
    (13, Layer(input_channels=64, output_channels=128, spatial_size=112))
    """
    found = []
    channels = IMAGE_CHANNELS
    for n_pooled, block in enumerate(NETWORKS[network]):
        for output_channels in block:
            found.append(Layer(channels, output_channels, image_size // 2**n_pooled))
            channels = output_channels
    return found


class TorchLayersOptions(Options):
    """How long a layer is measured.

    Attributes
    ----------
    warm_up_passes
        Passes before, which are not measured: the first ones are slower.
    least_passes
        Passes that are timed at least, however long they take.
    budget_s
        Seconds to go on timing passes.
    """

    warm_up_passes: Annotated[int, pydantic.Field(ge=0)] = 2
    least_passes: Annotated[int, pydantic.Field(ge=1)] = 3
    budget_s: Annotated[float, pydantic.Field(ge=0, allow_inf_nan=False)] = 0.2


class TorchLayersWorkload(Workload):
    """Run one convolution forward, with random weights and images, several times.

    All runs share a process, for importing torch takes longer than most layers.
    """

    options: TorchLayersOptions
    options_class = TorchLayersOptions
    shares_process = True
    times_itself = True

    def check(self, names: Sequence[str]) -> None:
        """Refuse parameters that a layer does not have."""
        for name in names:
            if name not in _NAMES:
                raise UsageError(
                    f"parameters.{name}: torch_layers has no such parameter. "
                    f"{suggest(name, _NAMES)}"
                )
        for name in _NEEDED:
            if name not in names:
                raise UsageError(f"parameters: torch_layers needs '{name}'; add it")
        if importlib.util.find_spec("torch") is None:  # not imported: that takes seconds
            raise UsageError(
                "workload.use: torch_layers needs torch, which is not installed: "
                "pip install 'foretell[torch]'"
            )

    def derived(self, configuration: Mapping[str, Any]) -> dict[str, Scalar]:
        """Describe the layer: models learn from its shape, not from its number."""
        layer = _layer(configuration)
        return {
            "filter_height": FILTER_SIZE,
            "filter_width": FILTER_SIZE,
            "input_channels": layer.input_channels,
            "output_channels": layer.output_channels,
            "spatial_size": layer.spatial_size,
            "flops": layer.flops(configuration["batch_size"]),
        }

    def needs(self, configuration: Mapping[str, Any]) -> Needs:
        """Ask for one core per thread."""
        return Needs(Resources(cpus=configuration.get("threads", 1)))

    def run(self, configuration: Mapping[str, Any], watch: Watch) -> Numbers:
        """Time passes of the layer; the median pass is the stage ``forward``."""
        import torch

        layer = _layer(configuration)
        if "threads" in configuration:
            torch.set_num_threads(configuration["threads"])
        with torch.inference_mode():
            forward = _pass(layer, configuration["batch_size"])
            for _ in range(self.options.warm_up_passes):
                forward()
            with watch.job():
                times_s = self._timed(forward)
        watch.add("forward", statistics.median(times_s))
        return {"n_passes": len(times_s)}

    def _timed(self, forward: Callable[[], Any]) -> list[float]:
        times_s: list[float] = []
        started = now = time.perf_counter()
        while len(times_s) < self.options.least_passes or now - started < self.options.budget_s:
            before = now
            forward()
            now = time.perf_counter()
            times_s.append(now - before)
        return times_s


def _pass(layer: Layer, batch_size: int) -> Callable[[], Any]:
    """Return a function that runs the layer once, as VGG does: convolution, then ReLU in place."""
    import torch

    torch.manual_seed(0)
    size = layer.spatial_size
    images = torch.rand(batch_size, layer.input_channels, size, size)
    convolution = torch.nn.Conv2d(
        layer.input_channels, layer.output_channels, FILTER_SIZE, padding=FILTER_SIZE // 2
    )
    network = torch.nn.Sequential(convolution, torch.nn.ReLU(inplace=True)).eval()
    return lambda: network(images)


def _layer(configuration: Mapping[str, Any]) -> Layer:
    """Return the layer of a run, or raise a UsageError if there is none."""
    network = configuration["network"]
    if network not in NETWORKS:
        raise UsageError(
            f"parameters.network: must be one of {', '.join(NETWORKS)}, not {network!r}"
        )
    for name in _NAMES[1:]:
        value = configuration.get(name, 1)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise UsageError(f"parameters.{name}: must be a positive whole number, not {value!r}")
    found = layers(network, configuration["image_size"])
    number: int = configuration["layer"]
    if number > len(found):
        raise UsageError(
            f"parameters.layer: {network} has the convolutions 1 to {len(found)}, and no {number}. "
            f"Leave it out: exclude = [\"network == '{network}' and layer > {len(found)}\"]"
        )
    if found[number - 1].spatial_size < 1:
        raise UsageError(
            f"parameters.image_size: nothing is left of an image of {configuration['image_size']} "
            f"pixels at layer {number} of {network}; take 16 or more"
        )
    return found[number - 1]
