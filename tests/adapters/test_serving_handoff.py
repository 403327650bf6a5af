"""Deployments for other systems: each file is read by the parser of that system."""

import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from foretell.adapters.serving_handoff import hand_off_deployment
from foretell.decide.deployment.question import Choice, Question
from foretell.decide.deployment.scenario import read_scenario
from foretell.decide.deployment.settings import Choices, Figures, Setting
from foretell.deploy.answer import Deployment
from foretell.deploy.measuring import Measured
from foretell.deploy.network import Network
from foretell.errors import UsageError

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
TOOLS = Path(
    os.environ.get("FORETELL_SERVING_TOOLS") or CACHE / "foretell/serving-tools/bin/python"
)
DESCRIPTION = {"output_shape": [10], "output_dtype": "float32", "graph": "", "torch": ""}


def deployment(batch=8, wait_s=0.0035, threads=2, replicas=3, **network):
    setting = Setting(batch, wait_s, threads, replicas)
    question = Question(read_scenario("poisson:120/s"), Choices((1, 8), (1, 2)), 0.05)
    figures = Figures(0.011, 0.031, 120.0, 0.4, 2.5, 0.004)
    choice = Choice(setting, figures, (0.028, 0.035), 190.0, ())
    known = Network("examples/net.py:build_net", (1, 28, 28), **network)
    description = {**DESCRIPTION, **network.pop("description", {})}
    return Deployment(known, question, choice, Measured(), description, None, 0)


def tool(code, text):
    """Run a parser of another system on a text, in the environment that has it."""
    if not TOOLS.exists():
        pytest.skip("the parsers are not installed; tests/install-serving-tools installs them")
    done = subprocess.run(
        [str(TOOLS), "-W", "ignore", "-c", code],
        input=text, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": "", "RAY_DISABLE_IMPORT_WARNING": "1"},
    )  # fmt: skip
    if "ModuleNotFoundError" in done.stderr:
        pytest.skip(f"{TOOLS} lacks a parser: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


TRITON = """
import json, sys
from google.protobuf import json_format, text_format
from tritonclient.grpc import model_config_pb2
config = text_format.Parse(sys.stdin.read(), model_config_pb2.ModelConfig())
print(json.dumps(json_format.MessageToDict(config, preserving_proto_field_name=True)))
"""


def test_triton_reads_the_configuration():
    read = tool(TRITON, hand_off_deployment(deployment(), "triton"))
    assert read["name"] == "build_net"
    assert read["max_batch_size"] == 8
    assert int(read["dynamic_batching"]["max_queue_delay_microseconds"]) == 3500
    assert read["instance_group"] == [{"count": 3, "kind": "KIND_CPU"}]
    assert read["input"][0]["dims"] == ["1", "28", "28"]
    assert read["input"][0]["data_type"] == "TYPE_FP32"
    assert read["output"][0]["dims"] == ["10"]
    assert read["parameters"]["INTRA_OP_THREAD_COUNT"] == {"string_value": "2"}


def test_triton_has_no_dynamic_batching_without_batches_and_knows_indices():
    read = tool(
        TRITON, hand_off_deployment(deployment(batch=1, wait_s=0.0, dtype="int64:9"), "triton")
    )
    assert "dynamic_batching" not in read
    assert read["input"][0]["data_type"] == "TYPE_INT64"


BENTOML = """
import json, sys, types
torch = types.ModuleType("torch")
sys.modules["torch"] = torch
space = {"__name__": "service"}
exec(compile(sys.stdin.read(), "service.py", "exec"), space)
service = space["BuildNetService"]
api = service.apis["predict"]
print(json.dumps({
    "workers": service.config["workers"], "cpu": service.config["resources"]["cpu"],
    "batchable": api.batchable, "batch": api.max_batch_size, "latency_ms": api.max_latency_ms,
}))
"""


def test_bentoml_takes_the_service():
    read = tool(BENTOML, hand_off_deployment(deployment(), "bentoml"))
    assert read == {
        "workers": 3, "cpu": "6", "batchable": True, "batch": 8, "latency_ms": 50,
    }  # fmt: skip


def test_bentoml_takes_a_service_without_batches():
    read = tool(BENTOML, hand_off_deployment(deployment(batch=1), "bentoml"))
    assert read["batchable"] is False


FILE = """
import torch
from torch import nn

class Two(nn.Module):
    def forward(self, x):
        return x.bfloat16(), x.sum()

def build():
    return Two()
"""


def test_a_service_for_bentoml_runs_a_network_of_any_file_that_returns_a_tuple(
    tmp_path, monkeypatch
):
    torch = pytest.importorskip("torch")
    called = []
    monkeypatch.setattr(
        torch, "set_num_threads", lambda n: called.append((n, threading.current_thread()))
    )
    bentoml = ModuleType("bentoml")
    bentoml.service = bentoml.api = lambda **settings: lambda made: made
    monkeypatch.setitem(sys.modules, "bentoml", bentoml)
    (tmp_path / "le-net.py").write_text(FILE)
    found = replace(
        deployment(),
        network=Network(f"{tmp_path}/le-net.py:build", (4,)),
        description={**DESCRIPTION, "output_dtype": "bfloat16"},
    )
    space = {"__name__": "service", "__file__": str(tmp_path / "service.py")}
    exec(compile(hand_off_deployment(found, "bentoml"), "service.py", "exec"), space)
    samples = np.arange(8.0).reshape(2, 4)
    service = space["BuildService"]()
    with ThreadPoolExecutor(1) as pool:  # BentoML calls it in a thread of its own, too
        assert np.array_equal(pool.submit(service.predict, samples).result(), samples)
        assert called == [(2, pool.submit(threading.current_thread).result())]


RAY_SERVE = """
import json, sys
import yaml
from ray.serve.schema import ServeDeploySchema
read = ServeDeploySchema.parse_obj(yaml.safe_load(sys.stdin.read()))
print(read.json(exclude_unset=True))
"""


def test_ray_serve_reads_the_configuration():
    read = tool(RAY_SERVE, hand_off_deployment(deployment(), "ray-serve"))
    [application] = read["applications"]
    [own] = application["deployments"]
    assert own["num_replicas"] == 3
    assert own["ray_actor_options"]["num_cpus"] == 2
    assert own["user_config"] == {
        "max_batch_size": 8, "batch_wait_timeout_s": 0.0035, "threads": 2,
    }  # fmt: skip


def test_json_has_the_whole_answer():
    read = json.loads(hand_off_deployment(deployment(), "json"))
    assert read["setting"] == {"batch": 8, "wait_s": 0.0035, "threads": 2, "replicas": 3}


def test_every_form_says_what_was_predicted():
    for form in ("triton", "bentoml", "ray-serve"):
        text = hand_off_deployment(deployment(), form)
        assert "p99 31 ms" in text
        assert "simulated" in text


def test_unknown_forms_get_the_nearest_name():
    with pytest.raises(UsageError, match="Did you mean 'triton'"):
        hand_off_deployment(deployment(), "tritn")
