"""What an advice says in words: what an algorithm rests on, what to do, and why."""

from collections.abc import Sequence

from noiseworthy.methods.registry import method
from noiseworthy.plans.plan import Plan
from noiseworthy.sweeps.typed_advice import OF_TUNED, AdviceValues, AdvisedPart, FlipPart

SPREAD_WARNING = 0.1
"""Lost gain on one public data set above which a plan is warned of."""
_CONVEX = "privacy: a convex loss and steps of at most 2 over its smoothness"
_ONE_STEP = "privacy: no property of the loss, as each {row}'s gradient is clipped"
_MOMENTS = "privacy: no property of the loss, as each record's second moments are clipped"
_WHOLE = "privacy: no property of the loss, as a client counts as a whole"


def assumptions(plan: Plan) -> tuple[str, ...]:
    """What a plan takes for granted: for its proof of privacy, and of server and clients.

    Example:
        >>> from types import SimpleNamespace as Fake
        >>> facts = Fake(clipping="B", n_clients=10)
        >>> said = assumptions(Fake(algorithm="dp-fedavg", problem=facts, clients_per_round=5))
        >>> said[0]
        'privacy: a convex loss and steps of at most 2 over its smoothness'
        >>> said[1]
        '5 of 10 clients online in a round'
    """
    words = method(plan.algorithm).words
    online = words.online(plan.clients_per_round, plan.problem.n_clients)
    return tuple(filter(None, [_proof(plan), words.knows, online]))


def _proof(plan: Plan) -> str:
    if plan.problem.clipping == "A":
        return _ONE_STEP.format(row=plan.problem.row)
    return {"B": _CONVEX, "E": _CONVEX, "M": _MOMENTS}.get(plan.problem.clipping, _WHOLE)


# What to do -------------------------------------------------------------------------------------------


def recommendation(advice: AdviceValues) -> str:
    """What to do, in a sentence.

    Args:
        advice: what was found.
    """
    if advice.recommended is None:
        remedy = "Not even 64 times as many clients like these would do: allow a larger epsilon."
        if (enough := advice.clients_that_work) is not None:
            more = f"Collect more clients: with N = {enough:,} like these it would work."
            remedy = f"{more} Or allow a larger epsilon."
        return f"Do not train: in trials on public data no algorithm beat the untrained model. {remedy}"
    best = find(advice, advice.recommended)
    what = best.outcome.removeprefix("Train ").removesuffix(".").removesuffix(", chosen by trial")
    tuned = " of models tuned at home" * (advice.ranked_by == OF_TUNED)
    trials = f"{reached(advice, best)}{tuned} in trials on public data, {band(advice, best)}"
    return f"Train with {best.name}: {what}; {trials}."


def find(advice: AdviceValues, name: str) -> AdvisedPart:
    """An algorithm of the advice by its name."""
    return next(one for one in advice.algorithms if one.name == name)


def reached(advice: AdviceValues, one: AdvisedPart) -> str:
    """The mean score that is predicted."""
    return f"{written(advice.score, one.accuracy.mean)} {advice.score.replace('^2', '²')}"


def band(advice: AdviceValues, one: AdvisedPart) -> str:
    """From the least to the greatest score over public data sets and seeds."""
    return f"{ends(advice, one.accuracy.least, one.accuracy.most)} over data sets and seeds"


def ends(advice: AdviceValues, least: float, most: float) -> str:
    """From one score to another."""
    return f"{written(advice.score, least).removesuffix(' %')} to {written(advice.score, most)}"


def written(kind: str, score: float) -> str:
    """An accuracy in per cent, an R² or AUC to two digits.

    Example:
        >>> written("accuracy", 0.5), written("R^2", 0.5)
        ('50.0 %', '0.50')
    """
    return f"{100 * score:.1f} %" if "accuracy" in kind else f"{score:.2f}"


# What else to know ------------------------------------------------------------------------------------


def remarks(advice: AdviceValues) -> list[str]:
    """What to know before following the recommendation: ties, whose protection, when it would flip."""
    if advice.recommended is None:
        return []
    best = find(advice, advice.recommended)
    protected, flips = _protected(advice, best), _flips(advice, best)
    said = [advice.owners, _same(advice), _ties(advice, best), protected, *flips, _trusts(advice)]
    return [one for one in said if one]


def _trusts(advice: AdviceValues) -> str:
    """What the recommended algorithm would reach with other trust."""
    rows = [] if advice.outlook is None else advice.outlook.trust
    if len(rows) < 2:
        return ""
    said = ", ".join(f"{one.model} {written(advice.score, one.accuracy)}" for one in rows)
    return f"What would trust buy here? By the bound fitted to its trials, each with its best counts: {said}."


def _flips(advice: AdviceValues, best: AdvisedPart) -> list[str]:
    """When another algorithm would do better, and how far the bounds that say so can be trusted."""
    outlook = advice.outlook
    if outlook is None or not outlook.flips:
        return []
    fits = zip((best.name, outlook.other), outlook.fits, strict=True)
    poor = [f"that of {name} {fit}" for name, fit in fits if "poorly" in fit]
    doubt = f" ({'; '.join(poor)})" if poor else ""
    shared = " of shared models, before they are tuned" * (advice.ranked_by == OF_TUNED)
    return [f"By bounds fitted to trials{shared}{doubt}: {when(best.name, outlook.other, outlook.flips)}."]


def when(name: str, other: str, flips: Sequence[FlipPart]) -> str:
    """Where another algorithm does better, and where trials say that it does not.

    Example:
        >>> epsilon = FlipPart(axis="epsilon", below=None, above=7.93, low=1.0, high=16.0)
        >>> clients = FlipPart(axis="clients", below=None, above=None, low=5, high=40)
        >>> when("weiavg", "pfa", [epsilon, clients])
        'pfa does better at epsilon above 7.9; weiavg stays ahead of pfa at clients 5 to 40'
    """
    sides = [(flip, side) for flip in flips for side in ("below", "above") if getattr(flip, side) is not None]
    better = [f"{flip.axis} {side} {_short(getattr(flip, side))}" for flip, side in sides]
    nowhere = [flip for flip in flips if flip.below is None and flip.above is None]
    ahead = [f"{flip.axis} {_short(flip.low)} to {_short(flip.high)}" for flip in nowhere]
    said = [f"{other} does better at {listed(better)}"] if better else []
    return "; ".join(said + ([f"{name} stays ahead of {other} at {listed(ahead)}"] if ahead else []))


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def _ties(advice: AdviceValues, best: AdvisedPart) -> str:
    ties = {_done_by(one): None for one in advice.algorithms if one.place == 1}
    names = [name for name in ties if name != _done_by(best)]
    if not names:
        return ""
    verb = "ties" if len(names) == 1 else "tie"
    return f"{listed(names)} {verb} with it: trials cannot tell them apart, and none takes fewer uploads."


def _same(advice: AdviceValues) -> str:
    """Who does the same here, because of equal budgets or because all are asked always."""
    groups: dict[str, list[str]] = {}
    for one in advice.algorithms:
        if one.same_as:
            groups.setdefault(one.same_as, []).append(one.name)
    return " ".join(
        f"{listed(names)} {'does' if len(names) == 1 else 'do'} the same as {name} here."
        for name, names in groups.items()
    )


def _done_by(one: AdvisedPart) -> str:
    """The algorithm that stands for all that do the same."""
    return one.same_as or one.name


def _protected(advice: AdviceValues, best: AdvisedPart) -> str:
    """Beside a claim for records the best that covers whole clients, which is more."""
    if best.privacy.unit == "client":
        return f"The epsilon of {best.name} covers a whole client: stronger than one for records or persons."
    whole = [one for one in advice.algorithms if one.privacy.unit == "client" and one.train]
    if not whole:
        return ""
    return (
        f"Its epsilon covers one {best.privacy.unit}. {whole[0].name} covers a whole client, a stronger "
        f"claim, and reaches {reached(advice, whole[0])}."
    )


def warnings(advice: AdviceValues) -> list[str]:
    """What a user must not miss: public data that disagree, races that were cut short."""
    said = []
    if advice.recommended is not None:
        best = find(advice, advice.recommended)
        if best.spread > SPREAD_WARNING:
            said.append(
                f"The public data sets disagree: on one of them the plan of {best.name} loses "
                f"{100 * best.spread:.0f} % of the attainable gain. Name public data closer to yours "
                "under [planning] public."
            )
    if cut := [one.name for one in advice.algorithms if one.unfinished]:
        said.append(
            f"The time ran out before the races of {listed(cut)} were over; they may do better with more "
            "(--budget-seconds)."
        )
    return said


def listed(names: Sequence[str]) -> str:
    """Names in a sentence.

    Example:
        >>> listed(["a"]), listed(["a", "b", "c"])
        ('a', 'a, b and c')
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
