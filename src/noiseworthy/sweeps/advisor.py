"""Which algorithm suits a federation? All of them planned by trial on public data, and a recommendation.

No private record is read: proxies are public, and noise follows from public sizes and budgets.
"""

from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from typing import Any

import numpy as np

from noiseworthy._json import strict_json
from noiseworthy._tables import Table
from noiseworthy._validate import Real
from noiseworthy.errors import ConfigError, InvalidInput, UserError
from noiseworthy.methods.registry import METHODS, method
from noiseworthy.plans.plan import Plan
from noiseworthy.privacy.mechanisms import law_of
from noiseworthy.studies.at_home import advice as home_advice
from noiseworthy.studies.at_home import delivers_to_owners
from noiseworthy.studies.by_trial import by_tuning, open_bench, resolved, space_of, treatments_of
from noiseworthy.studies.prepare import Prepared
from noiseworthy.studies.tables import ConstantsTable, Study
from noiseworthy.sweeps.advice_words import assumptions, recommendation, remarks, warnings
from noiseworthy.sweeps.typed_advice import ADVICE_VERSION, OF_TUNED, AdviceValues, SettingPart
from noiseworthy.tasks.qualities import score_of
from noiseworthy.trials import advisor as trials
from noiseworthy.trials.advisor import CAP, Entry, LeftOut, Progress, ranking, recommended, side_by_side
from noiseworthy.trials.at_home import at_home
from noiseworthy.trials.bench import Bench
from noiseworthy.trials.crossovers import Outlook, outlook
from noiseworthy.trials.facts import PublicFacts

_OUTLOOK = 0.1
"""Share of the time for the question when the answer would flip."""
SECONDS = 300.0
"""Time for all races where a study states none."""
NAMES = tuple(METHODS)
"""Algorithms from simple to intricate, which decides between equals."""
_BYTES = 4
"""Of a float32, in which models travel."""


@dataclass(frozen=True)
class Advised:
    """An algorithm in the ranking.

    Attributes:
        place: 1 is best; those that tie share one.
        entry: its plan by trial, and the common trials.
        study: the study with this algorithm and everything decided.
    """

    place: int
    entry: Entry
    study: Study

    @property
    def plan(self) -> Plan:
        """Its plan, for the private federation."""
        return self.entry.found.plan


@dataclass(frozen=True)
class Advice:
    """All algorithms of a study side by side.

    Attributes:
        advised: best first.
        left_out: with the reasons.
        recommended: name of the algorithm to train with; None where nobody should train.
        clients: N.
        clients_that_work: how many clients like these would make training work; None where training is
            worth its noise already, or where 64 times as many would not do.
        sources: names of the public data.
        score: what algorithms reach, by the name that is shown: "accuracy", "R^2" or the study's metric.
        ranked_by: by which they are compared: the loss, that of tuned models, or the study's metric.
        outlook: when the next best algorithm would do better; None where there is none, or it is a tie.
        owners: whether owners should share, tune or stay home, in words; empty of a model for others.
    """

    advised: tuple[Advised, ...]
    left_out: tuple[LeftOut, ...]
    recommended: str | None
    clients: int
    clients_that_work: int | None
    sources: tuple[str, ...]
    score: str
    ranked_by: str
    outlook: Outlook | None
    owners: str = ""

    @property
    def study(self) -> Study | None:
        """The study to train, all decided and nothing asked of trials; None where nobody should train."""
        for one in self.advised:
            if one.entry.name == self.recommended:
                asked = one.study.planning
                size = "range" if asked.label_scale == "bought" else asked.label_scale
                planning = asked.model_copy(update={"metric": "loss", "label_scale": size})
                return one.study.model_copy(update={"planning": planning})
        return None

    def as_dict(self) -> dict[str, Any]:
        """The advice as plain values, the contract of `noiseworthy advise --json`."""
        values = {
            "recommended": self.recommended, "score": self.score, "ranked_by": self.ranked_by,
            "clients": self.clients, "clients_that_work": self.clients_that_work,
            "public": list(self.sources),
            "seeds": int(self.advised[0].entry.loss.shape[1]),
            "algorithms": [_row(one) for one in self.advised],
            "left_out": [vars(one) for one in self.left_out],
            "outlook": None if self.outlook is None else asdict(self.outlook),
            "owners": self.owners,
            "study": self.study and _anywhere(self.study).model_dump(mode="json", exclude_none=True),
        }  # fmt: skip
        found = AdviceValues.model_validate(values)
        words = {"remarks": remarks(found), "warnings": warnings(found)}
        return strict_json({"recommendation": recommendation(found), **values, **words})


def _anywhere(study: Study) -> Study:
    """The study as a file in any folder states it: its paths of data start at the root."""
    located, table, data = partial(study.located, absolute=True), study.federation, study.planning.public
    paths = {"data": table.data and located(table.data), "test": table.test and located(table.test)}
    folder = table.data_dir and table.data_dir.absolute()
    public = data if data == "auto" else [*map(located, data)]
    reference = study.task.reference and [*map(located, study.task.reference)]
    tables = {
        "federation": table.model_copy(update={**paths, "data_dir": folder}),
        "task": study.task.model_copy(update={"reference": reference}),
        "planning": study.planning.model_copy(update={"public": public}),
    }
    return study.model_copy(update=tables)


def advice_record(advice: Advice, name: str) -> dict[str, Any]:
    """The advice with what it was made for, when and by what: what a run folder holds."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    made = {"record_version": ADVICE_VERSION, "name": name, "created": now, "version": version("noiseworthy")}
    return {**strict_json(made), **advice.as_dict()}


def advise(prepared: Prepared, on_progress: Progress = lambda name, done: None) -> Advice:
    """Plan a study with every algorithm that suits it, and rank the plans by common trials.

    The study's own algorithm keeps its `[algorithm]` keys and its clip, and is tried first; the others are
    planned from public facts alone. `[constants]` are not used.

    Args:
        prepared: the study.
        on_progress: told the algorithm that is tried, and the share of the work that is done.

    Returns:
        An `Advice`; a function of public inputs alone, unless the time cuts a race short.

    Raises:
        ConfigError: no data or no noise. InvalidInput: public data that are the study's own or do not fit.
    """
    if not isinstance(prepared, Prepared):
        said = "advise takes a study that was opened"
        raise InvalidInput(f"{said}, got a {type(prepared).__name__}; give prepare(load_study(path))")
    planning = prepared.study.planning
    seconds = planning.budget_seconds or SECONDS
    studies, left_out = entrants(prepared)
    bench = open_bench(prepared, for_owners=by_tuning(prepared))
    # not against a mean that clients tell: few algorithms can, and no study states it
    kinds = [one for one in treatments_of(prepared, bench) if one is None or not one.centred]
    entries, refused = side_by_side(
        bench, [space_of(replace(prepared, study=one)) for one in studies], kinds,
        seeds=planning.seeds, seconds=seconds * (1 - _OUTLOOK), on_progress=on_progress,
    )  # fmt: skip
    ranked = ranking(entries)
    chosen = recommended(sorted(entries, key=lambda one: NAMES.index(one.name)))
    by_name, best = {one.algorithm.name: one for one in studies}, ranked[0][1]
    treatment = best.found.result.winner.treatment
    others = [one for place, one in ranked if place > 1 and one.train]
    return Advice(
        tuple(Advised(place, one, resolved(by_name[one.name], one.found)) for place, one in ranked),
        (*left_out, *refused), None if chosen is None else chosen.name, bench.facts.problem.n_clients,
        None if chosen else trials.clients_that_work(bench, best.space, treatment, seeds=planning.seeds),
        bench.sources, *_named(bench.facts),
        outlook(bench, chosen, others[0], seconds * _OUTLOOK) if chosen and others else None,
        "" if chosen is None else _for_owners(prepared, bench, chosen),
    )  # fmt: skip


def _named(facts: PublicFacts) -> tuple[str, str]:
    """What is reached, and what is compared, by their names."""
    shown = score_of(facts.metric, facts.classes)
    if facts.for_owners:
        return shown, OF_TUNED
    return shown, "loss" if facts.metric == "loss" else shown


def _for_owners(prepared: Prepared, bench: Bench, chosen: Entry) -> str:
    """Whether owners should share what is recommended, tune it, or stay home; empty of a model for others."""
    if not delivers_to_owners(prepared):
        return ""
    home = at_home(bench, chosen.space, chosen.found.result.winner)
    return home_advice(home, numbers=bench.facts.classes is None)


# Who enters -------------------------------------------------------------------------------------------


def entrants(prepared: Prepared) -> tuple[list[Study], list[LeftOut]]:
    """The study with each algorithm that its noise allows, its own first, and who is left out.

    Raises:
        ConfigError: no data or no noise, or secret cohorts, with which nothing is planned by trial.
    """
    study = prepared.study
    prepared.trained()
    if study.privacy.whom.secret:
        raise ConfigError(
            'advice plans by trial, which [privacy] cohorts = "secret" cannot; ask it with cohorts = "public"'
        )
    if not law_of(study.privacy.mechanism).noisy:
        raise ConfigError(
            "there is nothing to advise on without noise: asking everybody always is best then; set "
            '[privacy] mechanism = "gaussian" or "laplace"'
        )
    own = study.algorithm.name
    against = {name: _unsuited(name, prepared) or _refused(name, prepared) for name in NAMES}
    reasons = {name: reason for name, reason in against.items() if reason}
    names = [own, *(name for name in NAMES if name != own)]
    entering = [with_algorithm(study, name, len(prepared.sizes)) for name in names if name not in reasons]
    return entering, [LeftOut(name, reason) for name, reason in reasons.items()]


def _unsuited(name: str, prepared: Prepared) -> str:
    """Why an algorithm cannot enter, empty if it can."""
    study = prepared.study
    only, noise = method(name).only, study.privacy.mechanism
    if method(name).for_owners and name != study.algorithm.name and not delivers_to_owners(prepared):
        return 'its clients train models of their own, which is for [deliver] to = "owners"'
    if study.privacy.whom.in_sums and (reads := method(name).reads):
        return f'under trust = "{study.privacy.trust}" only sums are seen: {reads}'
    if only in (None, noise):
        return ""
    if not law_of(only).noisy:
        return "it adds no noise, so it protects nobody"
    return f"it is defined for {law_of(only).title} noise only, and the study has {noise}"


def _refused(name: str, prepared: Prepared) -> str:
    """Why an algorithm refuses weights of records, or persons, which public data of its race do not have."""
    federation = prepared.federation
    if federation is None or (federation.most_weight is None and federation.persons is None):
        return ""
    study = with_algorithm(prepared.study, name, len(prepared.sizes))
    try:
        method(name).check(replace(prepared, study=study).question, study.algorithm)
    except UserError as error:
        return str(error)
    return ""


def with_algorithm(study: Study, name: str, clients: int) -> Study:
    """The study with another algorithm, of which nothing is stated but what it cannot do without.

    Args:
        study: keeps its own `[algorithm]` keys and clip where it has this algorithm.
        name: of the algorithm.
        clients: N, asked in every round where an algorithm needs a number and the study states none.

    Example:
        >>> from noiseworthy.studies.loading import parse_study
        >>> study = parse_study({"federation": {"data": "wine"}, "privacy": {"mechanism": "laplace"}})
        >>> with_algorithm(study, "weiavg", 4).algorithm.model_dump(exclude_unset=True)
        {'name': 'weiavg', 'clients_per_round': 4}
    """
    changed: dict[str, Any] = {"constants": ConstantsTable()}
    if name != study.algorithm.name:
        stated = getattr(study.algorithm, "clients_per_round", "auto")
        changed["algorithm"] = _table(name, stated if isinstance(stated, int) else clients)
        changed["privacy"] = study.privacy.model_copy(update={"clip_norm": "auto"})
    return study.model_copy(update=changed)


def _table(name: str, clients_per_round: int) -> Table:
    table = method(name).table
    field = table.model_fields.get("clients_per_round")
    keys = {"clients_per_round": clients_per_round} if field is not None and field.is_required() else {}
    return table.model_validate({"name": name, **keys})


# As plain values --------------------------------------------------------------------------------------


def _row(one: Advised) -> dict[str, Any]:
    entry, result = one.entry, one.entry.found.result
    return {
        "name": entry.name, "place": one.place, "train": entry.train, "same_as": entry.same_as or None,
        "outcome": one.plan.outcome, "plan": _setting(one), "loss": _bands(np.minimum(entry.loss, CAP)),
        "accuracy": _bands(entry.score), "privacy": _privacy(one.plan), "cost": _cost(one.plan),
        "assumes": list(assumptions(one.plan)), "spread": result.spread, "trainings": result.trainings,
        "unfinished": result.unfinished,
    }  # fmt: skip


def _setting(one: Advised) -> dict[str, Any]:
    stated, treatment = one.plan.as_dict(), one.entry.found.treatment
    counts = {name: stated[name] for name in SettingPart.model_fields if name in stated}
    return {**counts, "records": None if treatment is None else treatment.keys()}


def _bands(values: Real) -> dict[str, Any]:
    """Mean and bands of a quantity of shape (P, S): over proxies and seeds, and over seeds of the mean."""
    each = values.mean(axis=0)
    return {
        "mean": float(each.mean()), "least": float(values.min()), "most": float(values.max()),
        "of_each_public": values.mean(axis=1).tolist(), "seeds_least": float(each.min()),
        "seeds_most": float(each.max()), "standard_error": float(each.std(ddof=1) / np.sqrt(each.size)),
    }  # fmt: skip


def _privacy(plan: Plan) -> dict[str, Any]:
    """Unit and budget, and what the client that is worst off spends."""
    return {
        "unit": plan.budget.unit,
        "relation": plan.budget.relation,
        "spent_epsilon": float(plan.spent().max()),
        "epsilon": float(plan.budget.epsilon.max()),
        "delta": float(plan.budget.delta.max()),
        **({"adversary": plan.problem.trust.adversary} if plan.problem.trust.in_sums else {}),
    }


def _cost(plan: Plan) -> dict[str, Any]:
    """What training costs the clients: uploads, bytes that they send, local steps, and `[resources]`."""
    uploads, resources = plan.uploads, plan.problem.resources
    return {
        "uploads": [int(uploads.min()), int(uploads.max())],
        "all_uploads": int(uploads.sum()),
        "bytes": int(uploads.max()) * plan.numbers * _BYTES,
        "local_steps": int(plan.steps.max()),
        "resources": None if plan.cost is None else float(plan.cost.max()),
        "unit": None if resources is None else resources.unit,
    }
