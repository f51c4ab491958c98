"""What Ma et al. say of their figures, and what this product says."""

from __future__ import annotations

from noiseworthy_papers.judge import SLACK, Claim
from noiseworthy_papers.kinds import Ahead, Ordered, Slower
from noiseworthy_papers.ma.tables import printed_gain
from noiseworthy_papers.ma.utility import FREE, ONE_STAGE, PERSONAL_BIASED, PLAIN, RIVALS, TWO_STAGES, WITHOUT
from noiseworthy_papers.points import Score
from noiseworthy_papers.selecting import Where

TWO, ONE, OTHERS = Where(series=(TWO_STAGES,)), Where(series=(ONE_STAGE,)), Where(series=RIVALS)
ALL_BUT_ALPHA = ("series", "epsilon", "alpha")
EXTREME = 0.30
"""Accuracy that the paper gains where data are most heterogeneous."""

_CLOSE = (
    "WeiAvg and PFA make little of noisy replies, DPFL-BCS asks for few of them: the noise that is left is "
    "much the same, and five draws of it do not always tell which is less."
)
_STAGES = (
    "Stage 1 pays for losses and plans without them; where budgets are small, that costs more than it tells. "
    "One stage is judged apart."
)
_NOISE = (
    "Sound noise covers nearly all that a round can teach here, and what is left between the algorithms is "
    "chance."
)
_BY_WEIGHT = "Weights by ε know nothing of the records that a client's noise is divided by."
_FEW_RECORDS = (
    "A small α also makes clients of few records, whose noise is large. DPSGD and DMLDP suffer from them "
    "most, and weights by ε help all the more."
)
_PERSONAL = (
    "The transform is clipped and noised together with the model here; trained without noise, as the paper "
    "has it, it would not be private. The server scores the model without anybody's transform."
)
_TEN_TIMES = (
    "Momentum is ten times the step of the shared model, and not of the transforms of PrivateFL; without it "
    "the model may fall behind them."
)


def _score(regression: bool) -> Score:
    """What the paper reports: the squared error of a regression, else accuracy."""
    return "loss" if regression else "accuracy"


def _best(score: Score) -> tuple[Claim, ...]:
    return (
        Claim("DPFL-BCS achieves the highest utility of the private algorithms.",
              (Ahead(TWO, OTHERS, score),), f"{_CLOSE} {_STAGES}"),
        Claim("One stage, planned by budgets and sizes alone, does so, too.",
              (Ahead(ONE, OTHERS, score),), _CLOSE, ours=True),
        _as_good(score),
    )  # fmt: skip


def _as_good(score: Score) -> Claim:
    reason = (
        "Both share their budgets, but stage 2 draws noise of its own, and five such draws are few; the "
        "items *stages* compare them under twenty."
    )
    words = f"One stage is at least as good as two (judged: {SLACK:.0%} of the gain is a tie)."
    return Claim(words, (Ahead(ONE, TWO, score, tie=True),), reason, ours=True)


def training(*, regression: bool) -> tuple[Claim, ...]:
    """Of figure 2."""
    score = _score(regression)
    personal, plain = Where(series=("PrivateFL",)), Where(series=("DPSGD",))
    no_better = Ahead(Where(series=("DMLDP",)), Where(series=("PrivateFL",)), score, tie=True)
    return (
        *_best(score),
        Claim("PFA and WeiAvg outperform DPSGD and DMLDP.",
              (Ahead(Where(series=("PFA", "WeiAvg")), Where(series=tuple(PLAIN.values())), score),),
              _BY_WEIGHT),
        Claim("PrivateFL outperforms DPSGD under Gaussian noise.",
              (Ahead(personal, plain, score),), _PERSONAL),
        Claim("PrivateFL fails to improve on DMLDP under Laplace noise.", (no_better,), _PERSONAL),
        Claim("Laplace noise compromises utility more than Gaussian noise.",
              (Ahead(Where(series=(*RIVALS, TWO_STAGES, ONE_STAGE), mechanism="gaussian"),
                     Where(mechanism="laplace"), score, match=ALL_BUT_ALPHA),), _NOISE),
    )  # fmt: skip


def combined(column: int, *, regression: bool) -> tuple[Claim, ...]:
    """Of Table I, whose columns are data sets."""
    score, personal = _score(regression), Where(series=("PrivateFL",))
    words = (
        "Biased selection significantly improves PrivateFL (judged: by half of what Table I prints, or more)."
    )
    kinds = tuple(
        Ahead(Where(series=(PERSONAL_BIASED,), mechanism=mechanism), personal, score,
              by=printed_gain(mechanism, column) / 2)
        for mechanism in PLAIN
    )  # fmt: skip
    return (Claim(words, kinds, _NOISE),)


def momentum(*, regression: bool) -> tuple[Claim, ...]:
    """Of the comparison with the paper's momentum."""
    return (
        Claim("Under this noise every private algorithm ends better without the paper's momentum of 0.9.",
              (Ahead(Where(ending=WITHOUT), score=_score(regression), without=WITHOUT),), _TEN_TIMES,
              ours=True),
    )  # fmt: skip


def stages(*, regression: bool) -> tuple[Claim, ...]:
    """Of one stage and two under many seeds."""
    return (_as_good(_score(regression)),)


def privacy(*, regression: bool) -> tuple[Claim, ...]:
    """Of figure 4."""
    score = _score(regression)
    rising, flat = Where(series=(TWO_STAGES, "WeiAvg", "PFA")), Where(series=("PrivateFL", *PLAIN.values()))
    return (
        *_best(score),
        Claim("DPFL-BCS, WeiAvg and PFA get better as ε_max grows (judged: from the least to the largest).",
              (Ordered(score, "epsilon", rising=not regression, where=rising, ends=True),), _NOISE),
        Claim("PrivateFL, DPSGD and DMLDP cannot effectively improve as ε_max grows (judged: by less than "
              "half of what DPFL-BCS gains).",
              (Slower(flat, TWO, score, "epsilon", 0.5),),
              "The clients of least ε draw the noise, and their ε, too, grows with ε_max."),
    )  # fmt: skip


def data(*, regression: bool) -> tuple[Claim, ...]:
    """Of figure 5."""
    score = _score(regression)
    every = Where(series=(FREE, *RIVALS, TWO_STAGES))
    claims = (
        *_best(score),
        Claim("Utility deteriorates as α falls (judged: from the largest to the least).",
              (Ordered(score, "alpha", rising=not regression, where=every, ends=True),),
              "A small α also makes clients of many records; DPFL-BCS asks them, and needs less noise."),
        Claim("WeiAvg and PFA only work well when α is not very small (judged: their lead on DPSGD or DMLDP "
              "grows with α).",
              (Slower(Where(series=tuple(PLAIN.values())), Where(series=("WeiAvg", "PFA")), score, "alpha"),),
              _FEW_RECORDS),
    )  # fmt: skip
    gained = Claim(
        "DPFL-BCS improves accuracy by 30 to 40 points where α is extremely small (judged: by 30, on each "
        "rival).",
        (Ahead(Where(series=(TWO_STAGES,), within=(("alpha", 0, 0.5),)), OTHERS, score, by=EXTREME),),
        _NOISE,
    )
    return claims if regression else (*claims, gained)
