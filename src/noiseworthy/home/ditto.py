"""Ditto's own models: a ridge towards the shared model and nothing else."""

from __future__ import annotations

from noiseworthy.errors import InvalidInput
from noiseworthy.home.base import Own, Parameters
from noiseworthy.home.ridge import towards
from noiseworthy.tasks.base import Task
from noiseworthy.tasks.linear import LinearModel


def ditto_model(task: Task, shared: Parameters, own: Own, seed: int) -> Parameters:
    """argmin of the owner's loss + (lambda/2) ||theta - shared||^2; `base.AtHome`.

    Lambda is chosen by cross-validation at home. The shared model of Ditto is that of DP-FedAvg, which its
    own models do not move; MR-MTL draws them towards their noised mean in the same way.

    Raises:
        InvalidInput: a network, whose optimum nobody computes.

    Source: Li, Hu, Beirami & Smith, Ditto (2021), equation 1; Liu, Hu, Wu & Smith, On privacy and
    personalization in cross-silo federated learning (2022), equation 2.
    """
    if not isinstance(task, LinearModel):
        raise InvalidInput("Ditto's own models are solved for linear models; fine-tune a network")
    return towards(task, shared, (1.0,), own, seed)
