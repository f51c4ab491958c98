"""What owners tell at the end of a training: how good its model is on records that they hold out.

Each owner that holds records out is asked once, by the work `score`. These records are in no other release,
so that this one has their whole budget, which is as large as that of the records that are trained on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from noiseworthy._jax import jax, jnp
from noiseworthy.data.owners import read_owners
from noiseworthy.data.terms import OwnerTerms
from noiseworthy.deploy.asking import seen_of
from noiseworthy.deploy.correspondence import Correspondence
from noiseworthy.deploy.deployment import Deployment
from noiseworthy.deploy.gateway.messages import About, Uploaded
from noiseworthy.deploy.gathering import Gathering, in_words
from noiseworthy.deploy.telling import AskingOnce
from noiseworthy.errors import ConfigError, GatewayError
from noiseworthy.methods.algorithm import start_of
from noiseworthy.privacy.scores import CLIP, ScoreRelease
from noiseworthy.privacy.trust import LOCAL
from noiseworthy.studies.class_weights import names_of_classes
from noiseworthy.studies.delivery import task_table
from noiseworthy.studies.opening import file_of_owners
from noiseworthy.studies.tables import BY_OWNERS


def scorers(deployment: Deployment) -> dict[int, OwnerTerms]:
    """Owners that tell how good the model is, by their places; none where the study does not ask them."""
    study = deployment.prepared.study
    if study.federation.test != BY_OWNERS:
        return {}
    told = {one.client: one for one in read_owners(file_of_owners(study))}
    names = enumerate(deployment.federation.clients)
    return {place: told[name] for place, name in names if told[name].held_out is not None}


def reach_of(deployment: Deployment) -> float:
    """The error of a prediction that counts as wrong, the width of the label's public range; 0 for classes.

    Raises:
        ConfigError: numbers to predict whose range nobody states.
    """
    study, federation = deployment.prepared.study, deployment.federation
    if federation.classes is not None:
        return 0.0
    ends = study.columns and study.columns.label.range
    if not ends:
        raise ConfigError(
            '[federation] test = "owners" has owners tell the mean error of predictions, for which the '
            "label's range must be public; state it under [columns], or leave test out"
        )
    return float(ends[1] - ends[0])


def check_scored(deployment: Deployment) -> None:
    """Refuse to train for a score that nobody could tell.

    Raises:
        ConfigError: as `reach_of`; a loss of one's own, whose outputs nobody can call right.
    """
    if not scorers(deployment):
        return
    reach, federation, task = reach_of(deployment), deployment.federation, deployment.task
    x, y = (jnp.zeros((1, *one.shape[1:]), one.dtype) for one in (federation.test_x, federation.test_y))
    start = start_of(task, jax.random.key(0))
    if not reach and jnp.isnan(task.score(start, task.prepare(x), y).accuracy):
        raise ConfigError(
            '[federation] test = "owners" has owners tell how often the model is right, and nobody knows of '
            "a loss of your own when its outputs are; take one of the product's, or leave test out"
        )


def check_held_out(deployment: Deployment, abouts: Sequence[About], *, resume: bool) -> None:
    """Refuse to begin where an owner's held-out records are others than were told, or cannot pay.

    Args:
        deployment: study and plan.
        abouts: what owners tell now.
        resume: a part of what is spent may be this training's.

    Raises:
        GatewayError: the first that does not fit.
    """
    there = {about.client: about for about in abouts}
    for known in scorers(deployment).values():
        if (about := there.get(known.client)) is None:
            continue
        if about.held_out != known.held_out:
            raise GatewayError(
                f"{about.client} holds out {about.held_out or 0} records, and told {known.held_out} before; "
                "ask again with noiseworthy deploy ask"
            )
        if why := deployment.demand_of(about.client).unpaid(about, 0.0 if resume else about.scored):
            raise GatewayError(f"for held-out records {about.client} {why}")


def release_of(deployment: Deployment, owners: dict[int, OwnerTerms]) -> ScoreRelease:
    """How owners release what their held-out records say: for all of their budget, by the owners' floors."""
    plan, federation = deployment.plan, deployment.federation
    # who holds none out has its place in the arrays, too, and is not asked
    there = [owners.get(place) for place in range(federation.n_clients)]
    return ScoreRelease.of(
        np.array([1 if one is None else one.held_out for one in there]), plan.budget, plan.problem.family,
        [0.0 if one is None else one.noise_floor for one in there], reach=reach_of(deployment),
        two_classes=federation.classes == 2 and not federation.label_shape,
    )  # fmt: skip


def asking_of(deployment: Deployment, how: ScoreRelease, places: list[int], run: str) -> AskingOnce:
    """The requests: a plan of one round of which only these owners are part."""
    plan, once = deployment.plan, np.ones(deployment.federation.n_clients, np.int64)
    problem = replace(plan.problem, sizes=how.sizes, clip_norm=CLIP, trust=LOCAL)
    alone = replace(plan, problem=problem, rounds=1, releases=once, release=how.release, local=None)
    return AskingOnce(
        run, alone, task_table(deployment.prepared), deployment.task, np.array([places], np.int32), 0 * once,
        seen=seen_of(deployment.task), how=how, asked="score",
    )  # fmt: skip


def told_score(
    deployment: Deployment, run: str, theta: ArrayLike, letters: Correspondence, patience: float
) -> tuple[dict[str, Any], dict[str, str]]:
    """What owners told of a model, as a record has it, and of each an empty text or why it told nothing.

    Args:
        deployment: as it was trained.
        run: by name.
        theta: the model, shape (p,).
        letters: with the owners, of this release alone.
        patience: seconds to wait.
    """
    owners = scorers(deployment)
    how, clients = release_of(deployment, owners), deployment.federation.clients
    asking = asking_of(deployment, how, [*owners], run)
    gathering = Gathering(asking, letters, clients, patience, lambda: None)
    found = gathering.uploads(0, asking.cohorts[0], np.asarray(theta, np.float32))
    each = {clients.index(who): one.upload.values for who, one in found.items() if isinstance(one, Uploaded)}
    if not each:
        return {}, in_words(found)
    whole, names = how.read(each), names_of_classes(deployment.prepared.study, deployment.federation)
    labelled = zip(names or (), whole.classes, strict=False)
    alone = {place: how.read({place: values}) for place, values in each.items()}
    by_owner = [
        {"client": clients[at], "records": int(how.sizes[at]), "score": one.score, "deviation": one.deviation}
        for at, one in alone.items()
    ]
    return {
        "score": whole.score, "deviation": whole.deviation, "reach": how.reach, "owners": by_owner,
        "classes": [{"label": label, **one._asdict()} for label, one in labelled if one is not None],
    }, in_words(found)  # fmt: skip
