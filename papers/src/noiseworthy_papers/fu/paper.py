"""The figures and tables of Fu et al. by name.

Fu et al., "On the practicality of differential privacy in federated learning by tuning iteration times"
(2021), section VI. Claims and how they are judged are in `claims`.
"""

from __future__ import annotations

from noiseworthy_papers.fu import network, regression
from noiseworthy_papers.noise_shares import spent_as_printed
from noiseworthy_papers.points import NO_NOISE
from noiseworthy_papers.spec import Item, Paper

ITEMS: dict[str, Item] = {
    "step-size": regression.STEP_SIZE,
    "figure-1": regression.FIGURE_1,
    "figure-2": network.figure_2,
    "figure-3": regression.FIGURE_3,
    "table-2": regression.OPTIMAL_T,
    "figure-4": network.figure_4,
    "figure-5": regression.FIGURE_5,
    "figure-5-scaled": regression.FIGURE_5_SCALED,
    "table-3": regression.OPTIMAL_E,
    "figure-6": network.figure_6,
    "table-4": network.table_4,
    "figure-7": regression.FIGURE_7,
}
_SPENT = ", ".join(
    f"{spent_as_printed('gaussian', epsilon, network.DELTA):.0f} for {epsilon:g}"
    for epsilon in network.EPSILONS
    if epsilon != NO_NOISE
)
COMMON = f"""\
- A client's batch gradient is clipped in every local step, as in the paper (mode C of
  docs/theory/fu.md#clipping-modes). What this protects is everything that a client holds, not one record; the
  proof asks nothing of the model.
- Noise is what the stated budget needs: sensitivity 2ζ per unit of step, ⌈bT_g/N⌉ uploads, pure ε for Laplace
  noise and exact composition for Gaussian noise.
- *As printed* is the paper's own noise as we read it: ζ for the sensitivity (it does not say how one follows
  from the other), and for Gaussian noise Abadi's theorem with c₂ = 1. It is **not private**: with Laplace
  noise it spends 2ε, with Gaussian noise {_SPENT}.
- The paper reports no learning rate. Ours is constant. For the regression it is chosen without noise (item
  [step-size](#fu-step-size)); for the CNN it is 0.02, the least of 0.02, 0.05, 0.1 and 0.2: larger ones learn
  faster without noise and lose more with it.
- ε = ∞ is the same training without noise. The mean squared error is twice the loss that we train, and so is
  its gradient: clip 150 and step 0.02 there are clip 75 and step 0.04 here, and the same training.
- Seeds change schedule, start and noise; the partition of the records is one and the same. ± is the standard
  deviation over seeds.
"""
PAPER = Paper("fu", "Fu et al.", ITEMS, COMMON, ours=("step-size", "figure-5-scaled"))
