"""Races that were run before, kept by the content of all that determines them; nothing of it is private."""

import contextlib
import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import noiseworthy
from noiseworthy._places import write_whole
from noiseworthy.engines.compilation import cache_folder
from noiseworthy.methods.space import Setting
from noiseworthy.plans.problem import Problem
from noiseworthy.tasks.linear import LinearModel
from noiseworthy.trials.bench import Bench, Candidate, Scores
from noiseworthy.trials.facts import PublicFacts
from noiseworthy.trials.public import stamps, whole
from noiseworthy.trials.race import Price, Result
from noiseworthy.trials.spaces import Space
from noiseworthy.trials.treatment import Treatment

_PACKAGES = ("noiseworthy", "jax", "numpy", "scikit-learn")
"""Other versions of these may draw other noise or ship other data."""


def place_of(bench: Bench, space: Space, treatments: Sequence[Treatment | None], seeds: int) -> Path | None:
    """The file of a race; None where no cache is in use, or the model of the study has no name.

    Args:
        bench: public facts and the names of public data; their files enter by size and time of change, and
            data sets of the hub by their numbers.
        space: what is free.
        treatments: of records, to choose from.
        seeds: noise seeds of the final.
    """
    folder = cache_folder()
    if folder is None or not bench.facts.model:
        return None
    content = {
        "facts": _facts(bench.facts),
        "sources": [(source, _version(source, bench.data_dir)) for source in bench.sources],
        "weights": bench.weights.tolist(),
        "reference": _reference(bench.facts),
        "space": asdict(space),
        "treatments": [kind and asdict(kind) for kind in treatments],
        "seeds": seeds,
        "versions": [version(package) for package in _PACKAGES],
        "code": _code(),
    }
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    return folder / "races" / f"{digest}.json"


def recalled(place: Path | None, sources: int) -> Result | None:
    """The race that a file holds; None where it is missing or damaged.

    Args:
        place: of `place_of`.
        sources: number of proxies that the race was run on.
    """
    if place is None:
        return None
    try:
        found = _read(json.loads(place.read_text()))
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return found if found.scores.loss.shape[:2] == (sources, 1) and len(found.lost) == sources else None


def keep(place: Path | None, result: Result) -> None:
    """Write a finished race beside its final name, then move it there; a folder that is full is no error."""
    if place is None or result.unfinished:
        return
    with contextlib.suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True)
        write_whole(place, json.dumps(_written(result)))


def _written(result: Result) -> dict[str, Any]:
    setting, treatment = result.winner
    return {
        "setting": asdict(setting),
        "treatment": treatment and asdict(treatment),
        "lost": result.lost.tolist(),
        "spread": result.spread,
        **{name: one if one is None else one.tolist() for name, one in result.scores._asdict().items()},
        "trainings": result.trainings,
        "frontier": [list(price) for price in result.frontier],
    }


def _read(values: dict[str, Any]) -> Result:
    told = values["treatment"]
    treatment = told and Treatment(**{**told, "reference": tuple(told["reference"])})
    known = (values[name] for name in Scores._fields)
    scores = Scores._make(None if one is None else np.array(one, float) for one in known)
    lost = np.array(values["lost"], float)
    winner = Candidate(Setting(**values["setting"]), treatment)
    frontier = tuple(Price(int(uploads), float(part)) for uploads, part in values["frontier"])
    return Result(winner, float(values["spread"]), lost, scores, int(values["trainings"]), False, frontier)


def _facts(facts: PublicFacts) -> dict[str, Any]:
    names = (
        "record_shape", "classes", "model", "source", "partition", "settings", "label_scale", "label_range",
        "label_octaves", "label_noise", "columns", "record_size", "class_shares", "metric", "for_owners",
    )  # fmt: skip
    return {"problem": _problem(facts.problem), **{name: getattr(facts, name) for name in names}}


def _version(source: str, data_dir: str | Path | None) -> Sequence[object]:
    """What tells a source from what it held before; the hub holds other records under a name some day."""
    if not source.startswith("hub:"):
        return stamps(source, data_dir)
    held = whole(source, data_dir)
    return [_digest(array) for array in (held.x, held.y, held.test_x, held.test_y)]


def _digest(array: NDArray) -> str:
    return hashlib.sha256(array.tobytes()).hexdigest()


def _reference(facts: PublicFacts) -> dict[str, str]:
    """Digests of what records are seen against, of which `model` holds names that are relative to a study."""
    task = facts.make_task(facts.record_shape, facts.classes, None)
    seen = task.preparation.reference if isinstance(task, LinearModel) else None
    numbers = {} if seen is None else seen.arrays(len(seen.directions))
    return {name: _digest(array) for name, array in numbers.items()}


def _problem(problem: Problem) -> dict[str, Any]:
    """Its numbers; the clip and the dimension are placeholders."""
    budget, resources = problem.budget, problem.resources
    return {
        "sizes": problem.sizes.tolist(),
        "budget": [budget.epsilon.tolist(), budget.delta.tolist(), budget.relation, budget.unit],
        "family": problem.family,
        "sampling_rate": problem.sampling_rate,
        "clipping": problem.clipping,
        "trust": asdict(problem.trust),
        "resources": resources and {name: np.asarray(one).tolist() for name, one in vars(resources).items()},
    }


@cache
def _code() -> str:
    """A digest of the package's own sources, so that no change of them meets results from before."""
    root = Path(noiseworthy.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()
