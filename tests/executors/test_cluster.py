"""What is known of a cluster without one: whether its versions are ours, and what Ray may lack."""

import subprocess
import sys
import textwrap

import pytest

from foretell.errors import UsageError
from foretell.executors.cluster import _node, check_versions
from foretell.machines import Resources


def test_a_node_with_other_versions_is_refused_by_its_name():
    here = {"foretell": "abc", "numpy": "2.0"}
    check_versions(here, {"a": {**here, "extra": "1"}})
    with pytest.raises(UsageError, match=r"node b .* has numpy 1\.9, and here it is 2\.0"):
        check_versions(here, {"a": here, "b": {"foretell": "abc", "numpy": "1.9"}})
    with pytest.raises(UsageError, match=r"node b .* does not have numpy"):
        check_versions(here, {"b": {"foretell": "abc"}})


def test_resources_named_like_those_of_ray_are_kept():
    own = {"GPU_A100": 2.0, "memory_fast": 3.0, "CPUs": 1.0, "accelerator_type:T4": 1.0}
    rays = {"CPU": 4.0, "GPU": 1.0, "memory": 1024.0, "object_store_memory": 512.0,
            "node:10.0.0.1": 1.0, "node:__internal_head__": 1.0}  # fmt: skip
    found = {"Resources": {**rays, **own}, "NodeName": "a", "NodeManagerAddress": "10.0.0.1"}
    capacity = _node(found).type.capacity
    assert capacity == Resources(cpus=4, gpus=1, memory_bytes=1024, custom=own)
    assert capacity.n_fitting(Resources(custom={"GPU_A100": 1})) == 2


def test_the_private_parts_of_ray_that_are_used_are_there_and_may_be_missing():
    """In a process of its own: importing Ray changes the environment."""
    pytest.importorskip("ray")
    code = """
        import logging, sys
        from ray._private import services, worker
        from foretell.executors import cluster
        assert callable(services.find_bootstrap_address), "the installed version must have it"
        assert callable(worker.print_to_stdstream), "the installed version must have it"
        cluster._keep_off_standard_output()
        seen = []
        logging.getLogger("ray").addHandler(logging.NullHandler())
        logging.getLogger("ray").warning = lambda text, *values: seen.append(text % values)
        worker.print_to_stdstream({"lines": ["a node", "is lost"]})
        assert seen == ["a node\\nis lost"], seen
        del worker.print_to_stdstream, services.find_bootstrap_address
        cluster._keep_off_standard_output()
        assert not hasattr(worker, "print_to_stdstream")
        assert cluster._running_here() is None
        sys.modules["ray._private"] = None  # as if it did not exist
        cluster._keep_off_standard_output()
        assert cluster._running_here() is None
        print("fine")
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False
    )
    assert run.stdout == "fine\n", run.stderr
