"""Numbers at the edges of every table and far beyond: always a plan, or one sentence of what is wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noiseworthy._tables import Table
from noiseworthy.errors import ConfigError, UserError
from noiseworthy.methods.registry import method
from noiseworthy.methods.rivals.planner import RIVALS
from noiseworthy.studies.loading import parse_study
from noiseworthy.studies.planner import plan_study
from noiseworthy.studies.prepare import prepare
from noiseworthy.studies.tables import Study

REALS = (
    0.0,
    -1.0,
    1e-300,
    1e-15,
    1e-9,
    0.01,
    0.5,
    0.99,
    1.0,
    40.0,
    1e9,
    1e15,
    1e300,
    float("inf"),
    float("nan"),
)
WHOLES = (0, -1, 1, 2, 11, 1000, 10**6, 10**6 + 1, 2**31, 2**63 - 1, 10**30)
PLANNED = ("fedsgd-dpc", "dp-fedavg", "dp-scaffnew", "dp-pasgd", "dpfl-bcs")
STATED: dict[str, Any] = {
    "federation": {"sizes": [60, 600, 200]},
    "task": {"dimension": 50},
    "constants": {
        "smoothness": 1.0, "strong_convexity": 0.1, "gradient_bound": 1.0, "initial_distance_sq": 90.0,
        "heterogeneity": 0.5, "optimum_gradient_sq": 0.1, "gradient_variance": 0.1, "initial_gap": 2.0,
        "noise_dimension": 50.0,
    },
}  # fmt: skip
OWN: dict[str, dict[str, Any]] = {
    "fedsgd-dpc": {"max_rounds": 60},
    "dp-fedavg": {"max_iterations": 60},
    "dp-pasgd": {"step_size": 0.5, "max_iterations": 2000},
    "dp-scaffnew": {"max_iterations": 500},
    **{name: {"clients_per_round": 2, "rounds": 20} for name in ("dpfl-bcs", *RIVALS)},
}
RESOURCES = {"cost_per_round": 2.0, "cost_per_step": 1.0, "budget": 300.0}


def base(algorithm: str, family: str, *, scarce: bool) -> dict[str, Any]:
    """A study that an algorithm plans from stated constants alone."""
    delta = {"delta": 1e-5} if family == "gaussian" else {}
    raw = {name: dict(keys) for name, keys in STATED.items()}
    raw["privacy"] = {"mechanism": family, "epsilon": 2.0, "clip_norm": 1.0, **delta}
    raw["algorithm"] = {"name": algorithm, **OWN.get(algorithm, {})}
    return raw | ({"resources": dict(RESOURCES)} if scarce else {})


@cache
def numeric_keys(algorithm: str) -> tuple[tuple[str, str, bool], ...]:
    """Every key of every table that takes a number, and whether it must be whole."""
    tables = {name: field.annotation for name, field in Study.model_fields.items() if name != "algorithm"}
    tables["algorithm"] = method(algorithm).table
    return tuple(
        (name, key, kind == "integer")
        for name, model in tables.items()
        for key, schema in _table(model).model_json_schema()["properties"].items()
        for kind in sorted(_kinds(schema) & {"integer", "number"})
    )


def _table(annotation: Any) -> type[Table]:
    options = [annotation, *getattr(annotation, "__args__", ())]
    return next(one for one in options if isinstance(one, type) and issubclass(one, Table))


def _kinds(schema: dict[str, Any]) -> set[str]:
    """Types of a key, those of list entries and of values by name included."""
    inner = [*schema.get("anyOf", []), *schema.get("oneOf", [])]
    inner += [
        schema[part] for part in ("items", "additionalProperties") if isinstance(schema.get(part), dict)
    ]
    return {schema.get("type", "")}.union(*map(_kinds, inner)) if inner else {schema.get("type", "")}


def planned(raw: dict[str, Any]) -> str:
    """What becomes of a study: a decision, or the first sentence that says what is wrong."""
    try:
        return plan_study(prepare(parse_study(raw)))[1].plan.outcome
    except ConfigError as error:
        return error.mistakes[0]
    except UserError as error:
        return str(error)


def with_values(raw: dict[str, Any], values: dict[tuple[str, str], Any]) -> dict[str, Any]:
    """The study with other values; keys of lists take a list of one."""
    changed = {name: dict(keys) for name, keys in raw.items()}
    for (table, key), value in values.items():
        several = key in ("sizes", "seeds", "alpha", "epsilon_max") and table != "federation"
        several |= (table, key) == ("federation", "sizes") or table in ("compare", "tradeoff")
        changed.setdefault(table, dict(RESOURCES) if table == "resources" else {})[key] = (
            [value] * (3 if key == "sizes" else 1) if several else value
        )
    return changed


def cases(algorithm: str) -> Iterator[tuple[tuple[str, str], Any]]:
    for table, key, whole in numeric_keys(algorithm):
        for value in WHOLES if whole else REALS:
            yield (table, key), value


def test_the_reader_of_keys_sees_every_kind():
    """Were it blind to some, the tests below would leave them out."""
    keys = set(numeric_keys("fedsgd-dpc"))
    for known in (
        ("federation", "sizes", True), ("privacy", "epsilon", False), ("privacy", "delta", False),
        ("resources", "budget", False), ("algorithm", "max_rounds", True), ("algorithm", "momentum", False),
        ("constants", "heterogeneity", False), ("tradeoff", "epsilon", False), ("training", "seeds", True),
        ("compare", "rounds", True), ("planning", "budget_seconds", False), ("task", "projection", True),
    ):  # fmt: skip
        assert known in keys
    assert len(keys) > 50


@pytest.mark.full
@pytest.mark.parametrize("algorithm", PLANNED)
def test_each_number_at_its_edges_is_planned_with_or_refused_in_a_sentence(algorithm):
    raw = base(algorithm, "gaussian", scarce=False)
    assert "rain" in planned(raw)  # "Train" or "Do not train"
    for place, value in cases(algorithm):
        said = planned(with_values(raw, {place: value}))
        assert said, (place, value)
        assert "\n" not in said, (place, value)


ONE_OF_EACH = {
    "fedsgd-dpc": {"rounds": 1, "clients_per_round": 1},
    "dp-fedavg": {"total_iterations": 1, "local_steps": 1, "clients_per_round": 1},
    "dp-scaffnew": {"iterations": 1, "communication_probability": 1.0},
    "dp-pasgd": {"total_iterations": 1, "local_steps": 1},
    "dpfl-bcs": {"rounds": 1, "clients_per_round": 1},
}


@pytest.mark.parametrize("algorithm", ONE_OF_EACH)
def test_one_of_everything_is_told_in_the_singular(algorithm):
    raw = base(algorithm, "gaussian", scarce=False)
    raw["algorithm"] |= ONE_OF_EACH[algorithm] | {"step_size": 0.5}
    outcome = plan_study(prepare(parse_study(raw)))[1].plan.outcome
    assert re.search(r"\b1 (round|iteration)\b", outcome)
    assert not re.search(r"(?<![\d.])(?<!to )1 (local )?[a-z]+s\b|to once", outcome)


@pytest.mark.parametrize(
    ("table", "key", "value", "says"),
    [
        ("constants", "gradient_bound", 1e300, "[constants] gradient_bound must be between 1e-15 and 1e+15"),
        ("constants", "strong_convexity", 1e-300, "[constants] strong_convexity must be between 1e-15 "),
        ("algorithm", "max_rounds", 2**63 - 1, "[algorithm] max_rounds must be at most 1,000,000, got 92233"),
        ("algorithm", "max_rounds", 10**8, "[algorithm] max_rounds must be at most 1,000,000, got 100000000"),
        ("privacy", "epsilon", 1e300, "[privacy] epsilon must be between 1e-15 and 1e+15 in size"),
        ("privacy", "delta", 1 - 1e-16, "[privacy] delta must be at most 0.99, got 0.99999"),
        ("privacy", "delta", 1e-300, "[privacy] delta must be between 1e-100 and 1e+15 in size"),
        ("privacy", "clip_norm", 1e300, "[privacy] clip_norm must be between 1e-15 and 1e+15 in size or"),
        ("federation", "sizes", [10**13], "[federation] sizes must be at most 1,000,000,000,000, got"),
        ("training", "seeds", [0] * 1001, "at most 1000 items"),
    ],
)  # fmt: skip
def test_numbers_far_beyond_are_refused_at_the_border(table, key, value, says):
    raw = base("fedsgd-dpc", "gaussian", scarce=False)
    raw[table] = {**raw.get(table, {}), key: value}
    assert says in planned(raw)


def test_a_rate_that_no_memory_can_account_for_is_refused():
    """It asked for 13 PiB."""
    raw = base("fedsgd-dpc", "gaussian", scarce=False)
    raw["privacy"] |= {"sampling_rate": 1e-12, "relation": "add-remove"}
    said = planned(raw)
    assert "Poisson batches of sampling_rate = 1e-12 take a privacy loss distribution of" in said
    assert "raise sampling_rate" in said


def test_a_search_over_more_pairs_than_there_is_memory_for_is_refused():
    raw = base("fedsgd-dpc", "gaussian", scarce=False)
    raw["federation"] = {"sizes": [60] * 1000}
    raw["algorithm"] |= {"max_rounds": 10**6}
    assert (
        "max_rounds = 1000000 with 1000 clients gives 1e+09 pairs of rounds and clients to weigh"
        in planned(raw)
    )


def drawn_studies(algorithms: tuple[str, ...]) -> st.SearchStrategy[dict[str, Any]]:
    """Studies with one to three numbers anywhere."""

    @st.composite
    def study(draw: st.DrawFn) -> dict[str, Any]:
        algorithm = draw(st.sampled_from(algorithms))
        raw = base(algorithm, draw(st.sampled_from(("gaussian", "laplace"))), scarce=draw(st.booleans()))
        chosen = draw(st.lists(st.sampled_from(numeric_keys(algorithm)), min_size=1, max_size=3, unique=True))
        reals = st.sampled_from(REALS) | st.floats() | st.floats(1e-15, 1e15)
        wholes = st.sampled_from(WHOLES) | st.integers() | st.integers(1, 2000)
        values = {(table, key): draw(wholes if whole else reals) for table, key, whole in chosen}
        return with_values(raw, values)

    return study()


@settings(max_examples=60)
@given(raw=drawn_studies(PLANNED))
def test_any_numbers_together_are_planned_with_or_refused_in_a_sentence(raw):
    said = planned(raw)
    assert said
    assert "\n" not in said


@pytest.mark.slow
@settings(max_examples=5000)
@given(raw=drawn_studies((*PLANNED, *RIVALS)))
def test_any_numbers_together_of_everybody(raw):
    said = planned(raw)
    assert said
    assert "\n" not in said
