"""What is said of DP-ScaffNew: T iterations, with communication where public coins say so."""

from dataclasses import replace

from noiseworthy._wording import about, count, number
from noiseworthy.methods import phrases as say
from noiseworthy.methods.fedsgd_dpc import words as fedsgd_dpc
from noiseworthy.methods.words import Key, Record, Term

AXIS = "iterations"
"""Along which the bound is drawn."""
_NBSP = "\N{NO-BREAK SPACE}"


def _sentence(record: Record) -> str:
    plan = record["plan"]
    iterations = count(plan["iterations"], "iteration")
    if plan["communication_probability"] == 1:
        return f"{iterations}, with communication after each"
    p, drawn = number(plan["communication_probability"]), f"{plan['realised_rounds']:,}"
    rounds = f"{about(plan['expected_rounds'])} rounds expected, {drawn} by the coins"
    return f"{iterations}, communication after each with probability {p}: {rounds}"


def _brief(record: Record) -> str:
    plan = record["plan"]
    return f"{count(plan['iterations'], 'iteration')} in {count(plan['rounds'], 'round')}"


def _keys(plan: Record) -> list[Key]:
    p = number(plan["communication_probability"])
    return [
        Key("iterations", f"{plan['iterations']:,}", f"communication: p{_NBSP}={_NBSP}{p}"),
        say.rounds_key(plan, f"{about(plan['expected_rounds'])} expected; drawn by coins"),
    ]


def _computes(plan: Record) -> str:
    mean = f"{about(plan['expected_local_steps'])} on average before each upload"
    return f"{mean}, by the coins of seed {plan['coin_seed']}; on {say.batches(plan)}"


def _means(plan: Record, noise: str) -> str:
    step = "the change of the client's model since the last communication, by local steps on "
    return say.upload_hides(f"{step}{say.records_used(plan)}, corrected by its control variate", plan, noise)


def _has_coins(plan: Record) -> bool:
    """Whether any were drawn: a plan by trial that does not train has none."""
    return "coin_seed" in plan


def _coins(plan: Record) -> tuple[str, ...]:
    if not _has_coins(plan):
        return ()
    return (
        f"The coins that say when clients communicate are public and were drawn before training (seed "
        f"{plan['coin_seed']}): the {plan['realised_rounds']:,} rounds that they give are charged, not their "
        f"mean of {about(plan['expected_rounds'])}.",
    )


WORDS = replace(
    fedsgd_dpc.WORDS,
    called="DP-ScaffNew",
    terms={
        "iterations": say.ITERATIONS,
        "communication_probability": Term("p", "probability p", "probability p of communication"),
        "local_steps": Term("τ", "local steps τ", "local steps τ per upload on average"),
    },
    decided=("iterations", "communication_probability"),
    sentence=_sentence,
    brief=_brief,
    keys=_keys,
    computes=_computes,
    decays="local steps",
    clipped=say.clipped_by_mode,
    means=_means,
    when=lambda plan: ", and when the coins make clients communicate" if _has_coins(plan) else "",
    coins=_coins,
    courses={**say.ALONG_ROUNDS, AXIS: say.ALONG_ROUNDS["rounds"]},
    curve=lambda plan, work: f"p = {work:.3g}",
    online=lambda asked, clients: "all clients online at every communication, each keeping a correction",
)
