"""Plan any algorithm by trial: what a study leaves free, the race, and the study with everything decided."""

from dataclasses import replace
from typing import Any

import numpy as np

from noiseworthy import _validate as check
from noiseworthy.data.scenes import SCENES, fits
from noiseworthy.engines.compilation import use_persistent_cache
from noiseworthy.errors import ConfigError, UserError
from noiseworthy.methods.moments.scale import worth_a_trial
from noiseworthy.methods.question import NOTHING_TO_TRY, decay, given
from noiseworthy.methods.registry import AT_ONCE, method
from noiseworthy.privacy.mechanisms import law_of
from noiseworthy.studies.at_home import advice, delivers_to_owners
from noiseworthy.studies.centring import may_centre
from noiseworthy.studies.decision import Decision, Foretold, Progress, Quality
from noiseworthy.studies.fitted import explained
from noiseworthy.studies.models import of_algorithm, with_task
from noiseworthy.studies.prepare import Prepared, tells_clients_apart
from noiseworthy.studies.tables import Study
from noiseworthy.tasks.linear import LinearModel
from noiseworthy.tasks.names import FOURIER, is_encoder
from noiseworthy.tasks.qualities import Metric
from noiseworthy.tasks.table import TREATED
from noiseworthy.trials.advisor import in_place_of
from noiseworthy.trials.at_home import at_home
from noiseworthy.trials.bench import Bench
from noiseworthy.trials.deadline import Deadline
from noiseworthy.trials.public import is_alike, is_made
from noiseworthy.trials.reference import alike
from noiseworthy.trials.search import TrialPlan, plan_by_trial
from noiseworthy.trials.spaces import Space
from noiseworthy.trials.stand_ins import public_sources
from noiseworthy.trials.treatment import Treatment, curved, encoded, featured, treatments

_REAL_IMAGES, _LARGE = 2, 16
"""Sets of real images by which trials may choose features, and pixels a side from where images have them."""
_MOST = 500
"""Rounds or iterations that trials choose at most where a study does not say."""
_MOST_OF_NETWORKS = 150
"""The same of networks, whose trials of longer trainings would take longer than all others together."""
_OF_NETWORKS = 2
"""Sets of images that networks are tried on at most, for the same reason, where a study names none."""
_RACE = 0.8
"""Share of the time of planning before the trials around the plan."""


def decide(prepared: Prepared, on_progress: Progress) -> Decision:
    """Plan a study by trial on public data.

    Raises:
        ConfigError: constants beside trials, no data, no noise, a selection of clients.
        InvalidInput: public data that are the study's own or do not fit; settings that nothing allows.
    """
    study = prepared.study
    _check(prepared)
    bench = open_bench(prepared, for_owners=by_tuning(prepared))
    deadline = Deadline(study.planning.budget_seconds or np.inf)
    space = space_of(prepared)
    found = plan_by_trial(
        bench, space, treatments_of(prepared, bench), seeds=study.planning.seeds, deadline=deadline,
        on_progress=lambda done: on_progress(_RACE * done),
    )  # fmt: skip
    if (once := _at_once(prepared, bench, space, found, deadline)) is not None:
        study, space, found = once
    foretold = _foretold(found, study.planning.metric, tuple(bench.weights.tolist()))
    if delivers_to_owners(prepared):
        home = at_home(bench, space, found.result.winner)
        home = replace(home, planned_for="tuned" if found.by_tuning else "shared")
        told = advice(home, numbers=bench.facts.classes is None)
        found = replace(found, plan=replace(found.plan, outcome=f"{told} {found.plan.outcome}"))
        foretold = replace(foretold, home=home)
    decision = Decision(
        found.plan, None, spread=found.result.spread, foretold=foretold, study=resolved(study, found)
    )
    return explained(
        decision, bench, space, found, deadline, lambda done: on_progress(_RACE + (1 - _RACE) * done)
    )


def _at_once(
    prepared: Prepared, bench: Bench, space: Space, found: TrialPlan, deadline: Deadline
) -> tuple[Study, Space, TrialPlan] | None:
    """One upload in the place of many, of a study that names no algorithm, where trials advise it.

    None without a trial where the study is for its owners or states a clip, which is one of gradients, and
    where noise leaves little of one upload.
    """
    study, task = of_algorithm(prepared.study, AT_ONCE), prepared.task
    other, stated = replace(prepared, study=study), prepared.study.privacy.clip_norm != "auto"
    if study is prepared.study or stated or delivers_to_owners(prepared) or not isinstance(task, LinearModel):
        return None
    if not found.plan.train or not worth_a_trial(bench.facts.problem, task.dimension // task.outputs):
        return None
    try:
        method(AT_ONCE).check(other.question, study.algorithm)
    except UserError:
        return None
    once = space_of(other)
    kinds, seeds = treatments_of(other, bench), prepared.study.planning.seeds
    chosen = in_place_of(bench, space, found, once, kinds, seeds, deadline)
    if chosen is None:
        return None
    note = (
        f"[algorithm] is left out, and in trials one upload is no worse than the {found.plan.uploads.max()} "
        f"of {found.plan.algorithm}; name that to have it planned."
    )
    return study, once, replace(chosen, plan=replace(chosen.plan, notes=(*chosen.plan.notes, note)))


def by_tuning(prepared: Prepared) -> bool:
    """Whether settings are compared by what owners make of them: where the model is for its owners.

    A metric that the study names is that of the shared model, and chooses as for others.
    """
    return delivers_to_owners(prepared) and prepared.study.planning.metric == "loss"


def open_bench(prepared: Prepared, *, for_owners: bool = False) -> Bench:
    """The public data on which a study is planned, by the shared model or by what owners make of it."""
    use_persistent_cache()
    facts = replace(prepared.public_facts(), for_owners=for_owners)
    public, located = prepared.study.planning.public, prepared.study.located
    if public == "auto":
        featured = prepared.study.task.features is not None
        weights = public_sources(facts, prepared.relatives, featured=featured)
        if len(facts.record_shape) > 1 and not isinstance(prepared.task, LinearModel):
            shown = [one for one in weights if is_made(one) or is_alike(one, facts.record_shape)]
            weights = dict.fromkeys(shown[:_OF_NETWORKS], 1.0)
    else:
        weights = {located(one): 1.0 for one in public}
    return Bench(facts, list(weights), prepared.study.federation.data_dir, list(weights.values()))


def _check(prepared: Prepared) -> None:
    study = prepared.study
    if stated := study.constants.assumed():
        raise ConfigError(
            f'[constants] source = "fitted" has no use for {", ".join(stated)}; leave them out, or leave out '
            "source to plan by them"
        )
    if prepared.federation is None:
        raise ConfigError(
            "[constants] are missing: planning from sizes alone needs constants of the loss (the README has "
            "them); or give data to plan by trial"
        )
    metric, numbers = study.planning.metric, prepared.federation.classes is None
    if metric != "loss" and numbers != (metric == "r2"):
        fits = '"loss" or "r2"' if numbers else '"loss", "accuracy", "balanced-accuracy" or "auc"'
        raise ConfigError(f'[planning] metric = "{metric}" is none of these labels; take {fits}')
    if not law_of(study.privacy.mechanism).noisy:
        raise ConfigError(NOTHING_TO_TRY)
    if tells_clients_apart(study):
        raise ConfigError(
            "trials ask all clients alike; state clip_norm and step_size to ask by budget or heterogeneity"
        )
    table: Any = study.algorithm
    for key in table.model_fields_set & {"rule", "loss_shape"}:
        if (stated := getattr(table, key)) not in ("joint", "auto"):
            raise ConfigError(f'[algorithm] {key} = "{stated}" needs [constants], not trials; leave it out')
    if (steps := getattr(table, "local_steps", "auto")) != "auto" and table.total_iterations == "auto":
        check.count("local_steps", steps, most=table.max_iterations, remedy="raise max_iterations")
    method(table.name).check(prepared.question, table)


def treatments_of(prepared: Prepared, bench: Bench) -> list[Treatment | None]:
    """Treatments of records to choose from: of a linear model whose `[task]` says nothing about them.

    A reference is tried where the records are images and at least two public data sets are real images, too;
    public features are tried where the study asks for them, against all public images there are. Stand-ins of
    which fewer than two are real images cannot tell wavelets from pixels: large images take features then.
    """
    task = prepared.task
    if not isinstance(task, LinearModel) or prepared.study.task.model_fields_set & TREATED:
        return [None]
    shape, data_dir = prepared.trained()[0].feature_shape, prepared.study.federation.data_dir
    real = alike(bench.sources, shape, data_dir) if len(shape) > 1 else []
    plain = treatments(shape, real, bench.facts.record_size, bench.facts.classes)
    if (features := prepared.study.task.features) is None:
        return [*plain, Treatment(centred=True)] if may_centre(prepared) else [*plain]
    if features == "fourier":
        return [*_curved(bench.facts.record_size)]
    if FOURIER.fullmatch(features):
        return [Treatment(features=features)]
    public = [*real, SCENES] if fits(shape) else real
    if is_encoder(features):
        return [*encoded(features, task.features, public)]
    seen = featured(public) if len(shape) > 1 else []
    if features != "auto":
        return [*seen]
    if len(real) < _REAL_IMAGES and len(shape) > 1:
        return [*seen] if min(shape[:2]) >= _LARGE else [*plain]
    return [*plain, *seen]


def _curved(size: float | None) -> list[Treatment]:
    if found := curved(size):
        return found
    raise ConfigError(
        '[task] features = "fourier" takes its bandwidth from public ranges, which are unknown; state '
        '[columns] with ranges, or features = "fourier:COUNT:BANDWIDTH:SEED"'
    )


def space_of(prepared: Prepared) -> Space:
    """What a study leaves free: keys that it does not state, or states as "auto".

    Networks are steered only where a study says so: no public data have told yet whether it helps them. So
    are models of images: their stand-ins differ so much that steering wins among them, and goes too far.
    """
    study = prepared.study
    table: Any = study.algorithm
    stated = table.model_fields_set
    fixed = {name: given(getattr(table, name)) for name in stated}
    keys, batch = method(table.name).space.keys, fixed.get("batch_size")
    linear = isinstance(prepared.task, LinearModel)
    of_rows = linear and len(prepared.trained()[0].feature_shape) == 1
    return Space(
        table.name, rounds=fixed.get(keys.rounds or ""), work=fixed.get(keys.work),
        clients_per_round=fixed.get("clients_per_round"),
        most=fixed.get(keys.most) or (_MOST if linear else _MOST_OF_NETWORKS),
        clip_norm=given(study.privacy.clip_norm), step_size=fixed.get("step_size"),
        decay_rounds=decay(table.step_decay) if "step_decay" in stated else None,
        momentum=fixed.get("momentum"), averaging=fixed.get("averaging"), weighting=fixed.get("weighting"),
        steering=fixed.get("steering", None if of_rows else 0.0), floor=prepared.steering_floor,
        batch_size=None if batch == "full" else batch,
        own={name: fixed[name] for name in keys.own if fixed.get(name) is not None},
    )  # fmt: skip


def resolved(study: Study, found: TrialPlan) -> Study:
    """The study with what the plan decided in the place of what was free."""
    if found.treatment is not None:
        study = with_task(study, found.treatment.keys())
    plan = found.plan
    if not plan.train or plan.step is None:
        return study
    steps = plan.step.decay_rounds
    keys = {
        **method(plan.algorithm).space.decided(plan),
        "step_size": plan.step.initial,
        "step_decay": steps if np.isfinite(steps) else "none",
        "momentum": plan.momentum,
        "averaging": plan.averaging,
        "weighting": plan.weighting,
        "steering": plan.steering.gain if plan.steering else 0.0,
    }
    known = type(study.algorithm).model_fields
    algorithm = study.algorithm.model_copy(update={k: v for k, v in keys.items() if k in known})
    privacy = study.privacy.model_copy(update={"clip_norm": plan.problem.clip_norm})
    return study.model_copy(update={"algorithm": algorithm, "privacy": privacy})


def _foretold(found: TrialPlan, metric: Metric, weights: tuple[float, ...]) -> Foretold:
    each = found.accuracy.mean(axis=1)
    return Foretold(
        loss=float(found.loss.mean()), losses=tuple(found.loss.tolist()), accuracy=float(each.mean()),
        accuracies=tuple(each.tolist()), least=float(found.accuracy.min()), most=float(found.accuracy.max()),
        sources=found.sources, lost=tuple(found.result.lost.tolist()), quality=_quality(found, metric),
        weights=weights, frontier=tuple(found.result.frontier),
    )  # fmt: skip


def _quality(found: TrialPlan, metric: Metric) -> Quality | None:
    """What trials say of the metric that the study names."""
    if metric == "loss" or (values := found.result.scores.quality) is None:
        return None
    return Quality(metric, *(float(one(values)) for one in (np.mean, np.min, np.max)))
