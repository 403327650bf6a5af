"""The hook in a loop: it sets, times and stores, and never stops a training."""

import contextlib
import logging
import threading

import optuna
import pytest
import torch

from foretell.errors import UsageError
from foretell.tune import open_store, pipeline
from foretell.tune.hook.clock import Clock
from foretell.tune.hook.context import RAY, Context
from foretell.tune.hook.start import make_pipeline
from foretell.tune.hook.steadiness import DISTURBED, VARYING, Steadiness
from foretell.tune.knobs.threads import ThreadsKnob

BOTH = {"threads": [1, 2]}


@pytest.fixture(autouse=True)
def two_threads(monkeypatch):
    """Every test starts with two threads, on a machine that others leave alone."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    monkeypatch.setattr("foretell.tune.hook.steadiness.MOST_LOAD", 99.0)
    yield
    torch.set_num_threads(before)


def test_every_epoch_is_seen_in_order_and_settings_are_put_back():
    knobs = pipeline("job", {"threads": [1]}, store=":memory:", strict=True)
    assert list(knobs.epochs(range(3, 6))) == [3, 4, 5]
    assert torch.get_num_threads() == 2


def test_a_training_that_was_complete_before_has_nothing_to_tell(caplog):
    knobs = pipeline("job", BOTH, store=":memory:", strict=True)
    assert list(knobs.epochs(range(5, 5))) == []
    assert caplog.records == []


def test_a_knob_that_breaks_leaves_a_training_alone(monkeypatch, caplog):
    monkeypatch.setattr(ThreadsKnob, "check", lambda knob, value: 1 / 0)
    knobs = pipeline("job", BOTH, store=":memory:")
    assert list(knobs.epochs(range(3))) == [0, 1, 2]
    assert "ZeroDivisionError" in caplog.text or "division" in caplog.text


def test_settings_are_put_back_after_a_break():
    knobs = pipeline("job", BOTH, store=":memory:", strict=True)
    for epoch in knobs.epochs(range(9)):
        torch.set_num_threads(1)
        if epoch == 2:
            break
    assert torch.get_num_threads() == 2


def test_settings_are_put_back_after_an_error_in_the_loop():
    def train():
        for _ in pipeline("job", BOTH, store=":memory:", strict=True).epochs(range(9)):
            torch.set_num_threads(1)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        train()
    assert torch.get_num_threads() == 2


def test_epochs_are_stored_with_hyperparameters_settings_and_phase(tmp_path):
    params = {"lr": 0.1, "data": [1, 2, 3], "name": "x" * 100}
    knobs = pipeline("job", {"threads": [2]}, params, store=tmp_path / "s", strict=True)
    for _ in knobs.epochs(range(3)):
        pass
    table = open_store(tmp_path / "s").epochs("job")
    assert list(table["phase"]) == ["warm-up", "steady", "steady"]
    assert [c for c in table if c.startswith("h.")] == ["h.lr"]
    assert list(table["s.threads"]) == [2, 2, 2]
    assert (table["epoch_s"] > 0).all()


def test_a_generator_without_a_length_is_trained_and_nothing_is_tried():
    knobs = pipeline("job", BOTH, store=":memory:", strict=True)
    assert list(knobs.epochs(iter("abc"))) == ["a", "b", "c"]
    assert knobs.reasons == []


def broken(*_):
    raise OSError("no such setting")


@pytest.mark.parametrize("method", ["apply", "read"])
def test_a_hook_that_fails_says_so_once_and_the_training_goes_on(monkeypatch, caplog, method):
    knobs = pipeline("job", BOTH, store=":memory:", objective="cost")
    monkeypatch.setattr(ThreadsKnob, method, broken)
    with caplog.at_level(logging.WARNING, "foretell.tune"):
        assert list(knobs.epochs(range(9))) == list(range(9))
    assert len(caplog.records) == 1
    assert knobs.is_aside


@pytest.mark.parametrize("mode", ["product", "paper"])
def test_a_training_keeps_to_the_cpus_that_its_search_has_set_aside(mode, monkeypatch):
    monkeypatch.setattr("foretell.tune.hook.policy.n_cores", lambda: 64)
    torch.set_num_threads(1)
    used = {}
    for lease in (1.0, 2.0, None):
        context = Context(RAY, "job", f"trial-{lease}", lease=lease)
        options = {"store": ":memory:", "strict": True, "mode": mode, "rungs": [400]}
        knobs = make_pipeline(context, {"threads": [1, 2, 4]}, options)
        used[lease] = {torch.get_num_threads() for _ in knobs.epochs(range(40))}
    assert used[1.0] == {1}
    assert used[2.0] <= {1, 2}


def test_a_knob_with_no_value_within_the_lease_is_said_not_to_be_tuned(monkeypatch):
    monkeypatch.setattr("foretell.tune.hook.policy.n_cores", lambda: 64)
    torch.set_num_threads(2)
    context = Context(RAY, "job", "trial", lease=1.0)
    knobs = make_pipeline(context, {"threads": [4, 8]}, {"store": ":memory:", "strict": True})
    list(knobs.epochs(range(2)))
    assert "threads is not tuned: each of its values takes more than the CPUs" in str(knobs)


def test_a_training_starts_within_the_cpus_that_its_search_has_set_aside(monkeypatch):
    monkeypatch.setattr("foretell.tune.hook.policy.n_cores", lambda: 64)
    torch.set_num_threads(4)
    context = Context(RAY, "job", "trial", lease=2.0)
    knobs = make_pipeline(context, {"threads": [1, 2, 4]}, {"store": ":memory:", "strict": True})
    assert next(torch.get_num_threads() for _ in knobs.epochs(range(2))) == 2
    torch.set_num_threads(1)


def test_a_hook_that_fails_stops_a_strict_training(monkeypatch):
    monkeypatch.setattr(Clock, "start", broken)
    with pytest.raises(OSError, match="no such setting"):
        list(pipeline("job", BOTH, store=":memory:", strict=True).epochs(range(4)))


def test_a_store_that_fails_in_the_middle_leaves_settings_alone(monkeypatch, caplog):
    store = open_store(":memory:")
    knobs = pipeline("job", {"threads": [1]}, store=store)
    seen = []
    for epoch in knobs.epochs(range(5)):
        seen.append(epoch)
        if epoch == 1:
            store.close()
    assert seen == [0, 1, 2, 3, 4]
    assert knobs.is_aside
    assert torch.get_num_threads() == 2
    assert len([r for r in caplog.records if r.name == "foretell.tune"]) == 1


@pytest.mark.parametrize(
    ("job", "settings", "options", "word"),
    [
        ("j", {"thread": [1]}, {}, "threads"),
        ("j", {}, {}, "knob"),
        ("j", {"threads": []}, {}, "list"),
        ("j", {"threads": 2}, {}, "list"),
        ("j", {"threads": [0]}, {}, "from 1 on"),
        ("j", {"threads": [1.5]}, {}, "whole"),
        ("j", {"workers": [-1]}, {}, "from 0 on"),
        ("", {"threads": [1]}, {}, "name"),
        (3, {"threads": [1]}, {}, "Optuna"),
        ("j", BOTH, {"objective": "speed"}, "throughput"),
        ("j", BOTH, {"mode": "papr"}, "paper"),
        ("j", BOTH, {"strickt": True}, "strict"),
        ("j", {"flush_denormal": [0, 1]}, {}, "changes_results=True"),
        ("j", {"workers": list(range(9)), "prefetch": list(range(1, 30))}, {}, "too many"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_told_before_the_first_epoch(job, settings, options, word, monkeypatch):
    monkeypatch.setattr("foretell.tune.hook.policy.n_cores", lambda: 64)
    with pytest.raises(UsageError, match=word):
        pipeline(job, settings, store=":memory:", **options)


def test_values_that_are_no_list_are_quoted_as_they_were_written():
    with pytest.raises(UsageError) as caught:
        pipeline("j", {"threads": [0, 1]}, store=":memory:")
    assert "[1, 2, 4]" not in str(caught.value)


def test_hyperparameters_and_epochs_of_another_kind_are_refused():
    with pytest.raises(UsageError, match="dict"):
        pipeline("j", {"threads": [1]}, params=[1], store=":memory:")
    knobs = pipeline("j", {"threads": [1]}, store=":memory:")
    with pytest.raises(UsageError, match=r"range\(3\), not 3"):
        list(knobs.epochs(3))


def test_knobs_that_change_results_are_used_if_that_is_allowed():
    knobs = pipeline("j", {"flush_denormal": [0, 1]}, store=":memory:", changes_results=True)
    assert list(knobs.epochs(range(2))) == [0, 1]


def test_two_trainings_in_one_process_leave_the_threads_of_the_process_alone(caplog):
    both, asides = threading.Barrier(2), []

    def train():
        knobs = pipeline("j", BOTH, store=":memory:")
        for _ in knobs.epochs(range(3)):
            both.wait()
        asides.append(knobs.is_aside)

    threads = [threading.Thread(target=train) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert any(asides)
    assert "another training" in caplog.text
    assert torch.get_num_threads() == 2


def test_a_training_that_failed_before_does_not_count_and_its_settings_are_put_back():
    def fail(knobs):
        epochs = knobs.epochs(range(9))
        for epoch in epochs:
            torch.set_num_threads(1)
            raise ZeroDivisionError(epoch)

    failed = pipeline("j", BOTH, store=":memory:", strict=True)
    with pytest.raises(ZeroDivisionError) as kept:  # its loop lives on in the traceback
        fail(failed)
    assert torch.get_num_threads() == 1
    knobs = pipeline("j", BOTH, store=":memory:", strict=True, rungs=[1])
    seen = [torch.get_num_threads() for _ in knobs.epochs(range(1))]
    assert seen == [2]
    assert not knobs.is_aside
    del kept


def test_optuna_with_several_jobs_in_a_process_has_its_threads_left_alone(caplog):
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    asides = []

    def objective(trial):
        lr = trial.suggest_float("lr", 0, 1)
        knobs = pipeline(trial, BOTH, store=":memory:")
        for _ in knobs.epochs(range(4)):
            asides.append(knobs.is_aside)
        return lr

    optuna.create_study().optimize(objective, n_trials=4, n_jobs=2)
    assert asides == [True] * 16
    assert "n_jobs" in caplog.text


def test_optuna_with_several_jobs_stops_a_strict_training():
    optuna.logging.set_verbosity(optuna.logging.CRITICAL)

    def objective(trial):
        pipeline(trial, BOTH, store=":memory:", strict=True)
        return 0.0

    study = optuna.create_study()
    study.optimize(objective, n_trials=2, n_jobs=2, catch=Exception)
    assert {t.state for t in study.trials} == {optuna.trial.TrialState.FAIL}


def test_trials_of_optuna_are_detected_and_pruned_epochs_are_stored(monkeypatch):
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    monkeypatch.setattr("foretell.tune.hook.steadiness._MOST_VARIATION", 1e9)
    store = open_store(":memory:")

    def objective(trial):
        lr = trial.suggest_float("lr", 0, 1)
        for epoch in pipeline(trial, BOTH, store=store, strict=True).epochs(range(9)):
            trial.report(lr, epoch)
            if trial.should_prune():
                raise optuna.TrialPruned
        return lr

    pruner = optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=3)
    study = optuna.create_study(study_name="my-study", pruner=pruner)
    study.optimize(objective, n_trials=12)
    pruned = [t for t in study.trials if t.state == optuna.trial.TrialState.PRUNED]
    table = store.epochs("my-study")
    assert pruned
    for trial in study.trials:
        rows = table[table["trial"].str.startswith(f"my-study-{trial.number}-")]
        assert len(rows) == len(trial.intermediate_values)
        assert list(rows["h.lr"].unique()) == [trial.params["lr"]]


def test_rungs_come_from_the_pruner_of_optuna():
    from foretell.tune.hook.context import detect
    from foretell.tune.optuna import TimePruner

    def rungs(pruner):
        return detect(optuna.create_study(pruner=pruner).ask(), None).rungs

    # Optuna counts steps from 0, and compares trials at steps 2, 8 and 32.
    halving = optuna.pruners.SuccessiveHalvingPruner(min_resource=2, reduction_factor=4)
    assert rungs(halving)[:3] == (3, 9, 33)
    assert rungs(TimePruner(halving, deadline_s=60))[:3] == (3, 9, 33)
    late = optuna.pruners.SuccessiveHalvingPruner(2, 4, min_early_stopping_rate=1)
    assert rungs(late)[:2] == (9, 33)
    assert rungs(optuna.pruners.MedianPruner()) is None
    assert rungs(optuna.pruners.SuccessiveHalvingPruner()) is None
    assert rungs(optuna.pruners.HyperbandPruner()) is None
    assert rungs(optuna.pruners.HyperbandPruner(1, 9, reduction_factor=2.5)) is None


def test_rungs_are_those_of_the_bracket_into_which_hyperband_puts_a_trial():
    from foretell.tune.hook.context import detect

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(study_name="s", pruner=optuna.pruners.HyperbandPruner(1, 27, 3))
    firsts = set()
    for _ in range(12):
        trial = study.ask()
        met = [n for n in range(1, 27) if is_compared(study, trial, step=n - 1)]
        first = min(met, default=27)
        assert detect(trial, None).rungs[0] == first
        firsts.add(first)
        study.tell(trial, 1.0)
    assert {2, 4} <= firsts


def is_compared(study, trial, step):
    """Report a step; tell whether Optuna has compared the trial at a rung by then."""
    trial.report(1.0, step)
    trial.should_prune()
    return "completed_rung_0" in study.get_trials()[trial.number].system_attrs


class Odd(optuna.pruners.BasePruner):
    """A pruner of another package, of which nothing else can be asked."""

    def prune(self, study, trial):
        return False

    def __getattr__(self, name):
        raise RuntimeError("it is not there")


def test_a_pruner_or_a_storage_that_cannot_be_read_does_not_end_a_training(monkeypatch):
    study = optuna.create_study(study_name="s", pruner=Odd())
    knobs = pipeline(study.ask(), BOTH, store=":memory:")
    assert (knobs._context.job, knobs._context.rungs) == ("s", None)
    trial = study.ask()
    monkeypatch.setattr(optuna.Study, "study_name", property(broken), raising=False)
    knobs = pipeline(trial, BOTH, store=":memory:")
    assert list(knobs.epochs(range(3))) == [0, 1, 2]
    assert (knobs._context.job, knobs.is_aside) == ("optuna", False)


def test_a_training_can_leave_while_another_one_tells_its_store(monkeypatch):
    first = pipeline("first", {"prefetch": [2]}, store=":memory:", strict=True)
    epochs, has_left = first.epochs(range(2)), []
    next(epochs)

    def enter(store, *args):
        leaving = threading.Thread(target=first.leave, daemon=True)
        leaving.start()
        leaving.join(timeout=20)  # it takes no time, unless both wait for one another
        has_left.append(not leaving.is_alive())

    monkeypatch.setattr("foretell.tune.store.Store.enter", enter)
    second = pipeline("second", {"prefetch": [2]}, store=":memory:", strict=True)
    thread = threading.Thread(target=lambda: list(second.epochs(range(1))))
    thread.start()
    thread.join()
    assert has_left
    assert all(has_left)


def leave_in_a_probe(store, error=None, before=lambda: None):
    """Leave a training in the epoch that tries another setting: by a break, or by an error."""
    knobs = pipeline("job", BOTH, store=store, strict=True)
    for epoch in knobs.epochs(range(9)):
        if epoch == 1:
            assert "trying threads=1" in knobs.reasons[-1][1]
            before()
            if error is None:
                break
            raise error


@pytest.mark.parametrize("error", [None, KeyboardInterrupt, ZeroDivisionError])
def test_a_probe_that_is_left_by_a_break_or_an_error_of_the_user_counts_for_nothing(error):
    store = open_store(":memory:")
    for _ in range(2):
        with contextlib.suppress(KeyboardInterrupt, ZeroDivisionError):
            leave_in_a_probe(store, error and error())
    assert store.infeasible("job", "new") == []


def test_an_error_that_was_kept_and_not_raised_counts_for_nothing():
    kept = [MemoryError("of another day"), {"last": RuntimeError("out of memory")}]
    store = open_store(":memory:")
    for _ in range(2):
        leave_in_a_probe(store)
    assert len(kept) == 2
    assert store.infeasible("job", "new") == []


@pytest.mark.parametrize(
    ("kind", "words"),
    [(MemoryError, ""), (RuntimeError, "DefaultCPUAllocator: can't allocate memory")],
)
def test_a_probe_that_runs_out_of_memory_counts_and_the_setting_is_named(kind, words):
    store = open_store(":memory:")
    for _ in range(2):
        with contextlib.suppress(kind):
            leave_in_a_probe(store, kind(words))
    assert store.infeasible("job", "new") == [{"threads": 1}]
    knobs = pipeline("job", BOTH, store=store, strict=True)
    assert {torch.get_num_threads() for _ in knobs.epochs(range(9))} == {2}
    assert "threads=1 is not tried" in str(knobs)


def test_a_probe_in_which_memory_of_the_gpu_runs_out_counts(monkeypatch):
    counts = {"num_ooms": 1}

    def fail():
        counts["num_ooms"] += 1

    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "memory_stats", lambda: counts)
    store = open_store(":memory:")
    for _ in range(2):
        with contextlib.suppress(ZeroDivisionError):
            leave_in_a_probe(store, ZeroDivisionError(), before=fail)
    assert store.infeasible("job", "new") == [{"threads": 1}]


def test_trainings_of_one_process_count_as_side_by_side(monkeypatch):
    monkeypatch.setattr("foretell.tune.hook.steadiness._MOST_VARIATION", 1e9)
    store, running = open_store(":memory:"), []

    def train(name):
        list(pipeline(name, {"prefetch": [2]}, store=store, strict=True).epochs(range(2)))

    for epoch in pipeline("outer", {"prefetch": [2]}, store=store, strict=True).epochs(range(3)):
        if epoch == 1:
            thread = threading.Thread(target=train, args=["inner"])
            thread.start()
            thread.join()
        running.append(len(store.trainings()))
    assert list(store.epochs("inner")["n_siblings"]) == [1, 1]
    assert list(store.epochs("outer")["n_siblings"]) == [0, 0, 0]
    assert running == [1, 1, 1]
    assert store.trainings() == []


def test_flushing_of_denormal_numbers_is_read_as_it_is_and_put_back():
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor cannot")
    try:
        settings = {"flush_denormal": [0, 1]}
        knobs = pipeline("j", settings, store=":memory:", changes_results=True, strict=True)
        assert [knobs.setting for _ in knobs.epochs(range(2))] == [{"flush_denormal": 1}] * 2
        torch.set_flush_denormal(False)
        assert knobs.setting == {"flush_denormal": 0}
    finally:
        torch.set_flush_denormal(False)


def measured(seconds, load=0.0):
    from foretell.tune.hook.clock import Measured

    return Measured(seconds, seconds, load, 0)


def test_epochs_that_vary_wildly_or_were_disturbed_are_not_kept(monkeypatch):
    from foretell.tune.hook.policy import Choice, Moment

    monkeypatch.undo()
    choice, moment = Choice({"threads": 1}, "steady"), Moment(3, 9, 6, False, False)
    found = Steadiness()
    for seconds in (1.0, 1.05, 0.98):
        assert found.refusal(choice, moment, measured(seconds)) is None
        found.add(choice, moment, measured(seconds))
    assert found.refusal(choice, moment, measured(1.25)) == VARYING
    assert found.refusal(choice, moment, measured(0.75)) == VARYING
    assert found.refusal(choice, moment, measured(1.15)) is None
    assert found.refusal(choice, moment, measured(1.0, load=0.31)) == DISTURBED
    assert found.refusal(choice, moment, measured(1.0, load=0.29)) is None


def test_epochs_that_are_not_stored_are_told_with_the_reason(monkeypatch):
    monkeypatch.setattr(Clock, "read", lambda _: measured(1.0, load=1.5))
    monkeypatch.setattr("foretell.tune.hook.steadiness.MOST_LOAD", 0.3)
    with open_store(":memory:") as store:
        knobs = pipeline("job", {"threads": [2]}, store=store, strict=True)
        assert list(knobs.epochs(range(4))) == [0, 1, 2, 3]
        assert store.n_rows("job") == 0
    assert "left out of the store: 4 epochs" in str(knobs)
    assert DISTURBED in str(knobs)


def test_a_thread_of_its_own_may_train():
    done = []

    def work():
        done.extend(pipeline("j", BOTH, store=":memory:", strict=True).epochs(range(3)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [0, 1, 2]
