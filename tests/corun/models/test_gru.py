"""The sequence-to-sequence model: numpy says what PyTorch says, and it learns what it can."""

import numpy as np
import pytest

from foretell.corun.models.cases import read_measurement
from foretell.corun.models.gru.convolutions import ConvolutionModel
from foretell.corun.models.gru.model import GruModel
from foretell.corun.models.gru.nearest import NearestTrace
from foretell.corun.models.gru.network import (
    ARGMAX,
    CROSSING,
    EOS,
    HIDDEN,
    Output,
    check_arrays,
    end_step,
    run,
)
from foretell.corun.models.gru.sequences import HORIZON, STEPS, sequence_of, target_of
from foretell.corun.models.gru.train import (
    Data,
    GruOptions,
    Training,
    masked,
    train_network,
)

from ..jobs import made_up_machine
from ..measured import make_measurement

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    folder = make_measurement(tmp_path_factory.mktemp("gru") / "measured")
    return read_measurement(folder, made_up_machine()).cases


@pytest.fixture(scope="module")
def pairs(cases):
    return [case for case in cases if case.kind == "pair"]


def test_numpy_says_what_pytorch_says(pairs):
    options = GruOptions(epochs=1)
    data = Data(pairs, options)
    training = Training(data, options)
    arrays = check_arrays({**training._state(), "center": data.center, "scale": data.scale})
    with torch.no_grad():
        metrics, completion, eos = training._decode(torch.tensor([0]), 0.0)
    found = run(arrays, sequence_of(pairs[0], 0).inputs)
    assert found.metrics == pytest.approx(metrics[0].numpy(), abs=1e-4)
    assert found.completion == pytest.approx(completion[0].numpy(), abs=1e-4)
    assert found.eos == pytest.approx(eos[0].numpy(), abs=1e-4)


def test_completion_grows_and_ends_are_those_that_were_measured(cases):
    for case in cases:
        target = target_of(case, 0)
        assert (np.diff(target.completion, axis=0) >= -1e-12).all()
        begin = min(job.start_s for job in case.jobs)
        end = case.jobs[0].start_s + case.walls_s[0] - begin
        assert target.ends[0] * sequence_of(case, 0).step_s == pytest.approx(end)


def test_a_shift_is_leading_zeros_and_a_running_job_begins_with_what_is_done(cases):
    shifted = next(case for case in cases if case.kind == "shifted")
    alive = sequence_of(shifted, 1).inputs[:, 4]
    n_zero = int(shifted.jobs[1].start_s / sequence_of(shifted, 1).step_s)
    assert (alive[: n_zero - 1] == 0).all()
    assert alive[n_zero + 1] == 1
    running = next(case for case in cases if case.kind == "running")
    assert sequence_of(running, 0).inputs[0, 3] >= running.jobs[0].progress


@pytest.mark.parametrize("kind", [GruModel, ConvolutionModel])
def test_it_learns_pairs_that_follow_a_rule(pairs, kind):
    model = kind(GruOptions(epochs=25))
    model.fit(pairs)
    errors = [
        abs(predicted / measured - 1)
        for case in pairs
        for predicted, measured in zip(model.predict(case), case.walls_s, strict=True)
    ]
    worst = [abs(case.alone_s(k) / case.walls_s[k] - 1) for case in pairs for k in range(2)]
    assert np.mean(errors) < np.mean(worst)


def test_a_network_of_one_metric_sees_no_other(pairs):
    inputs = sequence_of(pairs[-1], 0).inputs
    seen = masked(inputs, GruOptions(metric=1, has_completion=False))
    kept = [1, 4, 6, 9]  # threads, and whether they run, of both
    assert (seen[:, kept] == inputs[:, kept]).all()
    assert not seen[:, [k for k in range(10) if k not in kept]].any()


def test_the_same_seed_gives_the_same_network(pairs):
    one, two = (train_network(pairs[:4], GruOptions(epochs=2)) for _ in range(2))
    assert all((one[name] == two[name]).all() for name in one)


def straight(slope, eos_at=30):
    steps = np.arange(1, HORIZON * STEPS + 1)
    completion = np.array([slope * steps, 0.5 * slope * steps]).T
    return Output(np.zeros((len(steps), 3)), completion, (steps >= eos_at).astype(float))


def test_rules_stop_where_they_should():
    assert end_step(straight(0.05), CROSSING)[0] == pytest.approx(19.9)
    assert end_step(straight(0.05), EOS) == (30.0, True)
    assert end_step(straight(0.05), ARGMAX)[0] == pytest.approx(40.0)
    # A horizon that is too short: the last tenth goes on, and that is told.
    end, is_reached = end_step(straight(0.01), CROSSING)
    assert (end, is_reached) == (pytest.approx(99.5), False)


def test_arrays_of_a_file_are_checked():
    arrays = {"encoder.weight_ih_l0": np.zeros((3 * HIDDEN, 2))}
    with pytest.raises(ValueError, match="other parts"):
        check_arrays(arrays)


def test_a_network_is_kept_as_plain_arrays_and_used_by_its_weight(pairs, tmp_path):
    from foretell.corun.calibration import Calibration
    from foretell.corun.facts import MachineFacts
    from foretell.corun.models.fitted import FittedCoRuns, read_fitted
    from foretell.corun.predict import predict_together

    from ..jobs import FACTS, made_up

    network = train_network(pairs[:4], GruOptions(epochs=1))
    calibration = Calibration({"pair": (0.0,) * 10}, "")
    ends = {}
    for weight in (0.0, 0.5, 1.0):
        fitted = FittedCoRuns(
            calibration, None, MachineFacts(**FACTS), network=network, gru_weights={"pair": weight}
        )
        path = tmp_path / f"{weight}.corun"
        path.write_bytes(fitted.to_bytes())
        again = read_fitted(path)
        assert all((again.network[name] == network[name]).all() for name in network)
        jobs = [made_up("a"), made_up("b", cores=2.0)]
        found = predict_together(jobs, machine=made_up_machine(), model=path)
        ends[weight] = found["a"].end_s
        later = predict_together(jobs, starts={"b": 1.0}, machine=made_up_machine(), model=path)
        fluid = predict_together(jobs, starts={"b": 1.0}, machine=made_up_machine())
        assert later["a"].end_s == fluid["a"].end_s  # it won for pairs, and for nothing else
    plain = predict_together(jobs, machine=made_up_machine())
    assert ends[0.0] == plain["a"].end_s
    if min(ends.values()) > plain["a"].alone_s * (1 + 1e-9):
        assert ends[0.5] == pytest.approx((ends[0.0] * ends[1.0]) ** 0.5)


def test_the_nearest_trace_of_a_known_pair_is_its_own(pairs):
    model = NearestTrace()
    assert model.predict(pairs[0]) == [pairs[0].alone_s(0), pairs[0].alone_s(1)]
    model.fit(pairs)
    for case in pairs:
        assert model.predict(case) == pytest.approx(list(case.walls_s))
