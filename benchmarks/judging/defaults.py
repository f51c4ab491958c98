"""What somebody would state who does not plan: three settings, the same for all cells."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from judging.grid import Line, Search, Seen, Tried

ONE_NORM = (("normalise", True), ("feature_norm", 1.0))
SHARE = 0.3
"""The constant beside records of norm 1: what the product takes where nobody says."""


def defaults_of(search: Search) -> dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Losses and accuracies of each under the scoring seeds.

    - `usual`: 100 rounds with all clients, clip 1, step 0.5, records of norm 1;
    - `short`: 10 rounds with all clients, clip 1, step 1, records of norm 1;
    - `published`: what Zhou et al. took for MNIST at epsilon = 5 (Laplace: 121 rounds with one client each,
      clip 300) and at any epsilon (Gaussian: 100 rounds with all clients, clip 10), step 0.05, records as
      they are and no constant.
    """
    made, n = search.ground.made, search.ground.clients
    model = "linear" if made.question.classes is None else "softmax"
    unit, plain = Seen(ONE_NORM, model, SHARE), Seen((), model, 0.0)
    paper = (121, 1, 300.0) if made.study.privacy.mechanism == "laplace" else (100, n, 10.0)
    settings = {
        "usual": Tried(Line(unit, 100, n), 1.0, 0.5, False, np.nan),
        "short": Tried(Line(unit, 10, n), 1.0, 1.0, False, np.nan),
        "published": Tried(Line(plain, *paper[:2]), paper[2], 0.05, False, np.nan),
    }
    return {name: search.scored(one) for name, one in settings.items()}
