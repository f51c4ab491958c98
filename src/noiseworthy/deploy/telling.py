"""What owners tell before a training starts from it, asked for as any release.

Each owner is asked once, by the work `mean` for that of its records and shares of its classes, by
`label-mean` for that of the numbers to predict; it draws the noise and pays for it, and the server reads the
weighted mean of the answers (`privacy.means`). Those of owners who are missing are
left out, and the noise in what the others told is the larger for it.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noiseworthy.deploy.asking import Asking
from noiseworthy.deploy.correspondence import Correspondence
from noiseworthy.deploy.deployment import Deployment, model_of
from noiseworthy.deploy.gathering import Gathering
from noiseworthy.deploy.remote import BEFORE, uploads_of
from noiseworthy.methods.wire import Work, wire
from noiseworthy.privacy.means import LabelMean
from noiseworthy.studies.centring import mean_release
from noiseworthy.studies.label_mean import label_mean_of
from noiseworthy.tasks.factory import make_task
from noiseworthy.tasks.table import TaskTable


@dataclass(frozen=True, kw_only=True)
class AskingOnce(Asking):
    """Requests that a run makes once, before its rounds or after; their plan is that of this release alone.

    Attributes:
        how: it is released: by means, means of labels, or scores.
        asked: for, by the name of its work.
    """

    how: Any
    asked: str

    def work(self, client: int, t: int) -> Work:
        """What is told."""
        return wire(self.asked).work(self.how, client, t)

    def releases(self, t: int) -> NDArray[np.int64]:
        """None: it is the first."""
        return self.made


def asking_of(deployment: Deployment, run: str) -> AskingOnce:
    """What every owner is asked for before round 1, of its records as they are.

    Args:
        deployment: whose plan leaves the mean open.
        run: by its name at the owners.
    """
    prepared, plan, federation = deployment.prepared, deployment.plan, deployment.federation
    numbers = label_mean_of(prepared) if federation.classes is None else None
    how, once = numbers or mean_release(prepared), np.ones(federation.n_clients, np.int64)
    table = TaskTable(model=model_of(prepared), bias=0.0)
    model = make_task(str(table.model), federation.record_shape, federation.classes)
    problem = replace(plan.problem, clip_norm=how.clip_norm, dimension=model.dimension)
    alone = replace(plan, problem=problem, rounds=1, releases=once, release=how.release, local=None)
    everybody = np.arange(federation.n_clients, dtype=np.int32)[None]
    asked = "mean" if plan.ranges is None else plan.ranges.asked
    return AskingOnce(run, alone, table, model, everybody, 0 * once, how=how, asked=asked)


def told_mean(
    deployment: Deployment, run: str, letters: Correspondence, patience: float
) -> tuple[dict[str, Any], dict[str, str]]:
    """What owners told, as `BoughtRanges` names it; of each an empty text or why its answer is missing.

    Args:
        deployment: whose plan leaves the mean open.
        run: by its name at the owners.
        letters: with them.
        patience: seconds to wait for answers.

    Raises:
        TooFewReplies: fewer than half, who may still answer when they are asked again.
        NoMoreReplies: fewer than half, for good.
    """
    asking = asking_of(deployment, run)
    (everybody,), theta = asking.cohorts, np.zeros(asking.model.dimension, np.float32)
    gathering = Gathering(asking, letters, deployment.federation.clients, patience, lambda: None)
    uploads, answers = uploads_of(BEFORE, gathering, everybody, theta)
    told = {place: one.upload.values for place, one in uploads.items()}
    if isinstance(asking.how, LabelMean):
        return {"label_mean": asking.how.combined(told)}, answers
    mean, shares = asking.how.combined(told)
    return {"mean": mean.tolist(), "class_shares": shares.tolist()}, answers
