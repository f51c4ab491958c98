"""What trust buys: small federations under single uploads, secure sums and a trusted server.

    python benchmarks/trusts.py [FEDERATION ...]   # plan and train, keep the results, write the table
    python benchmarks/trusts.py --table            # write what is kept into docs/plan_quality.md

Each cell is a study of its own, planned by trial on two other public tables (digits on breast cancer and
wine), trained with twenty seeds on the records. Reads the data folder of NOISEWORTHY_DATA.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from noiseworthy.engines.shards import Shards
from noiseworthy.privacy.trust import TRUST_MODELS, TrustModel
from noiseworthy.studies.loading import parse_study
from noiseworthy.studies.planner import decide
from noiseworthy.studies.prepare import prepare
from noiseworthy.studies.training import train
from noiseworthy.sweeps.compare import untrained_score

REPOSITORY = Path(__file__).parents[1]
RESULTS = REPOSITORY / "benchmarks" / "results" / "trusts"
PAGE = REPOSITORY / "docs" / "plan_quality.md"
BEGIN, END = "<!-- begin: written by benchmarks/trusts.py -->\n", "<!-- end of trusts.py -->"
SEEDS = [*range(20)]
BUDGETS = {"heart-disease": (0.5, 2.0), "vehicle": (0.5, 2.0), "digits": (1.0, 4.0)}
OF = {
    "heart-disease": ({"data": "heart-disease"}, "logistic", ["breast-cancer", "diabetes"]),
    "vehicle": ({"data": "vehicle"}, "logistic", ["breast-cancer", "diabetes"]),
    "digits": ({"data": "digits", "clients": 10, "partition": "iid"}, "softmax", ["breast-cancer", "wine"]),
}
"""Records, model, and the public tables that settings are tried on."""


def study(name: str, epsilon: float, trust: TrustModel) -> dict[str, Any]:
    """A cell as a study file says it."""
    federation, model, public = OF[name]
    return {
        "federation": federation,
        "task": {"model": model, "feature_norm": 1.0, "normalise": True},
        "privacy": {"mechanism": "gaussian", "epsilon": epsilon, "delta": 1e-5, "trust": trust},
        "planning": {"public": public, "seeds": 2},
    }


def measured(name: str, epsilon: float, trust: TrustModel) -> dict[str, Any]:
    """What a cell reaches, seed by seed, and what was planned for it."""
    prepared = prepare(parse_study(study(name, epsilon, trust)))
    plan = decide(prepared).plan
    federation, task = prepared.trained()
    if plan.train:
        run = train(plan, federation, task, SEEDS, evaluations=1)
        loss, accuracy = run.loss[:, -1].tolist(), run.accuracy[:, -1].tolist()
    else:
        loss, accuracy = ([float(value)] for value in untrained_score(task, Shards.load(federation, task)))
    return {
        "federation": name, "owners": federation.n_clients, "epsilon": epsilon, "trust": trust,
        "rounds": plan.rounds if plan.train else 0, "clients_per_round": plan.clients_per_round,
        "loss": loss, "accuracy": accuracy,
    }  # fmt: skip


def table(cells: list[dict[str, Any]]) -> str:
    """The kept cells as the page has them: a row for each federation and budget."""
    columns = " | ".join(f"`{trust}` acc. | loss | plan" for trust in TRUST_MODELS)
    lines = [
        f"| federation | owners | ε | {columns} |",
        "|---|---:|---:|" + "---:|---:|---|" * len(TRUST_MODELS),
    ]
    known = {(one["federation"], one["epsilon"], one["trust"]): one for one in cells}
    for name, epsilons in BUDGETS.items():
        for epsilon in epsilons:
            row = [known[name, epsilon, trust] for trust in TRUST_MODELS if (name, epsilon, trust) in known]
            if len(row) == len(TRUST_MODELS):
                told = " | ".join(_told(one) for one in row)
                lines.append(f"| {name} | {row[0]['owners']} | {epsilon:g} | {told} |")
    return "\n".join(lines) + "\n"


def _told(one: dict[str, Any]) -> str:
    accuracy, loss = 100 * np.array(one["accuracy"]), np.array(one["loss"])
    if not one["rounds"]:
        return f"{accuracy.mean():.1f} % | {loss.mean():.3f} | no training"
    plan = f"T={one['rounds']} b={one['clients_per_round']}"
    return f"{accuracy.mean():.1f} ± {accuracy.std(ddof=1):.1f} % | {loss.mean():.3f} | {plan}"


def kept() -> list[dict[str, Any]]:
    """All cells in the results folder, in the order of their names."""
    return [json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))]


def written(page: str, cells: list[dict[str, Any]]) -> str:
    """The page with the table of cells in its place."""
    before, rest = page.split(BEGIN)
    return before + BEGIN + table(cells) + END + rest.split(END, 1)[1]


if __name__ == "__main__":
    asked = sys.argv[1:] or list(BUDGETS)
    RESULTS.mkdir(parents=True, exist_ok=True)
    for name in [] if asked == ["--table"] else asked:
        for epsilon in BUDGETS[name]:
            for trust in TRUST_MODELS:
                cell = measured(name, epsilon, trust)
                (RESULTS / f"{name}-{epsilon:g}-{trust}.json").write_text(json.dumps(cell, indent=1) + "\n")
                print(f"{name} {epsilon:g} {trust}: {_told(cell)}", flush=True)
    PAGE.write_text(written(PAGE.read_text(), kept()))
