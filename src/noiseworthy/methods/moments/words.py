"""What is said of one upload."""

from dataclasses import replace

from noiseworthy._wording import count, number
from noiseworthy.methods import phrases as say
from noiseworthy.methods.fedsgd_dpc import words as fedsgd_dpc
from noiseworthy.methods.words import Key, Record, Term


def _sentence(record: Record) -> str:
    n = say.clients_of(record)
    return f"on one upload of second moments of each of {count(n, 'client')}, solved at the server"


WORDS = replace(
    fedsgd_dpc.WORDS,
    called="Moments",
    terms={
        "rounds": say.ROUNDS,
        "clients_per_round": say.CLIENTS,
        "shrinkage": Term("s", "shrinkage s", "shrinkage s"),
        "label_weight": Term("c", "label weight c", "label weight c"),
    },
    decided=("shrinkage", "label_weight"),
    sentence=_sentence,
    brief=lambda record: "one upload of second moments",
    keys=lambda plan: [
        Key("upload", "1", f"{plan['upload_numbers']:,} numbers per client, no round after it")
    ],
    computes=lambda plan: f"Sums {number(plan['upload_numbers'])} products of its features and labels",
    decays="rounds",
    clipped=lambda plan: "each record's second moments",
    means=lambda plan, noise: say.upload_hides("the mean second moments of a client's records", plan, noise),
    curve=lambda plan, work: "one upload",
    online=say.all_online,
)
