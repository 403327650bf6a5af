"""What is known of a cluster without one: whether its code is ours, and what Ray may lack."""

import subprocess
import sys
import textwrap

import pytest

from foretell.errors import UsageError
from foretell.executors.cluster import behavior, check_versions, code_digest

CODE = '''
"""A module."""
# A comment.
def double(x):
    """Double it."""
    return 2 * x if x in {"a", "b", "c"} else 2 * x
class Empty:
    """Nothing."""
'''


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Double it.", "Double what is given."),
        ("# A comment.", "\n\n# Another one,\n# of two lines."),
        ("    return 2 * x if", "    return (\n    2\n    * x) if"),
    ],
)
def test_comments_docstrings_and_layout_do_not_make_other_code(before, after):
    assert before in CODE
    assert behavior(CODE.replace(before, after)) == behavior(CODE)


@pytest.mark.parametrize(
    ("before", "after"),
    [("2 * x if", "3 * x if"), ("2 * x if", "2 + x if"), ('"c"', '"d"'), ("(x)", "(x, y=1)"),
     ("def double", "def triple")],
)  # fmt: skip
def test_what_changes_what_code_does_makes_other_code(before, after):
    assert before in CODE
    assert behavior(CODE.replace(before, after)) != behavior(CODE)


def test_the_same_code_has_the_same_digest_in_every_process(monkeypatch):
    monkeypatch.setenv("PYTHONHASHSEED", "7")  # sets are written in another order
    line = "from foretell.executors.cluster import code_digest; print(code_digest())"
    other = subprocess.run([sys.executable, "-c", line], capture_output=True, text=True, check=True)
    assert other.stdout.strip() == code_digest()


def test_a_node_with_other_versions_is_refused_by_its_name():
    here = {"foretell": "abc", "numpy": "2.0"}
    check_versions(here, {"a": {**here, "extra": "1"}})
    with pytest.raises(UsageError, match=r"node b .* has numpy 1\.9, and here it is 2\.0"):
        check_versions(here, {"a": here, "b": {"foretell": "abc", "numpy": "1.9"}})
    with pytest.raises(UsageError, match=r"node b .* does not have numpy"):
        check_versions(here, {"b": {"foretell": "abc"}})


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
        print("fine")
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False
    )
    assert run.stdout == "fine\n", run.stderr
