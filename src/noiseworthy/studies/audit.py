"""Audit a study: plan it as `plan` does, audit that plan, and keep what was found as plain values."""

import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from noiseworthy._json import strict_json
from noiseworthy._wording import rounded_down, rounded_up
from noiseworthy.audit.audits import CONFIDENCE, FALSE_ALARM, TRIALS, Audit, Check, Effort, Progress, audit
from noiseworthy.audit.families import tradeoff
from noiseworthy.audit.statistics import rates_of
from noiseworthy.audit.targets import reconcile
from noiseworthy.errors import LedgerError
from noiseworthy.plans.plan import Plan
from noiseworthy.privacy.durable.accounts import LAST_BITS, WHOLE
from noiseworthy.privacy.durable.statement import statement
from noiseworthy.privacy.noise import ASSURANCE
from noiseworthy.studies.planner import Decision
from noiseworthy.studies.prepare import Prepared
from noiseworthy.studies.record import FILE, load_record
from noiseworthy.studies.run_folder import opened_ledger
from noiseworthy.studies.run_ledger import FILE as LEDGER
from noiseworthy.studies.typed_audit import AUDIT_VERSION, AuditRecord
from noiseworthy.tasks.linear import LinearModel

Record = dict[str, Any]
SECONDS = 40.0
"""Time for the trials, after which the audit makes do with those it has."""
_RATES = np.linspace(0, 1, 101)
_BINS = 60
_OF_A_PERSON = 8
"""Records that a canary has at most: each pulls as far, so that more of them tell no more."""


def audit_study(
    prepared: Prepared, decision: Decision, *, name: str, folder: Path | None = None, trials: int = TRIALS,
    seconds: float = SECONDS, on_progress: Progress = lambda done, what: None,
) -> Record:  # fmt: skip
    """Audit the plan of a study, and what was trained by it if a run folder is there.

    Args:
        prepared: the study.
        decision: its plan.
        name: of the study.
        folder: whose training is reconciled with the plan, if it holds one of the same plan.
        trials: coins that the attacker names.
        seconds: for them.
        on_progress: told the share done, and of what.

    Returns:
        Plain values, for a page and for `--json`.

    Raises:
        InvalidInput: a plan that does not train, without noise or step sizes.
    """
    started, plan = time.monotonic(), decision.plan
    person = min(prepared.study.persons_have_at_most or 2, _OF_A_PERSON)
    model = "linear" if prepared.task is None or isinstance(prepared.task, LinearModel) else "network"
    names = () if prepared.federation is None else prepared.federation.clients
    effort = Effort(prepared.study.task.ridge, model, trials, seconds, person=person, names=names)
    audits = audit(plan, effort, on_progress)
    trained = _run_checks(plan, folder)
    return strict_json(_record(plan, audits, trained, name) | {"seconds": time.monotonic() - started})


def _record(plan: Plan, audits: tuple[Audit, ...], trained: tuple[Check, ...], name: str) -> Record:
    passed = all(one.passed for one in (*audits, *trained))
    return {
        "record_version": AUDIT_VERSION, "name": name, "version": version("noiseworthy"),
        "algorithm": plan.algorithm, "mechanism": plan.problem.family, "unit": plan.budget.unit,
        "relation": plan.budget.relation, "adversary": plan.problem.trust.adversary, "assurance": ASSURANCE,
        "clients": plan.problem.n_clients, "passed": passed, "verdict": verdict(audits, trained),
        "confidence": CONFIDENCE, "false_alarm": FALSE_ALARM,
        "trainings": [_training(one) for one in audits], "run": [vars(check) for check in trained],
    }  # fmt: skip


def verdict(audits: tuple[Audit, ...], trained: tuple[Check, ...] = ()) -> str:
    """What the audit found, in a sentence."""
    failed = [check.name for one in audits for check in one.checks if not check.passed]
    failed += [check.name for check in trained if not check.passed]
    if failed:
        return f"The audit speaks against the claim: {', '.join(dict.fromkeys(failed))}."
    if beyond := [made.beyond for made in audits if made.beyond]:
        return f"Nothing is proven against the claim, but {', and '.join(beyond)}; try more --trials."
    last = audits[-1]
    return (
        f"Nothing speaks against the claim; the attack proves epsilon {rounded_down(last.proven)} of the "
        f"{rounded_up(last.claimed, 3)} that are claimed ({100 * last.proven / last.claimed:.0f} %)."
    )


def _training(made: Audit) -> Record:
    subject = made.trials.subjects[made.headline]
    return {
        "name": made.target.name, "rounds": made.target.plan.rounds, "client": int(subject),
        "delta": float(made.target.delta[subject]), "claimed_epsilon": made.claimed,
        "proven_epsilon": made.proven, "family_free_epsilon": made.bound.family_free,
        "exposed_epsilon": float(made.exposure.epsilon[subject]), "trials": made.trials.count,
        "errors": made.trials.errors, "subjects": len(made.trials.subjects), "seconds": made.trials.seconds,
        "proven": _each(made), "checks": [vars(check) for check in made.checks],
        "residuals": vars(made.scale), "replay": vars(made.replay), "scores": _scores(made),
        "curves": _curves(made),
    }  # fmt: skip


def _each(made: Audit) -> list[Record]:
    """Claim and proof of every client under attack."""
    subjects, claimed = made.trials.subjects, made.target.epsilon
    return [
        {"client": int(client), "claimed_epsilon": float(claimed[client]), "proven_epsilon": float(proven)}
        for client, proven in zip(subjects, made.bound.epsilon, strict=True)
    ]


def _scores(made: Audit) -> Record:
    """How often each score came in both worlds."""
    trials = made.trials
    reach = float(np.quantile(np.abs(np.concatenate([trials.present, trials.absent])), 0.999))
    edges = np.linspace(-reach, reach, _BINS + 1)
    counted = {name: np.histogram(getattr(trials, name), edges)[0].tolist() for name in ("present", "absent")}
    return {"edges": edges.tolist(), **counted}


def _curves(made: Audit) -> Record:
    """Misses that each rate of false alarms leaves: as claimed, as proven, and as the attacker reached."""
    family = made.trials.family
    alarms, misses = rates_of(made.trials.present, made.trials.absent)
    return {
        "rates": _RATES.tolist(),
        "claimed": tradeoff(family, 1.0, _RATES.tolist()),
        "proven": tradeoff(family, max(made.bound.scale, 1e-6), _RATES.tolist()),
        "attacker": {"false_alarms": alarms, "misses": misses},
    }


# What a run folder says ---------------------------------------------------------------------------------


def kept_run(plan: Plan, folder: Path) -> Record | None:
    """The record of a training by just this plan, or None where the folder holds none.

    Args:
        plan: that is audited.
        folder: of a run.
    """
    if not (folder / FILE).exists():
        return None
    record, own = load_record(folder), strict_json(plan.as_dict())
    same = all(record["plan"][key] == own[key] for key in ("algorithm", "releases", "noise", "privacy"))
    return record if same and record["training"] else None


def with_audit(record: Record, audit: Record) -> Record:
    """The record of a run with what an audit of its plan measured, for reports."""
    made = AuditRecord.view(audit)
    last = made.trainings[-1]
    measured = {
        "passed": made.passed, "verdict": made.verdict, "confidence": made.confidence,
        "trials": last.trials, "delta": last.delta, "epsilon_lower": last.proven_epsilon,
        "epsilon_claimed": last.claimed_epsilon,
    }  # fmt: skip
    return {**record, "audit": strict_json(measured)}


def _run_checks(plan: Plan, folder: Path | None) -> tuple[Check, ...]:
    """Uploads and ledger of a run folder against the plan, if it was trained by this one."""
    if folder is None or (record := kept_run(plan, folder)) is None:
        return ()
    checks = () if plan.in_stages else (_uploads_check(plan, record),)
    return (*checks, _ledger_check(folder)) if (folder / LEDGER).exists() else checks


def _uploads_check(plan: Plan, record: Record) -> Check:
    books = reconcile(plan, np.max(record["training"]["uploads"], axis=0))
    most, seeds = float(np.max(books.spent / books.allowed)), len(record["training"]["seeds"])
    trainings = "one training" if seeds == 1 else f"{seeds} trainings"
    says = f"in {trainings} of this folder the dearest client spent {rounded_up(100 * most)} % of its budget"
    return Check("run", books.balanced, says)


def _ledger_check(folder: Path) -> Check:
    try:
        with opened_ledger(folder) as books:
            lines, entries = statement(books), books.head.length
    except LedgerError as error:
        return Check("ledger", False, str(error))
    most = max(line.part for line in lines)
    within = all(line.spent <= line.planned and line.shares <= WHOLE + LAST_BITS for line in lines)
    says = (
        f"{entries:,} entries whose chain holds, {len(lines):,} accounts; the dearest spent "
        f"{rounded_up(100 * most)} % of its lifetime budget"
    )
    return Check("ledger", within, says)
