"""What Ma et al. say of their figures, and what this product says; how it is judged is in `ma_judges`."""

from __future__ import annotations

from noiseworthy.experiments.papers.ma_judges import (
    ahead,
    as_good,
    costlier,
    each_ahead,
    extreme,
    hardly_rises,
    leads,
    leads_less,
    no_gain,
    rises,
)
from noiseworthy.experiments.papers.ma_utility import (
    FREE,
    ONE_STAGE,
    PERSONAL_BIASED,
    PLAIN,
    RIVALS,
    TWO_STAGES,
    WITHOUT,
    Utility,
)
from noiseworthy.experiments.papers.spec import Claim

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


def _best(utility: Utility) -> tuple[Claim, ...]:
    return (
        Claim("DPFL-BCS achieves the highest utility of the private algorithms.",
              leads(utility, TWO_STAGES), f"{_CLOSE} {_STAGES}"),
        Claim("One stage, planned by budgets and sizes alone, does so, too.",
              leads(utility, ONE_STAGE), _CLOSE, ours=True),
        _as_good(utility),
    )  # fmt: skip


def _as_good(utility: Utility) -> Claim:
    reason = (
        "Both share their budgets, but stage 2 draws noise of its own, and five such draws are few; the "
        "items *stages* compare them under twenty."
    )
    return Claim(
        "One stage is at least as good as two.", as_good(utility, ONE_STAGE, TWO_STAGES), reason, ours=True
    )


def training(*, regression: bool) -> tuple[Claim, ...]:
    """Of figure 2."""
    utility = Utility(regression)
    return (
        *_best(utility),
        Claim("PFA and WeiAvg outperform DPSGD and DMLDP.",
              ahead(utility, ("PFA", "WeiAvg"), PLAIN), _BY_WEIGHT),
        Claim("PrivateFL outperforms DPSGD under Gaussian noise.",
              ahead(utility, ("PrivateFL",), {"gaussian": "DPSGD"}), _PERSONAL),
        Claim("PrivateFL fails to improve on DMLDP under Laplace noise.",
              no_gain(utility, "PrivateFL", "DMLDP", "laplace"), _PERSONAL),
        Claim("Laplace noise compromises utility more than Gaussian noise.", costlier(utility), _NOISE),
    )  # fmt: skip


def combined(*, regression: bool) -> tuple[Claim, ...]:
    """Of Table I."""
    utility = Utility(regression)
    than = dict.fromkeys(PLAIN, "PrivateFL")
    return (
        Claim("Biased selection significantly improves PrivateFL.",
              ahead(utility, (PERSONAL_BIASED,), than), _NOISE),
    )  # fmt: skip


def momentum(*, regression: bool) -> tuple[Claim, ...]:
    """Of the comparison with the paper's momentum."""
    return (
        Claim("Under this noise every private algorithm ends better without the paper's momentum of 0.9.",
              each_ahead(Utility(regression), WITHOUT),
              _TEN_TIMES, ours=True),
    )  # fmt: skip


def stages(*, regression: bool) -> tuple[Claim, ...]:
    """Of one stage and two under many seeds."""
    return (_as_good(Utility(regression)),)


def privacy(*, regression: bool) -> tuple[Claim, ...]:
    """Of figure 4."""
    utility = Utility(regression)
    return (
        *_best(utility),
        Claim("DPFL-BCS, WeiAvg and PFA get better as ε_max grows.",
              rises(utility, "epsilon", (TWO_STAGES, "WeiAvg", "PFA")), _NOISE),
        Claim("PrivateFL, DPSGD and DMLDP cannot effectively improve as ε_max grows.",
              hardly_rises(utility, "epsilon", ("PrivateFL", "DPSGD", "DMLDP")),
              "The clients of least ε draw the noise, and their ε, too, grows with ε_max."),
    )  # fmt: skip


def data(*, regression: bool) -> tuple[Claim, ...]:
    """Of figure 5."""
    utility = Utility(regression)
    every = (FREE, *RIVALS, TWO_STAGES)
    claims = (
        *_best(utility),
        Claim("Utility deteriorates as α falls.", rises(utility, "alpha", every),
              "A small α also makes clients of many records; DPFL-BCS asks them, and needs less noise."),
        Claim("WeiAvg and PFA only work well when α is not very small.", leads_less(utility), _FEW_RECORDS),
    )  # fmt: skip
    gained = Claim(
        "DPFL-BCS improves accuracy by 30 to 40 points where α is extremely small.", extreme(utility), _NOISE
    )
    return claims if regression else (*claims, gained)
