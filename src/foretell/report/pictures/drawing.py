"""What all pictures share: palettes, a style, and axes with few and short ticks."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from foretell.wording import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: From this ratio of the largest to the least on, an axis is logarithmic.
_LOG_RATIO = 20.0
_MOST_TICKS = 9
_LEAST_GAP = 0.055  # between ticks, as a share of the axis
_ROOM = 1.25  # around what a logarithmic axis shows
_NEAR_ZERO = 0.5  # of the largest value: an axis of smaller ones begins at zero


@dataclass(frozen=True)
class Palette:
    """The colors of pictures, by what they are for; also the names of the page's variables."""

    ink: str
    quiet: str
    line: str
    beyond: str
    first: str
    second: str
    third: str
    fourth: str
    fifth: str
    sixth: str

    @property
    def series(self) -> tuple[str, ...]:
        """The colors that tell series apart, beside their markers."""
        return (self.first, self.second, self.third, self.fourth, self.fifth, self.sixth)


LIGHT = Palette(
    ink="#1c2024", quiet="#5a636b", line="#d3d8dc", beyond="#eceff1", first="#1f5fa8",
    second="#b04a00", third="#23753a", fourth="#8a2a6b", fifth="#111111", sixth="#7a6200",
)  # fmt: skip
DARK = Palette(
    ink="#e6e9ec", quiet="#a5aeb6", line="#3c444b", beyond="#262d33", first="#7db4f0",
    second="#f0a060", third="#76c98c", fourth="#e08cc4", fifth="#f2f2f2", sixth="#d9c04c",
)  # fmt: skip
#: Placeholders for the colors of the page; pictures use no others.
STAND_INS = Palette(*(f"#fe01{i:02x}" for i in range(len(asdict(LIGHT)))))
#: Markers in the order of the series, so that shape tells them apart as well as color.
MARKERS = ("o", "s", "v", "^", "D", "X")

_STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "foretell",
    "text.parse_math": False,  # a dollar in a name is a dollar
    "axes.unicode_minus": True,
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "axes.axisbelow": True,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "pdf.fonttype": 42,
}


@contextmanager
def styled(palette: Palette) -> Iterator[None]:
    """Draw in our style, whatever the settings of the machine are."""
    import matplotlib as mpl
    from cycler import cycler

    ours: dict[Any, Any] = {
        **_STYLE,
        "axes.prop_cycle": cycler(color=[palette.first]),
        "text.color": palette.ink,
        "axes.labelcolor": palette.ink,
        "axes.edgecolor": palette.quiet,
        "xtick.color": palette.quiet,
        "ytick.color": palette.quiet,
        "xtick.labelcolor": palette.ink,
        "ytick.labelcolor": palette.ink,
        "grid.color": palette.line,
        "grid.linewidth": 0.6,
    }
    # matplotlib warns of letters that its own font lacks; the reader's fonts have them.
    with mpl.rc_context(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mpl.rcdefaults()
        mpl.rcParams.update(ours)
        yield


def new_axes(width: float = 5.4, height: float = 3.3) -> tuple[Figure, Axes]:
    """Return a figure with one pair of axes; sizes in inches."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.add_subplot()
    axes.grid(visible=True)
    return figure, axes


def add_legend(figure: Figure, axes: Axes, names: Sequence[str], n_across: int) -> None:
    """Put a legend above the picture, where it covers nothing, in this order."""
    found = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    shown = [name for name in names if name in found]
    handles = [found[name] for name in shown]
    figure.legend(handles, shown, loc="outside upper right", ncols=n_across)


def is_wide(low: float, high: float) -> bool:
    """Whether values span so much that an axis is better logarithmic."""
    return low > 0 and high / low >= _LOG_RATIO


def fit_axis(axis: Any, values: Any) -> None:
    """Let an axis show values: logarithmic if they span much, from zero on if that costs little."""
    low, high = float(values.min()), float(values.max())
    is_log = is_wide(low, high)
    room = 0.08 * (high - low) or 0.1 * abs(high) or 1.0
    ends = (low / _ROOM, high * _ROOM) if is_log else (low - room, high + room)
    if not is_log and 0 <= low < _NEAR_ZERO * high:
        ends = (0.0, high + room)
    axis.axes.set(**{f"{axis.axis_name}lim": ends})
    scale_axis(axis, is_log=is_log)


def scale_axis(axis: Any, *, is_log: bool, ticks: Sequence[float] = ()) -> None:
    """Make an axis linear or logarithmic, with few ticks, written short.

    The ticks are those given, unless they are many or stand too close.
    """
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    name = axis.axis_name
    ends = axis.get_view_interval()
    axis.axes.set(**{f"{name}scale": "log" if is_log else "linear", f"{name}lim": tuple(ends)})
    if 1 < len(ticks) <= _MOST_TICKS and _are_apart(ticks, ends, is_log=is_log):
        axis.set_ticks(list(ticks))
    elif is_log:
        low, high = axis.get_view_interval()
        decades = math.log10(high / low) if 0 < low < high else 0.0
        subs = (1.0, 2.0, 5.0) if decades < 2.5 else (1.0, 3.0) if decades < 4 else (1.0,)
        axis.set_major_locator(LogLocator(subs=subs, numticks=12))
    else:
        axis.set_major_locator(MaxNLocator(6))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: number(value, 3)))


def write_percents(axis: Any) -> None:
    """Write the ticks of an axis of shares as percentages."""
    axis.set_major_formatter(lambda value, _: f"{100 * value:.3g} %")


def _are_apart(ticks: Sequence[float], ends: Sequence[float], *, is_log: bool) -> bool:
    on_axis = [math.log(v) if is_log else v for v in (*ticks, *ends)]
    *places, left, right = on_axis
    return min(b - a for a, b in pairwise(places)) >= _LEAST_GAP * (right - left)
