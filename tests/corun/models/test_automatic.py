"""The residual by automatic mode: it finds what the fluid model leaves over, and no more."""

import pytest

from foretell.corun.models.automatic import AutomaticResidual
from foretell.corun.models.cases import read_measurement
from foretell.corun.models.residual import fluid_times

from ..jobs import made_up_machine
from ..measured import make_measurement


def test_a_factor_on_all_times_is_found_but_none_that_would_take_over(tmp_path):
    for factor, expected in ((1.2, 1.2), (3.0, 1.65)):
        folder = make_measurement(tmp_path / str(factor), factor=factor)
        cases = read_measurement(folder, made_up_machine()).cases
        model = AutomaticResidual()
        model.fit([case for case in cases if case.kind == "pair"])
        triple = next(case for case in cases if case.kind == "triple")
        found = [t / f for t, f in zip(model.predict(triple), fluid_times(triple), strict=True)]
        assert found == pytest.approx([expected] * 3, rel=0.02)
