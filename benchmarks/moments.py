"""One upload beside many: moments and FedSGD-DPC, each planned by trial, on real tables at the same epsilon.

python benchmarks/moments.py [--only NAME]        plans and trains, writes benchmarks/results/moments.json
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np

RESULT = Path(__file__).parent / "results" / "moments.json"
TABLES = {
    "heart-disease": ({"partition": "natural"}, "logistic", ["breast-cancer", "diabetes"]),
    "breast-cancer": ({"clients": 4, "partition": "iid"}, "logistic", ["diabetes", "heart-disease"]),
    "adult": ({"clients": 10, "partition": "iid"}, "logistic", ["heart-disease", "breast-cancer"]),
    "vehicle": ({"partition": "natural"}, "logistic", ["breast-cancer", "heart-disease"]),
    "digits": ({"clients": 5, "partition": "iid"}, "softmax", ["mnist"]),
}
"""How each is split, its model, and the public data that both methods are planned on."""
METHODS = ("moments", "fedsgd-dpc")
EPSILON = (0.5, 2.0)
SEEDS = 10


def measured(name: str, method: str, epsilon: float) -> dict[str, float]:
    """Test loss over the untrained one and accuracy of a planned training, mean over seeds; uploads."""
    from noiseworthy.calls.run import run

    split, model, public = TABLES[name]
    study = {
        "federation": {"data": name, **split},
        "task": {"model": model},
        "privacy": {"mechanism": "gaussian", "epsilon": epsilon, "delta": 1e-5},
        "planning": {"public": public},
        "algorithm": {"name": method},
        "training": {"seeds": list(range(SEEDS)), "evaluations": 1},
    }
    with tempfile.TemporaryDirectory() as folder:
        path, started = Path(folder) / "study.toml", time.process_time()
        path.write_text("\n".join(_written(study)))
        record = run(path, Path(folder) / "run").record
    training, plan = record.training, record.plan
    found = {"uploads": max(plan.releases), "train": plan.train, "cpu_seconds": time.process_time() - started}
    if training is None:
        return {**found, "loss": 1.0, "accuracy": float("nan")}
    loss, accuracy = (float(np.mean([one[-1] for one in of])) for of in (training.loss, training.accuracy))
    return {**found, "loss": loss / training.untrained_loss, "accuracy": accuracy}


def _written(study: dict[str, dict]) -> list[str]:
    lines = []
    for table, keys in study.items():
        lines += [f"[{table}]", *(f"{key} = {json.dumps(value)}" for key, value in keys.items())]
    return lines


def main() -> None:
    """Measure what is not in the file yet."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--only", default="")
    only = asked.parse_args().only
    found = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    for name in TABLES:
        for epsilon in EPSILON:
            for method in METHODS:
                key = f"{name} {epsilon:g} {method}"
                if key not in found and only in key:
                    found[key] = measured(name, method, epsilon)
                    print(key, found[key], flush=True)
                    RESULT.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
