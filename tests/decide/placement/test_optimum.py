"""Solvers in C: what they print does not get into results."""

import ctypes
import sys

from foretell.decide.placement.optimum import c_output_discarded


def test_what_c_prints_is_discarded_and_only_that(capfd):
    libc = ctypes.CDLL(None)
    sys.stdout.write("before\n")
    with c_output_discarded():
        libc.puts(b"noise")
    sys.stdout.write("after\n")
    libc.fflush(None)
    assert capfd.readouterr().out == "before\nafter\n"
