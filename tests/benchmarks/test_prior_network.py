"""The network of made-up tables: what it is shown, and that it reads tables as sets of rows."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

torch = pytest.importorskip("torch")

from benchmarks.prior_network import (  # noqa: E402
    Batch,
    PriorNetwork,
    draw_table,
    log_likelihood,
    median,
    tokenize,
)


def _tokens(seed, order=None):
    drawn = draw_table(np.random.default_rng(seed))
    order = np.arange(len(drawn.log_y)) if order is None else order(len(drawn.log_y))
    known = {name: values[order] for name, values in drawn.known.items()}
    runs = np.full(len(order), float(drawn.n_runs))
    return tokenize(known, drawn.asked, drawn.log_y[order], runs, np.random.default_rng(0))


def _network():
    torch.manual_seed(0)
    network = PriorNetwork()
    for parameter in network.parameters():  # attention starts at zero, which would hide everything
        torch.nn.init.normal_(parameter, 0.0, 0.1)
    return network


@pytest.mark.parametrize("seed", range(5))
def test_tables_are_finite_and_asked_rows_are_beside_the_measured_ones(seed):
    tokens = _tokens(seed)
    assert np.isfinite(tokens.cells).all() and np.isfinite(tokens.targets).all()
    assert np.isfinite(tokens.base).all() and tokens.scale > 0
    assert (tokens.targets[: tokens.n_known, 2] == 1).all()
    assert (tokens.targets[tokens.n_known :, :4] == 0).all()  # nothing of the target is shown


def test_the_order_of_measured_rows_does_not_matter():
    network = _network()
    with torch.no_grad():
        one, other = (
            network(Batch.of([_tokens(3, order)]))
            for order in (np.arange, lambda n: np.arange(n)[::-1])
        )
    assert torch.allclose(one, other, atol=1e-3)


def test_what_is_padded_in_a_batch_does_not_matter():
    network = _network()
    tables = [_tokens(seed) for seed in range(4)]
    with torch.no_grad():
        together = network(Batch.of(tables))
        for i, table in enumerate(tables):
            alone = network(Batch.of([table]))[0]
            assert torch.allclose(together[i, : len(alone)], alone, atol=1e-3)


def test_asked_rows_do_not_see_each_other():
    network, tokens = _network(), _tokens(3)
    first = type(tokens)(
        tokens.cells[: tokens.n_known + 1],
        tokens.targets[: tokens.n_known + 1],
        tokens.n_known,
        tokens.base,
        tokens.scale,
    )
    with torch.no_grad():
        assert torch.allclose(
            network(Batch.of([first]))[0, 0], network(Batch.of([tokens]))[0, 0], atol=1e-3
        )


def test_the_median_halves_the_density_of_a_mixture():
    out = torch.randn(6, 15, generator=torch.Generator().manual_seed(1))
    at = torch.linspace(-40, 40, 80_001)
    density = log_likelihood(out[:, None].expand(6, len(at), 15), at.expand(6, -1)).exp()
    below = (density * (at < median(out)[:, None])).sum(dim=1) * (at[1] - at[0])
    assert below == pytest.approx(0.5, abs=2e-3)
