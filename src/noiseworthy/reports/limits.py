"""What a run does not protect, and what the printed formulas of its paper would have given away."""

from __future__ import annotations

from noiseworthy._wording import about, count, number, percent, rounded_up, shortened_apart, span
from noiseworthy.data.records import words_of_tests
from noiseworthy.privacy.mechanisms import law_of
from noiseworthy.reports import at_home
from noiseworthy.reports.alternatives import faults_of_printed, leak_of
from noiseworthy.reports.clauses import Clause
from noiseworthy.reports.schedules import words_of
from noiseworthy.studies.clients import large_deltas
from noiseworthy.studies.typed_record import FederationPart, PrivacyPart, RunRecord
from noiseworthy.studies.typed_sweeps import ComparePart, RivalsPart


def limits(record: RunRecord) -> Clause | None:
    """Everything that the guarantee leaves out; None where there is none."""
    privacy, compare = record.plan.privacy, record.compare
    if not privacy.private:
        return None
    unit, when = privacy.unit, words_of(record.plan).when(record.plan.written)
    points = [
        *record.read_off,
        *_sizes(privacy),
        *_large_deltas(record),
        _of_cohorts(record, when),
        _of_one_person(record),
        f"What is true of many {unit}s is learnt; that is the purpose of training.",
        "Every other run on the same records adds to what is spent, tuning and repeated training included.",
        "The test set and public data are read in the clear; keep records that need protection out of them.",
        *_test_records(record.federation),
        *_at_home(record),
    ]
    if compare is not None:
        settings = count(len(compare.cells) + len(compare.usual), "setting")
        points.append(f"The comparison simulated {settings} on the same records; for real, each is charged.")
        points += _search(compare)
    if record.tradeoff:
        trained = count(sum(cell.train for cell in record.tradeoff.cells), "training")
        points.append(f"The trade-off simulated {trained} on the same records; for real, each is charged.")
    if record.rivals:
        points.append(_rivals(record.rivals))
    return Clause("What is not protected", "Outside of the guarantee:", tuple(points), "limit")


def _of_cohorts(record: RunRecord, when: str) -> str:
    """Who knows who took part, and what is counted on it."""
    if (rate := record.plan.asked_with) is None:
        return f"Who takes part in which round is seen{when}; no amplification by client sampling is claimed."
    return (
        f"Epsilon counts on it that nobody but the server ever learns who took part in which round (each "
        f"client with probability {number(rate)}, by a coin of its own): it does not hold against anybody "
        "who sees traffic, logs or lists of them. The record names nobody's rounds; the seed of a simulation "
        "would give coins and noise away alike."
    )


def of_several(record: RunRecord) -> str:
    """What several records of one person cost together, where no study says how many; else empty."""
    if record.claim is None or not record.claim.several:
        return ""
    several = [f"{one.records} cost epsilon {span(one.epsilon, rounded_up)}" for one in record.claim.several]
    delta = span((row.delta for row in record.plan.privacy.clients), rounded_up)
    return f"Of the records of one person at one client, {' and '.join(several)} together, at delta {delta}."


def _of_one_person(record: RunRecord) -> str:
    """What more than one record of somebody costs."""
    of_records = record.plan.privacy.unit == "record"
    several = "several records" if of_records else "records at several clients"
    said = f"Somebody with {several} is protected less: epsilon grows with their number."
    if of_records and record.claim and (persons := record.claim.persons):
        return (
            f"{said} The {persons.records} records that a person has at most at one client cost together "
            f"epsilon {span(persons.epsilon, rounded_up)}."
        )
    return f"{said} {of_several(record)}".strip()


def _sizes(privacy: PrivacyPart) -> list[str]:
    """What is public of sizes, under add-remove neighbours against the relation's own word."""
    what = "persons each client has" if privacy.unit == "person" else "records each client holds"
    public = f"How many {what}, its budget, and the whole study file are public."
    if privacy.relation == "replace-one" or privacy.unit == "client":
        return [public]
    return [
        public,
        f"The relation add-remove hides whether a {privacy.unit} is there in the uploads, whose means divide "
        f"by the published sizes, and not in these sizes: whoever knows all other {privacy.unit}s of a "
        "client can tell from its size.",
    ]


def _large_deltas(record: RunRecord) -> list[str]:
    privacy, sizes = record.plan.privacy, record.federation.sizes if record.federation else []
    deltas = [row.delta for row in privacy.clients[: len(sizes)]]
    return large_deltas(privacy.unit, deltas, sizes, record.client_names)


def _test_records(federation: FederationPart | None) -> list[str]:
    """Where the test records come from, and what scores on them cost; nothing without data."""
    if federation is None or federation.test_origin is None:
        return []
    return [words_of_tests(count(federation.test_records, "test record"), federation.test_origin)]


def _at_home(record: RunRecord) -> list[str]:
    """What owners make of the model at home, where it is delivered to them; else nothing."""
    if record.study.get("deliver", {}).get("to") != "owners":
        return []
    return [
        f"The model is for its owners: {at_home.planned_for(record)}.",
        "Models that owners make at home, their own and the shared one tuned, read their records without "
        "noise and never leave them. One that is handed on carries no guarantee for its owner's records, and "
        "neither do scores of it, nor a report with those.",
    ]


def _rivals(rivals: RivalsPart) -> str:
    private = [point for point in rivals.points if law_of(point.mechanism).noisy]
    trained = count(sum(len(point.algorithms) for point in private), "private training")
    return (
        f"The comparison of DPFL-BCS with its rivals simulated {trained} and FedSGD on the same records; for "
        "real, each private one is charged, and FedSGD hides nothing."
    )


def _search(compare: ComparePart) -> list[str]:
    """What all fixed settings of the comparison would spend together."""
    if compare.search_epsilon is None:
        return []
    return [
        "Each fixed setting trained once on private records would, all together, spend epsilon "
        f"{rounded_up(compare.search_epsilon)} of the client that is worst off: a price that planning avoids."
    ]


def as_printed(record: RunRecord) -> Clause | None:
    """What the source paper's formulas would add, where they differ from a sound answer."""
    plan, printed, noise = record.plan, record.plan.as_printed, record.plan.noise
    if "overspending_share" in printed:
        return _in_fractions(record)
    if not printed or "noise" not in printed or not (any(noise) or leak_of(plan)):
        return None
    words = words_of(plan)
    keys = [key for key in words.decided if key in printed]
    same_setting = all(printed[key] == plan.written.get(key) for key in keys)
    as_noisy = all(theirs >= ours * (1 - 1e-9) for theirs, ours in zip(printed["noise"], noise, strict=True))
    if same_setting and as_noisy:
        return None
    ours = f"here the noise is {span(noise)}" if any(noise) else "here nothing is trained"
    text = (
        f"By the formulas as printed: {words.symbols(printed, keys)} and noise {span(printed['noise'])}; "
        f"{ours}. The printed one is not private ({printed['why']}) and was not used."
    )
    return Clause("As printed: not private", text, _leaked(record), kind="limit")


def _in_fractions(record: RunRecord) -> Clause:
    """What becomes of a client that is planned for a fraction of a reply, and then asked for a whole one."""
    plan, printed = record.plan, record.plan.as_printed
    worst = printed["worst_client"]
    name, factor = shortened_apart(record.client_names, 40)[worst], about(printed["worst_overspending"])
    text = (
        f"By the formulas as the paper prints them, clients take part {span(printed['releases'])} times, in "
        f"real numbers, and split their budgets over as many replies; here {span(plan.releases)} times, "
        "in whole ones. The printed plan is not private and was not used."
    )
    point = (
        f"Asked as long as anything is left, {percent(printed['overspending_share'])} of the clients would "
        f"spend more than their budget. Worst off is {name}: planned for "
        f"{number(printed['releases'][worst])} replies, it would spend {factor} times its epsilon."
    )
    return Clause("As printed: not private", text, (point,), kind="limit")


def _leaked(record: RunRecord) -> tuple[str, ...]:
    """What the printed noise would spend, and why its setting could not be run."""
    if (leak := leak_of(record.plan)) is None:
        return ()
    spends = (
        f"Of a budget of epsilon {rounded_up(leak.budget, 6)} the printed noise would spend "
        f"{rounded_up(leak.printed)}, counted exactly, and {rounded_up(leak.converted)} by the paper's own "
        "conversion."
    )
    not_run = "; ".join(faults_of_printed(record.plan))
    return (spends, *([f"The printed setting could not be run: {not_run}."] if not_run else []))
