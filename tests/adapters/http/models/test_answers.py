"""What workers answer: the measured runs behind a model come from the table that its fit left."""

import numpy as np
import pandas as pd

import foretell
from foretell.adapters.http.models.answers import read_runs


def test_runs_are_read_whatever_the_target_is_called(tmp_path):
    size = np.repeat([1.0, 2.0, 4.0, 8.0, 16.0], 3)
    table = pd.DataFrame({"size": size, "self": 3 * size})
    fit = foretell.fit_model(table, target="self", output=tmp_path / "fit")
    runs = read_runs(fit.best, table.to_csv(index=False).encode())
    assert runs is not None
    assert runs["self"].tolist() == (3 * size).tolist()
    assert runs["size"].tolist() == size.tolist()
