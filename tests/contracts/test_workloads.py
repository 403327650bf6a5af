"""Every workload keeps the contract, on a run that takes seconds."""

from __future__ import annotations

import pytest

from foretell.measure.workloads import WORKLOADS
from foretell.testing import check_workload

LAYER = {"network": "vgg16", "layer": 2, "image_size": 32, "batch_size": 1}
#: A table and a configuration for each.
EXAMPLES = {
    "command": ({"run": "echo {n}", "extract": {"seen": r"(\d+)"}}, {"n": 3}),
    "python": ({"call": "job:work"}, {"n": 3}),
    "ray_train": ({"launcher": "actors"}, {"num_images": 100, "workers": 1}),
    "torch_layers": ({"budget_s": 0.0}, LAYER),
}
EXTRAS = {"ray_train": ["ray", "torch"], "torch_layers": ["torch"]}


@pytest.mark.parametrize("name", WORKLOADS.names())
def test_workload_keeps_its_contract(name, tmp_path):
    for module in EXTRAS.get(name, []):
        pytest.importorskip(module)
    (tmp_path / "job.py").write_text("def work(n):\n    return {'double': 2 * n}\n")
    table, configuration = EXAMPLES[name]
    check_workload({"use": name, **table}, configuration, tmp_path)


BROKEN = {
    "    def run(self, c, watch):\n        raise ValueError\n": "must succeed: ValueError",
    "    def run(self, c, watch):\n        pass\n    def derived(self, c):\n"
    "        return {'n': 1}\n": r"derived\(\) must not return \{'n'\}",
    "    def run(self, c, watch):\n        pass\n    def needs(self, c):\n"
    "        return 3\n": "must return Needs",
    "    def run(self, c, watch):\n        return {'n_cycles': 1}\n": "reports 'n_cycles'",
}


@pytest.mark.parametrize(("body", "words"), BROKEN.items(), ids=list(BROKEN.values()))
def test_a_broken_workload_is_told(body, words, tmp_path):
    name = f"broken_{abs(hash(body))}"
    head = "from foretell.measure.workloads import Workload\nclass Broken(Workload):\n"
    (tmp_path / f"{name}.py").write_text(head + body)
    with pytest.raises(AssertionError, match=words):
        check_workload({"use": f"{name}:Broken"}, {"n": 1}, tmp_path)
