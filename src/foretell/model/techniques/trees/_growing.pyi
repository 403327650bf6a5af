from typing import Any

from numpy.typing import NDArray

def grow(
    level: NDArray[Any],
    gradient: NDArray[Any],
    weight: NDArray[Any],
    penalties: NDArray[Any],
    max_depth: int,
    predicted: NDArray[Any],
) -> tuple[bytes, bytes, bytes, bytes]: ...
def predict(
    rows: NDArray[Any],
    starts: NDArray[Any],
    column: NDArray[Any],
    bound: NDArray[Any],
    left: NDArray[Any],
    value: NDArray[Any],
    predicted: NDArray[Any],
) -> None: ...
