"""What is said of the methods that DPFL-BCS is held against: where its words are not theirs."""

from dataclasses import replace

from noiseworthy.methods.dpfl_bcs import words as dpfl_bcs
from noiseworthy.methods.rivals.table import RivalName
from noiseworthy.methods.words import Words

_RIVAL = replace(dpfl_bcs.WORDS, chooses=dpfl_bcs.asked_unlike, knows="")
_TRANSFORMS = (
    "Each client keeps a transform of its records. Its gradient is clipped together with that of the model, "
    "as one, and noised alike before the transform moves: the claim would hold even for somebody who sees "
    "the transforms."
)

WORDS: dict[RivalName, Words] = {
    "fedsgd": replace(_RIVAL, called="FedSGD"),
    "dpsgd": replace(_RIVAL, called="DPSGD"),
    "dmldp": replace(_RIVAL, called="DMLDP"),
    "weiavg": replace(
        _RIVAL, called="WeiAvg", knows="the server knows clients' epsilons and weighs replies by them"
    ),
    "pfa": replace(_RIVAL, called="PFA", knows="the server knows clients' epsilons and trusts larger ones"),
    "privatefl": replace(
        _RIVAL,
        called="PrivateFL",
        beyond=(_TRANSFORMS,),
        knows="every client keeps a transform of its own; the accuracy is that of the shared model alone",
    ),
}
"""By their names in a study file."""
