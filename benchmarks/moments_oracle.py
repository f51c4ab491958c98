"""One upload of one owner beside an independent implementation: diffprivlib's linear regression.

    python benchmarks/moments_oracle.py install   the library, in build/oracle
    python benchmarks/moments_oracle.py run       R² of both on test records; keeps and prints the table

Five regressions of the tuning half of benchmarks/federations, all records with one owner, pure epsilon under
replace-one. Ours is planned as a user would, by trial on other public tables; theirs has no settings but its
bounds, which are the public ranges that both are told. Least squares without privacy stand beside them, which
both must reach where epsilon is no matter.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Any

import numpy as np

import noiseworthy as nw
from federations import FEDERATIONS
from noiseworthy.studies.planner import plan_study
from noiseworthy.studies.training import train

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "moments_oracle.json"
PEER, PACKAGES = Path("build/oracle"), ("diffprivlib==0.6.6", "scikit-learn<1.7")
TABLES = ("elnino", "trump-approval", "school-score", "breast-symmetry", "chick-weight")
BUDGETS, SEEDS = (1.0, 10.0, 100.0, 1e6), 24


def install() -> None:
    """The library, in an environment of its own."""
    venv.create(PEER, with_pip=True)
    subprocess.run([PEER / "bin/python", "-m", "pip", "install", "--quiet", *PACKAGES], check=True)


def of_one_owner(name: str) -> dict[str, Any]:
    """A table's study with one owner of all records."""
    tables = FEDERATIONS[name].study()
    kept = tables["columns"].items()
    columns = {key: {"kind": "left-out"} if one.get("role") == "client" else one for key, one in kept}
    federation = {"data": tables["federation"]["data"], "clients": 1, "partition": "iid"}
    return {**tables, "federation": federation, "columns": columns}


def ours(name: str, epsilon: float) -> list[float]:
    """R² of one upload, planned by trial, under each seed."""
    privacy = {"mechanism": "laplace", "epsilon": epsilon}
    study = nw.parse_study({**of_one_owner(name), "algorithm": {"name": "moments"}, "privacy": privacy})
    made, decision = plan_study(nw.prepare(study))
    if not decision.plan.train:
        return [0.0]
    return train(decision.plan, *made.trained(), range(SEEDS), evaluations=1).final_accuracy.tolist()


def table(name: str) -> dict[str, np.ndarray]:
    """Records as the library is told them: features and labels in their public ranges, brought to [-1, 1]."""
    study = nw.parse_study({**of_one_owner(name), "privacy": {"mechanism": "laplace", "epsilon": 1.0}})
    federation, _ = nw.prepare(study).trained()
    n, label = int(federation.sizes[0]), next(
        one["range"] for one in of_one_owner(name)["columns"].values() if one.get("role") == "label"
    )  # fmt: skip
    x, test_x = np.float64(federation.x[0, :n]), np.float64(federation.test_x)
    bounds = np.array([-1.0 if min(x.min(), test_x.min()) < 0 else 0.0, 1.0])
    middle, half = np.mean(label), np.ptp(label) / 2
    y, test_y = ((np.float64(part) - middle) / half for part in (federation.y[0, :n], federation.test_y))
    return {"x": x, "y": y, "test_x": test_x, "test_y": test_y, "bounds_x": bounds,
            "bounds_y": np.array([-1.0, 1.0])}  # fmt: skip


def least_squares(one: dict[str, np.ndarray]) -> float:
    """R² without privacy."""
    x, test = (np.column_stack([part, np.ones(len(part))]) for part in (one["x"], one["test_x"]))
    left = one["test_y"] - test @ np.linalg.lstsq(x, one["y"], rcond=None)[0]
    return float(1 - np.mean(left**2) / np.var(one["test_y"]))


def run() -> None:
    """Both, table by table."""
    tables = {name: table(name) for name in TABLES}
    with tempfile.TemporaryDirectory() as folder:
        for name, one in tables.items():
            np.savez(Path(folder) / f"{name}.npz", **one)
        peer = Path(__file__).with_name("moments_diffprivlib.py")
        command = [PEER / "bin/python", "-W", "ignore", peer, folder, str(SEEDS), *map(str, BUDGETS)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    theirs = json.loads(done.stdout)
    found = [
        {
            "table": name, "records": len(one["x"]), "features": one["x"].shape[1], "epsilon": epsilon,
            "least squares": least_squares(one), "ours": ours(name, epsilon),
            "diffprivlib": theirs[f"{name} {epsilon}"],
        }
        for name, one in tables.items()
        for epsilon in BUDGETS
    ]  # fmt: skip
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    print("| table | records | features | ε | least squares, no privacy | one upload | diffprivlib |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for one in found:
        facts = f"{one['table']} | {one['records']:,} | {one['features']} | {one['epsilon']:g}"
        both = " | ".join(middle(one[who]) for who in ("ours", "diffprivlib"))
        print(f"| {facts} | {one['least squares']:.2f} | {both} |")


def middle(scores: list[float]) -> str:
    """The median R² of the seeds; of those below -10 that it is far off."""
    value = float(np.median(scores))
    return f"{value:.2f}" if value > -10 else "below -10"


if __name__ == "__main__":
    {"install": install, "run": run}[sys.argv[1]]()
