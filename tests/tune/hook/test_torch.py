"""A real training with Torch: the learning curve stays, loaders keep their order."""

import gc
import multiprocessing
import threading
import weakref

import pytest
import torch
from sklearn.datasets import load_digits

from foretell.tune import open_store, pipeline
from foretell.tune.hook.loader import changes_results
from foretell.tune.store import EpochRow


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    monkeypatch.setattr("foretell.tune.hook.steadiness.MOST_LOAD", 99.0)
    yield
    torch.set_num_threads(before)


def digits():
    data = load_digits()
    x = torch.tensor(data.data, dtype=torch.float32) / 16
    return torch.utils.data.TensorDataset(x.reshape(-1, 1, 8, 8), torch.tensor(data.target))


def network():
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Dropout(0.2), nn.Flatten(), nn.Linear(288, 64), nn.ReLU(),
        nn.Linear(64, 10),
    )  # fmt: skip


def curve(epochs_of, make_loader=torch.utils.data.DataLoader, n_epochs=5):
    """Train on 160 digits; return the loss after each epoch."""
    torch.manual_seed(7)
    data, model = torch.utils.data.Subset(digits(), range(160)), network()
    loader = make_loader(data, batch_size=32, shuffle=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for _ in epochs_of(range(n_epochs)):
        total = 0.0
        for x, y in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            total += loss.item() * len(y)
        losses.append(total / 160)
    return losses


@pytest.mark.parametrize("mode", ["product", "paper"])
def test_the_learning_curve_is_the_same_as_without_the_hook(mode):
    knobs = pipeline("cnn", {"threads": [1, 2]}, store=":memory:", strict=True, mode=mode,
                     objective="cost")  # fmt: skip
    tuned = curve(knobs.epochs)
    assert tuned == pytest.approx(curve(lambda epochs: epochs), abs=1e-3)
    assert any("threads=1" in why for _, why in knobs.reasons)  # something was changed on the way


def test_the_learning_curve_is_the_same_whatever_the_workers():
    knobs = pipeline("cnn", {"workers": [0, 1]}, store=":memory:", strict=True, rungs=[40])
    tuned = curve(knobs.epochs, knobs.loader, n_epochs=4)
    assert any("workers=1" in why for _, why in knobs.reasons)
    assert tuned == pytest.approx(curve(lambda epochs: epochs, n_epochs=4), abs=1e-3)


def test_a_loader_is_like_that_of_torch():
    knobs = pipeline("cnn", {"threads": [1]}, store=":memory:")
    loader = knobs.loader(digits(), batch_size=100, num_workers=0)
    assert len(loader) == 18
    assert loader.batch_size == 100
    assert sum(len(y) for _, y in loader) == 1797


def test_workers_start_from_what_a_loader_asks_for():
    store = open_store(":memory:")
    knobs = pipeline("cnn", {"workers": [0], "prefetch": [2]}, store=store, strict=True)
    loader = knobs.loader(digits(), batch_size=600, num_workers=1, prefetch_factor=3)
    assert (loader.num_workers, loader.prefetch_factor) == (1, 3)
    later = knobs.loader(digits(), batch_size=600, num_workers=0)
    used = [later.num_workers for _ in knobs.epochs(range(2))]  # too few to try anything
    assert used == [1, 1]
    assert list(store.epochs("cnn")["s.workers"]) == [1, 1]
    assert loader.num_workers == 1


def test_each_loader_has_its_own_workers_where_they_are_not_tuned():
    knobs = pipeline("cnn", {"workers": [0, 1]}, store=":memory:", strict=True)
    mine = knobs.loader(Mine(digits()), num_workers=2)
    other, third = knobs.loader(digits()), knobs.loader(digits(), num_workers=1)
    for _ in knobs.epochs(range(2)):
        assert [loader.num_workers for loader in (mine, other, third)] == [2, 0, 1]


def test_workers_are_not_tried_where_no_loader_would_have_them():
    """What an epoch takes then has other reasons, and would be held for those of the workers."""
    settings = {"workers": [0, 1, 2], "prefetch": [2, 4], "threads": [1, 2]}
    knobs = pipeline("cnn", settings, store=":memory:", strict=True, rungs=[40])
    for _ in knobs.epochs(range(12)):
        pass
    told = [why for _, why in knobs.reasons]
    assert sum("is not tuned: no loader was made with knobs.loader" in why for why in told) == 2
    assert not any("workers=1" in why or "workers=2" in why for why in told)


def test_each_loader_has_its_own_workers_once_settings_are_left_alone():
    knobs = pipeline("cnn", {"workers": [0, 1], "prefetch": [2, 4]}, store=":memory:")
    before = knobs.loader(digits())
    knobs.step_aside("of a test")
    after = knobs.loader(digits(), num_workers=1, prefetch_factor=3)
    assert (before.num_workers, after.num_workers, after.prefetch_factor) == (0, 1, 3)


@pytest.mark.parametrize("is_early", [True, False])
@pytest.mark.parametrize("more", [{"workers": [0, 1]}, {}])
def test_prefetch_is_not_tried_where_there_are_no_workers(more, is_early):
    settings = {**more, "prefetch": [2, 4]}
    knobs = pipeline("cnn", settings, store=":memory:", strict=True, rungs=[40])
    if is_early:
        knobs.loader(Mine(digits()))
    for _ in knobs.epochs(range(9)):
        knobs.loader(Mine(digits()))
    assert not any("trying" in why for _, why in knobs.reasons)
    assert str(knobs).count("prefetch is not tuned") == 1


def test_prefetch_is_tuned_where_a_loader_has_workers():
    knobs = pipeline("cnn", {"workers": [0, 1], "prefetch": [2, 4]}, store=":memory:", strict=True)
    for n in (0, 1):
        knobs.loader(Mine(digits()), num_workers=n)
    list(knobs.epochs(range(2)))
    assert "workers is not tuned" in str(knobs)
    assert "prefetch is not tuned" not in str(knobs)


def test_loaders_side_by_side_have_the_orders_of_torch():
    def batches(make_loader):
        torch.manual_seed(5)
        loaders = [make_loader(list(range(12)), batch_size=4, shuffle=True) for _ in range(2)]
        return [[batch.tolist() for batch in pair] for pair in zip(*loaders, strict=True)]

    knobs = pipeline("cnn", {"workers": [0]}, store=":memory:", strict=True)
    assert batches(knobs.loader) == batches(torch.utils.data.DataLoader)


class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter(range(3))


def test_a_stream_is_refused_because_every_worker_would_read_all_of_it():
    with pytest.raises(Exception, match="IterableDataset"):
        pipeline("cnn", {"workers": [0, 1]}, store=":memory:").loader(Stream())


def test_options_that_only_workers_have_are_left_out_where_there_are_none():
    knobs = pipeline("cnn", {"workers": [0, 1]}, store=":memory:", strict=True)
    loader = knobs.loader(
        digits(), batch_size=600, timeout=9, multiprocessing_context="fork", prefetch_factor=3
    )
    assert len(list(loader)) == 3


class Mine(torch.utils.data.Dataset):
    """A dataset of the user's own, which foretell cannot know."""

    def __init__(self, data):
        self.data = data

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        return self.data[index]


class Alone(Mine):
    def __getitem__(self, index):
        if torch.utils.data.get_worker_info() is not None:
            raise OSError("no workers, please")
        return self.data[index]


class Noisy(Mine):
    def __getitem__(self, index):
        x, y = self.data[index]
        return x + 0.1 * torch.rand(x.shape), y


def test_loaders_that_fail_under_a_value_go_on_with_the_one_before_and_it_is_given_up():
    store = open_store(":memory:")
    knobs = pipeline("cnn", {"workers": [0, 1]}, store=store, strict=True, rungs=[40],
                     changes_results=True)  # fmt: skip
    tuned = curve(knobs.epochs, lambda data, **options: knobs.loader(Alone(data), **options))
    assert tuned == pytest.approx(curve(lambda epochs: epochs), abs=1e-3)
    (given_up,) = [why for _, why in knobs.reasons if "given up" in why]
    assert "workers=1" in given_up
    assert "no workers, please" in given_up
    assert sum("trying" in why for _, why in knobs.reasons) == 1
    assert "no batch under its setting" in str(knobs)
    (trial,) = set(store.epochs("cnn")["trial"])
    assert store.infeasible("cnn", trial) == [{"workers": 1}]
    assert set(store.epochs("cnn")["s.workers"]) == {0}


def given_up(knobs, loaders, n_epochs=5):
    """Go through loaders side by side, of which some fail with workers; return all batches."""
    found = [
        [[batch.tolist() for batch in batches] for batches in zip(*loaders, strict=True)]
        for _ in knobs.epochs(range(n_epochs))
    ]
    assert sum("workers=1 is given up" in why for _, why in knobs.reasons) == 1
    return found


class Numbers(Alone):
    """The numbers from 0 to 11, in this process alone."""

    def __init__(self):
        super().__init__(list(range(12)))


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(
    "options",
    [
        lambda: {"sampler": torch.utils.data.RandomSampler(range(12), generator=seeded())},
        lambda: {"batch_sampler": torch.utils.data.BatchSampler(
            torch.utils.data.SubsetRandomSampler(range(12), generator=seeded()), 1, False)},
        lambda: {"shuffle": True, "generator": seeded()},
    ],
)  # fmt: skip
def test_after_a_loader_failed_its_order_is_that_of_torch_with_any_generator(options):
    knobs = pipeline("cnn", {"workers": [0, 1]}, store=":memory:", strict=True, rungs=[40],
                     changes_results=True)  # fmt: skip
    found = given_up(knobs, [knobs.loader(Numbers(), **options())])
    plain = torch.utils.data.DataLoader(Numbers(), **options())
    assert found == [[[batch.tolist()] for batch in plain] for _ in range(5)]


def test_loaders_side_by_side_that_fail_under_a_value_all_go_on_with_the_one_before():
    def loaders(make_loader):
        return [make_loader(Numbers(), shuffle=True, generator=seeded(n)) for n in range(2)]

    knobs = pipeline("cnn", {"workers": [0, 1]}, store=":memory:", strict=True, rungs=[40],
                     changes_results=True)  # fmt: skip
    found = given_up(knobs, loaders(knobs.loader))
    plain = loaders(torch.utils.data.DataLoader)
    assert found == [
        [[batch.tolist() for batch in pair] for pair in zip(*plain, strict=True)] for _ in range(5)
    ]


def test_a_dataset_that_cannot_be_sent_to_workers_stays_here():
    data = Numbers()
    data.lock = threading.Lock()  # cannot be pickled
    knobs = pipeline("cnn", {"workers": [0, 1]}, store=":memory:", strict=True, rungs=[40],
                     changes_results=True)  # fmt: skip
    loader = knobs.loader(data, shuffle=True, generator=seeded(), multiprocessing_context="spawn")
    plain = torch.utils.data.DataLoader(Numbers(), shuffle=True, generator=seeded())
    assert given_up(knobs, [loader]) == [[[batch.tolist()] for batch in plain] for _ in range(5)]


def test_workers_of_a_loader_that_failed_end_at_once():
    knobs = pipeline("cnn", {"workers": [0, 1]}, store=":memory:", strict=True, rungs=[40],
                     changes_results=True)  # fmt: skip
    loader, left = knobs.loader(Alone(digits()), batch_size=600), []
    gc.disable()
    try:
        for _ in knobs.epochs(range(9)):
            for _ in loader:
                left += multiprocessing.active_children()
    finally:
        gc.enable()
    assert "workers=1 is given up" in str(knobs)
    assert not left


@pytest.mark.parametrize("workers", [0, 1])
def test_loaders_side_by_side_keep_their_order_with_generators_of_their_own(workers):
    def batches(make_loader):
        loaders = [
            make_loader(list(range(12)), batch_size=4, shuffle=True,
                        generator=torch.Generator().manual_seed(seed), num_workers=workers)
            for seed in (0, 1)
        ]  # fmt: skip
        return [[batch.tolist() for batch in pair] for pair in zip(*loaders, strict=True)]

    plain = batches(lambda data, **options: torch.utils.data.DataLoader(
        data, **{**options, "num_workers": 0}
    ))  # fmt: skip
    knobs = pipeline("cnn", {"workers": [0, 1]}, store=":memory:", strict=True)
    assert batches(knobs.loader) == plain


def test_a_batch_that_was_used_is_let_go():
    batches = iter(pipeline("cnn", {"workers": [0]}, store=":memory:").loader(digits()))
    first = weakref.ref(next(batches)[0])
    next(batches)
    assert first() is None


def test_an_error_of_the_dataset_itself_reaches_the_loop_and_is_held_against_no_setting():
    class Broken(Mine):
        def __getitem__(self, index):
            raise LookupError("no such file")

    store = open_store(":memory:")
    knobs = pipeline("cnn", {"workers": [0, 1]}, store=store, rungs=[40], changes_results=True)
    loader = knobs.loader(Broken(digits()), batch_size=600)
    with pytest.raises(LookupError, match="no such file"):
        for epoch in knobs.epochs(range(9)):
            if epoch > 0:
                list(loader)
    assert any("trying workers=1" in why for _, why in knobs.reasons)
    assert store.infeasible("cnn", "new") == []


def test_workers_are_left_alone_where_the_dataset_may_draw_random_numbers():
    def noisy(make_loader):
        return lambda data, **options: make_loader(Noisy(data), **options)

    knobs = pipeline("cnn", {"workers": [0, 1]}, store=":memory:", strict=True, rungs=[40])
    tuned = curve(knobs.epochs, noisy(knobs.loader))
    plain = curve(lambda epochs: epochs, noisy(torch.utils.data.DataLoader))
    assert tuned == pytest.approx(plain, abs=1e-3)
    assert "workers is not tuned" in str(knobs)
    assert not any("trying" in why for _, why in knobs.reasons)
    allowed = pipeline("cnn", {"workers": [0, 1]}, store=":memory:", strict=True, rungs=[40],
                       changes_results=True)  # fmt: skip
    curve(allowed.epochs, noisy(allowed.loader), n_epochs=4)
    assert any("trying workers=1" in why for _, why in allowed.reasons)


def test_workers_that_persist_are_left_alone_and_the_learning_curve_stays():
    def with_worker(make_loader):
        return lambda data, **options: make_loader(
            data, num_workers=1, persistent_workers=True, **options
        )

    knobs = pipeline("cnn", {"workers": [0, 1]}, store=":memory:", strict=True, rungs=[40])
    tuned = curve(knobs.epochs, with_worker(knobs.loader))
    plain = curve(lambda epochs: epochs, with_worker(torch.utils.data.DataLoader))
    assert tuned == pytest.approx(plain, abs=1e-3)
    assert "workers is not tuned" in str(knobs)


def test_a_loader_made_within_the_loop_keeps_the_workers_of_a_dataset_that_is_not_known():
    store = open_store(":memory:")
    for trial in range(4):
        rows = [
            EpochRow("cnn", f"t{trial}", n, "steady", {}, {"workers": w}, 1.0 - 0.5 * w)
            for n, w in enumerate((0, 1))
        ]
        store.add_epochs(rows)
    knobs = pipeline("cnn", {"workers": [0, 1]}, store=store, strict=True)
    used = []
    for _ in knobs.epochs(range(3)):
        used.append(knobs.loader(Mine(digits()), batch_size=600).num_workers)
    assert used == [0, 0, 0]
    assert "a knob turned out to change results" in str(knobs)


@pytest.mark.parametrize(
    ("dataset", "options", "expected"),
    [
        ([1, 2], {}, set()),
        (torch.utils.data.Subset([1, 2], [0]), {"shuffle": True}, set()),
        (torch.utils.data.ConcatDataset([[1], [2]]), {}, set()),
        (torch.utils.data.ConcatDataset([[1], Mine([2])]), {}, {"workers"}),
        ([1, 2], {"sampler": torch.utils.data.RandomSampler([1, 2])}, set()),
        ([1, 2], {"sampler": [1, 0]}, set()),
        ([1, 2], {"sampler": iter([1, 0])}, {"workers", "prefetch"}),
        ([1, 2], {"batch_sampler": torch.utils.data.BatchSampler(range(2), 1, False)}, set()),
        (
            [1, 2],
            {"batch_sampler": torch.utils.data.BatchSampler(iter([1, 0]), 1, False)},
            {"workers", "prefetch"},
        ),
        (Mine([1]), {"batch_sampler": [[0]]}, {"workers"}),
        ([1, 2], {"collate_fn": list}, {"workers"}),
        ([1, 2], {"persistent_workers": True}, {"workers", "prefetch"}),
    ],
)
def test_knobs_that_change_results_are_known_from_the_loader(dataset, options, expected):
    assert set(changes_results(dataset, options)) == expected


def test_paper_mode_profiles_the_second_epoch_tries_each_setting_and_keeps_the_fastest():
    store = open_store(":memory:")
    knobs = pipeline("cnn", {"threads": [1, 2]}, {"batch_size": 32}, store=store, mode="paper",
                     strict=True)  # fmt: skip
    curve(knobs.epochs, n_epochs=5)
    (profile,) = store.profiles()
    assert {"user_s", "minor_faults", "voluntary_switches"} <= set(profile.counters)
    phases = list(store.epochs("cnn")["phase"])
    assert phases[:3] == ["warm-up", "steady", "probe"]
    assert profile.best["threads"] in (1, 2)
    times = store.epochs("cnn").query("phase != 'warm-up'").groupby("s.threads")["epoch_s"]
    assert times.count().sum() >= 3
