"""The look of all figures: one palette, one set of drawing parameters, output as PNG or inline SVG."""

from __future__ import annotations

import io
import logging
import re
from collections import Counter
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from textwrap import fill
from typing import ParamSpec, TypeVar

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import findfont, get_font, get_font_names
from matplotlib.text import Text

from noiseworthy._places import write_whole

P = ParamSpec("P")
R = TypeVar("R")

INK, MUTED, RULE, PAPER = "#1b1f24", "#68717b", "#dfe3e8", "#ffffff"
PLAN = "#d1490c"
"""The plan, and nothing else, is drawn in this colour."""
TONES = ("#2a9a8f", "#2684ad", "#2d68b0", "#2f4a99", "#262c66")
"""Series in order, from light to dark: told apart by lightness alone, too."""
RAMP = (
    "#eef7f4", "#b9e3d9", "#89cbbe", "#59b2a4", "#259790", "#2781af", "#2f61ac", "#2d4290", "#262c65",
)  # fmt: skip
"""Levels from light to dark through the tones, in steps that look alike (equal distances in OKLab). Like the
inks on them, none is a named colour: a surface looks the same on a dark page."""
ON_LIGHT, ON_DARK = "#010101", "#fefefe"
"""Inks of a text on a light and on a dark level."""
MARKERS = ("o", "s", "^", "v", "p")
NAMES = {INK: "ink", MUTED: "muted", RULE: "rule", PAPER: "paper", PLAN: "plan"} | {
    tone: f"tone-{i}" for i, tone in enumerate(TONES)
}
"""Colour -> CSS variable, by which a page recolours inline figures in the dark."""

NARROW = 4.5
"""Inches of a figure that is read on a phone as on a desk: its texts are above 9 px on a screen of 360 px."""
WIDE = 7.4
"""Inches of a figure with much in a row, which a phone scrolls."""
ON_PAPER = {"facecolor": PAPER, "edgecolor": "none", "pad": 0.8}
"""The box of a text inside the picture, so that no line crosses it."""

_EASTERN = (
    "Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans CJK KR", "WenQuanYi Zen Hei", "WenQuanYi Micro Hei",
    "IPAexGothic", "NanumGothic", "PingFang SC", "Hiragino Sans", "Apple SD Gothic Neo", "Microsoft YaHei",
    "Yu Gothic", "Malgun Gothic", "Arial Unicode MS",
)  # fmt: skip
FAMILIES = ["DejaVu Sans", *(name for name in _EASTERN if name in get_font_names())]
"""Fonts in which characters are looked for: that of all figures, then others that are here."""
_LOG = logging.getLogger("matplotlib.font_manager")
# most of them have one weight, of which a user is to hear nothing
_LOG.addFilter(lambda said: "font weight" not in said.msg or not {*_EASTERN}.intersection(said.args or ()))

# a layout holds at the resolution that it was made for, that of PNGs: at others texts are rounded otherwise
RC = {
    "font.family": FAMILIES, "font.size": 10.0, "text.color": INK,
    "text.usetex": False, "figure.facecolor": PAPER, "figure.dpi": 180, "savefig.facecolor": "auto",
    "savefig.bbox": None, "axes.facecolor": PAPER, "axes.edgecolor": MUTED, "axes.linewidth": 0.6,
    "axes.labelcolor": MUTED, "axes.labelsize": 10.0, "axes.spines.top": False, "axes.spines.right": False,
    "axes.spines.left": False, "axes.grid": False, "axes.axisbelow": True, "axes.unicode_minus": True,
    "grid.color": RULE, "grid.linewidth": 0.6, "grid.linestyle": "-", "xtick.color": MUTED,
    "xtick.labelsize": 9.5, "xtick.major.width": 0.6, "xtick.minor.size": 0.0, "ytick.color": MUTED,
    "ytick.labelsize": 9.5, "ytick.major.size": 0.0, "ytick.minor.size": 0.0,
    "lines.solid_capstyle": "round", "svg.fonttype": "path", "svg.hashsalt": "noiseworthy",
}  # fmt: skip


def styled(draw: Callable[P, R]) -> Callable[P, R]:
    """Run a drawing function under `RC` and leave the caller's parameters as they were."""

    @wraps(draw)
    def under_style(*args: P.args, **kwargs: P.kwargs) -> R:
        with matplotlib.rc_context(RC):  # pyright: ignore[reportArgumentType]
            return draw(*args, **kwargs)

    return under_style


def small() -> float:
    """Size of texts inside pictures, in points."""
    return 0.95 * matplotlib.rcParams["font.size"]


def new_figure(width: float, height: float) -> Figure:
    """An empty figure in inches, bound to the Agg canvas and to no window."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def drawable(text: str) -> str:
    """A text in one line, with a box for every character that no font here has.

    Example:
        >>> drawable("ward\\n3 \\N{CJK UNIFIED IDEOGRAPH-4E00}")
        'ward 3 □'
    """
    fonts = [get_font(findfont(name)) for name in FAMILIES]
    line = " ".join(text.split())
    return "".join(c if any(font.get_char_index(ord(c)) for font in fonts) else "□" for c in line)


def head(axes: Axes, title: str, subtitle: str, xlabel: str) -> None:
    """Title and, below it, what the vertical axis is, flush left, in lines that fit; light rules."""
    size = matplotlib.rcParams["font.size"]
    room = 72 * axes.bbox.width / matplotlib.rcParams["figure.dpi"] / size
    title, subtitle = fill(title, int(1.72 * room)), fill(subtitle, int(2.2 * room))
    above = size * (2.3 + 1.3 * subtitle.count("\n"))
    # names of data and keys may hold a dollar sign, which begins a formula
    axes.set_title(title, loc="left", fontsize=size * 1.1, fontweight="bold", pad=above, parse_math=False)
    axes.annotate(subtitle, (0, 1), (0, size * 0.75), "axes fraction", "offset points", color=MUTED)
    axes.set_xlabel(xlabel, parse_math=False)
    axes.grid(axis="y")


@styled
def png(figure: Figure, dpi: int = 180) -> bytes:
    """The figure as a PNG on white."""
    buffer = io.BytesIO()
    _lay_out(figure)
    figure.savefig(buffer, format="png", dpi=dpi, metadata={"Software": None})
    return buffer.getvalue()


def write_png(figure: Figure | None, path: Path) -> None:
    """Write a figure, or remove the one of an earlier record where there is none."""
    if figure is None:
        path.unlink(missing_ok=True)
    else:
        write_whole(path, png(figure))


@styled
def svg(figure: Figure, name: str) -> str:
    """The figure as an SVG element to put into a page: colours are CSS variables, ids start with `name`."""
    buffer = io.StringIO()
    _lay_out(figure)
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = re.sub(r'(id="|href="#|url\(#)', rf"\g<1>{name}-", text)
    given = Counter(re.findall(r' id="[^"]*"', text))  # marks of one kind have one name, but ids are single
    text = re.sub(r' id="[^"]*"', lambda one: one[0] if given[one[0]] == 1 else "", text)
    for colour, variable in NAMES.items():
        text = text.replace(colour, f"var(--{variable})")
    return text


def _lay_out(figure: Figure) -> None:
    """Lay it out once and for all: with an engine left, "none" too, each output is drawn twice."""
    if (engine := figure.get_layout_engine()) is not None:
        if any("□" in one.get_text() for one in figure.findobj(Text) if isinstance(one, Text)):
            said = "□: in no font here; with Noto Sans CJK it is drawn"
            figure.supxlabel(said, x=0.008, ha="left", color=MUTED, fontsize=9)
        engine.execute(figure)
        figure.set_layout_engine(None)
