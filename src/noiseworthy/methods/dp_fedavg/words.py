"""What is said of DP-FedAvg and its plans: outcome, guides beside it, the paper's own formulas, any view."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noiseworthy._wording import count
from noiseworthy.methods import phrases as say
from noiseworthy.methods.dp_fedavg.bound import LocalBound, noise_exponent, power_law
from noiseworthy.methods.dp_fedavg.guides import (
    asymptotic_local_steps,
    best_growth,
    best_iterations,
    best_local_steps,
    convergence_statement,
    power,
)
from noiseworthy.methods.dp_fedavg.search import Given, Setting
from noiseworthy.methods.fedsgd_dpc import words as fedsgd_dpc
from noiseworthy.methods.fedsgd_dpc.bound import uploads
from noiseworthy.methods.words import Course, Record, Term
from noiseworthy.plans.plan import StepSize
from noiseworthy.plans.problem import Problem


def training(problem: Problem, setting: Setting) -> str:
    """The schedule of a setting in a clause."""
    t, e, b, _ = setting
    each = count(int(uploads(setting.rounds, b, problem.n_clients)), "upload")
    steps = f"{count(setting.rounds, 'round')} of {count(e, 'local step')} ({count(t, 'iteration')})"
    if problem.trust.secret:
        return f"Train {steps} with each of {problem.n_clients} clients by a secret coin, {b} on average"
    return f"Train {steps} with {b} of {problem.n_clients} clients, {each} each"


def outcome_of(
    problem: Problem, bound: LocalBound, found: Setting, given: Given, trains: bool, most: int
) -> str:
    """The decision and its reason; vacuous where even without noise the bound recommends nothing."""
    compared = f"bound {found.value:.4g} against {bound.no_training:.4g} without training"
    if trains:
        advised = found.value < bound.no_training
        against = "" if advised else ", as stated, although the bound advises against it"
        return f"{training(problem, found)}{against}: {compared}."
    n = problem.n_clients
    if is_vacuous(problem, bound, given, most):
        until = bound.vacuous_until(given.local_steps or 1, given.clients_per_round or n, n)
        needed = f"it recommends nothing up to {until:.3g} iterations, of which {most} are allowed"
        return say.unless_noise(needed, compared)
    why = f"the noise outweighs the gain ({compared}, best of {most} iterations)"
    return f"Do not train: {why}; raise epsilon or add {problem.sensitivity.unit}s."


def is_vacuous(problem: Problem, bound: LocalBound, given: Given, most: int) -> bool:
    """Whether no T up to `most` that agrees with what is given has a bound below Y_0, even without noise."""
    n = problem.n_clients
    return most <= bound.vacuous_until(given.local_steps or 1, given.clients_per_round or n, n)


def notes_of(
    problem: Problem, bound: LocalBound, found: Setting, given: Given, trains: bool
) -> tuple[str, ...]:
    """The continuous guide, the law for large T and what more iterations bring; and who is never asked."""
    z, notes = noise_exponent(problem), []
    if problem.clipping != "A":
        notes.append(_guide(problem, bound, found))
    if given.local_steps is not None and given.total_iterations is None:
        notes.append(_best_length(problem, bound, found))
    noise = "There is no noise"
    if problem.law.noisy:
        noise = f"For a fixed budget the variance of the noise grows like {power('T_g', z)}"
    notes.append(f"{noise}. {convergence_statement(z)}")
    reached = found.rounds * found.clients_per_round
    if trains and reached < problem.n_clients:
        asked = f"{reached} of {problem.n_clients} clients are asked once"
        notes.append(f"{asked} and the others never: fewer rounds than N/b.")
    return tuple(note for note in notes if note)


def _guide(problem: Problem, bound: LocalBound, found: Setting) -> str:
    t, _, b, _ = found
    law = power_law(problem, b)
    if law is None:
        noise = problem.law.title
        return f"{noise} noise with a delta follows no power of T_g: E comes from enumeration alone."
    guide = best_local_steps(bound, law, t, b, problem.n_clients)
    far = float(asymptotic_local_steps(law.exponent, t))
    growth = best_growth(law.exponent)
    large = f"E grows like {power('T', growth)} ({far:.3g} for the pure rates)" if growth else "E = O(1)"
    return f"Continuous guide at T = {t}: E = {guide:.3g}. Law for large T: {large}."


def _best_length(problem: Problem, bound: LocalBound, found: Setting) -> str:
    _, e, b, _ = found
    law = power_law(problem, b)
    if law is None:
        return ""
    t = best_iterations(bound, law, e, b, problem.n_clients)
    return f"Continuous guide at E = {e}: T = {t:.4g}." if np.isfinite(t) else ""


# As printed -------------------------------------------------------------------------------------------


def as_printed(problem: Problem, found: Setting, given: Given, step: StepSize) -> dict[str, Any]:
    """What Theorems 1, 2, 4 and 5 choose at the same T and how little noise they add; not private.

    E = T^(z/(z+1)) rounded; T_l = b T_g/N uploads that need not be whole; for S = E times the largest step
    size and the sensitivity of one gradient, Laplace noise T_l S/epsilon, Gaussian noise with c2 = 1 and S/2
    (docs/theory/fu.md#errata).
    """
    if not problem.law.noisy:
        return {}
    t, b = found.total_iterations, found.clients_per_round
    z = float(problem.law.exponent)
    e = given.local_steps or max(round(t ** (z / (z + 1))), 1)
    k = b * t / (e * problem.n_clients)
    noise, why = _printed_noise(problem, k)
    return {
        "total_iterations": t, "local_steps": e, "rounds": t / e, "clients_per_round": b, "uploads": k,
        "noise": (step.initial * e * noise).tolist(), "private": False, "why": why,
    }  # fmt: skip


def _printed_noise(problem: Problem, uploaded: float) -> tuple[NDArray[np.float64], str]:
    """Per unit of eta E, and what is wrong with it."""
    budget, sensitivity = problem.budget, problem.sensitivity.value
    why = "uploads counted as b T_g/N, not ceil(b T_g/N)"
    if not problem.law.pure:
        half = 1.0 if budget.relation == "add-remove" else 0.5
        unit = np.sqrt(uploaded * np.log(1 / budget.delta)) / budget.epsilon
        return half * sensitivity * unit, f"{why}; c2 = 1; the norm of a gradient for its sensitivity"
    if problem.clipping == "E":
        sensitivity = sensitivity / np.sqrt(problem.dimension)
        why = f"{why}; E times the L1 sensitivity of one gradient, which is no bound after several steps"
    return uploaded * sensitivity / budget.epsilon, why


# In every view ----------------------------------------------------------------------------------------

AXIS = "local steps per upload"
"""Along which the bound is drawn."""


def _sentence(record: Record) -> str:
    plan = record["plan"]
    return f"{say.iterations_before(plan)}{say.rounds_of_steps(plan)}, asking {say.asked(record)} in each"


def _means(plan: Record, noise: str) -> str:
    steps = count(plan["local_steps"], "local step")
    return say.upload_hides(f"the change of the model by {steps} on {say.records_used(plan)}", plan, noise)


WORDS = replace(
    fedsgd_dpc.WORDS,
    called="DP-FedAvg",
    terms={
        "total_iterations": say.ITERATIONS,
        "iterations": say.ITERATIONS,
        "local_steps": Term("E", "local steps E", "local steps E per upload"),
        "clients_per_round": say.CLIENTS,
    },
    decided=("total_iterations", "local_steps", "clients_per_round"),
    sentence=_sentence,
    brief=say.steps_in_brief,
    keys=lambda plan: [say.rounds_key(plan), say.local_steps_key(plan)],
    computes=lambda plan: f"{plan['local_steps']:,} before each upload, on {say.batches(plan)}",
    decays="local steps",
    clipped=say.clipped_by_mode,
    means=_means,
    courses={
        **say.ALONG_ROUNDS,
        AXIS: Course(
            "Few local steps need many noised uploads; many let the clients drift apart.",
            "The longer clients compute, the fewer noised uploads it takes.",
            "More local steps let the clients drift apart by more than the noise they save.",
        ),
    },
    curve=lambda plan, work: f"E = {work:g}",
)
