"""Programs of tasks: whatever the block, they compute on all of their data."""

import numpy as np
import pytest
from benchmarks.task_programs import by_blocks, heat, positive_definite, product, stream

from foretell.tasks.running.opening import planning


@pytest.mark.parametrize("block", [25, 32, 100, 130])
def test_factor_by_blocks_is_that_of_the_whole_matrix(block):
    n = 130
    blocks = by_blocks.blocks_of(positive_definite(n), block)
    by_blocks.factorize(blocks, workers=2)
    found = np.zeros((n, n))
    for (i, j), part in blocks.items():
        rows, columns = i * block, j * block
        found[rows : rows + part.shape[0], columns : columns + part.shape[1]] = part
    expected = np.linalg.cholesky(positive_definite(n))
    np.testing.assert_allclose(np.tril(found), expected, atol=1e-10)


@pytest.mark.parametrize(
    ("program", "power", "work"), [(product, 3, 130**3), (stream, 1, 9 * 130), (heat, 1, 8 * 130)]
)
@pytest.mark.parametrize("block", [32, 65, 100])
def test_work_of_a_program_is_the_same_with_each_block(program, power, work, block):
    with planning():
        graph = program(block, n=130)
    assert sum(task.size**power for task in graph.tasks) == pytest.approx(work, rel=0.02)
