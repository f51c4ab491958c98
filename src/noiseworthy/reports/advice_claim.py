"""What an advice claims about privacy: nothing has been trained, and each epsilon is that of a plan."""

from typing import Any

from noiseworthy._wording import rounded_up
from noiseworthy.privacy.trust import ADVERSARY
from noiseworthy.reports.claim_card import NOT_COVERED, SCHEMA
from noiseworthy.sweeps.typed_advice import AdviceRecord

Record = dict[str, Any]

_NEIGHBOURS = {
    "replace-one": "exchanged for another; sizes are public",
    "add-remove": "left out or added; what means divide by is public",
}


def advice_card(advice: AdviceRecord) -> Record:
    """The claim card of an advice, after the questions of NIST SP 800-226.

    Args:
        advice: its record.

    Returns:
        Plain values: the claim of the recommended plan in a sentence, what each plan would spend, and
        `questions` with their answers.
    """
    return {
        "schema": SCHEMA,
        "run": advice.name,
        "version": advice.version,
        "claim": _claim(advice),
        "adversary": advice.algorithms[0].privacy.adversary,
        "assurance": None,
        "plans": {one.name: one.privacy.written for one in advice.algorithms},
        "questions": [
            {"question": question, "answer": answer, "points": []}
            for question, answer in _answers(advice).items()
        ],
    }


def _claim(advice: AdviceRecord) -> str:
    chosen = [one for one in advice.algorithms if one.name == advice.recommended]
    if not chosen:
        return "Nothing is recommended, so nothing is spent."
    privacy = chosen[0].privacy
    whom = "everybody who sees them" if privacy.adversary == ADVERSARY else privacy.adversary
    return (
        f"Training with {advice.recommended} would spend at most epsilon "
        f"{rounded_up(privacy.spent_epsilon)} at delta {rounded_up(privacy.delta, 6)} for each "
        f"{privacy.unit}, over all uploads, against {whom}."
    )


def _answers(advice: AdviceRecord) -> dict[str, str]:
    relation = advice.algorithms[0].privacy.relation
    return {
        "What did this advice cost?": "Nothing: it was made on public data and public facts (sizes, budgets, "
        "shape of records). No private record was read and no noise was drawn.",
        "Who would be protected, and which change is hidden?": "One record, or one client with everything "
        "that it holds, as the column says; an epsilon of one is not to be compared with that of the other. "
        f"Under {relation} neighbours: it is {_NEIGHBOURS[relation]}.",
        "From whom?": f"From {advice.algorithms[0].privacy.adversary}.",
        "How is the loss counted?": "For the client that is worst off, by its greatest number of releases, "
        f"exactly, in noiseworthy {advice.version}. Plans are alternatives: to train several adds up.",
        "Has it been measured?": "No: nothing has been trained. The command audit attacks a plan.",
        "What is not covered by any epsilon?": NOT_COVERED,
    }
