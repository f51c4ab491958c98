"""What `--set` changes of a study, and what it refuses by name."""

from __future__ import annotations

import numpy as np
import pytest

from noiseworthy.errors import ConfigError
from noiseworthy.studies.changes import changed, changes_of, seeds_of
from noiseworthy.studies.loading import load_study
from noiseworthy.sweeps.variants import variants

STUDY = """
[federation]
sizes = [100, 200]
[task]
dimension = 3
[privacy]
mechanism = "gaussian"
epsilon = 1.0
delta = 1e-5
[algorithm]
max_rounds = 5
"""


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text(STUDY)
    return path


def test_values_are_those_of_toml_and_the_file_stays(path):
    stated = ["privacy.epsilon=[1.0, 2.0]", "constants.smoothness = 1e-2", "training.seeds=[4]"]
    study = load_study(path, changes_of(stated))
    assert study.privacy.epsilon == [1.0, 2.0]
    assert study.privacy.delta == 1e-5
    assert study.constants.smoothness == 0.01
    assert study.training.seeds == [4]
    assert path.read_text() == STUDY


def test_numbers_of_numpy_are_numbers(path):
    study = load_study(path, {"privacy.epsilon": np.array([1, 2]), "algorithm.max_rounds": np.int64(7)})
    assert study.privacy.epsilon == [1, 2]
    assert study.algorithm.max_rounds == 7
    assert seeds_of(np.int64(2)) == seeds_of(np.arange(2)) == [0, 1]
    assert [one.name for one in variants({"algorithm.rounds": np.arange(3, 5)})] == ["rounds=3", "rounds=4"]


def test_another_algorithm_takes_its_own_keys(path):
    study = load_study(path, changes_of(["algorithm.local_steps=2", "algorithm={ name = 'dp-fedavg' }"]))
    assert (study.algorithm.name, study.algorithm.local_steps) == ("dp-fedavg", 2)


def test_a_whole_table_can_be_set_and_a_key_inside_what_is_stated_by_name():
    raw = {"privacy": {"epsilon": 1.0}, "resources": {"budget": 1.0}}
    made = changed(raw, {"resources": {"budget": 5.0}, "privacy.epsilon.north": 0.5})
    assert made == {"privacy": {"epsilon": {"north": 0.5}}, "resources": {"budget": 5.0}}
    assert raw["privacy"] == {"epsilon": 1.0}


COLUMNS = """
[columns]
ill = { role = "label", classes = ["no", "yes"] }
age = { kind = "number", range = [20, 80] }
"""


def test_columns_are_named_by_their_table(path):
    """Every key of [columns] was refused, for there were "columns" alone."""
    path.write_text(STUDY.replace("sizes = [100, 200]", 'data = "own.csv"') + COLUMNS)
    study = load_study(path, changes_of(["columns.age.range=[0, 99]", "columns.site.role=client"]))
    assert study.columns.columns[1].range == (0, 99)
    assert study.columns.client == "site"
    with pytest.raises(ConfigError, match=r"\[columns\] age.* rnge"):
        load_study(path, changes_of(["columns.age.rnge=[0, 99]"]))


def test_columns_that_lie_in_a_file_are_changed_there(path):
    (path.parent / "columns.toml").write_text(COLUMNS.partition("]")[2])
    path.write_text('columns = "columns.toml"\n' + STUDY.replace("sizes = [100, 200]", 'data = "own.csv"'))
    with pytest.raises(ConfigError, match=r"columns.age.range: the columns lie in columns.toml; change them"):
        load_study(path, changes_of(["columns.age.range=[0, 99]"]))


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ("privacy.epsilom=2", r"\[privacy\] has no key 'epsilom'; did you mean privacy\.epsilon\?"),
        ("pricavy.epsilon=2", r"a study has no table 'pricavy'; did you mean privacy\?"),
        ("algorithm.max_round=2", r"did you mean algorithm\.max_rounds\?"),
        ("training.zzz=2", r"\[training\] has no key 'zzz'; there are seeds, evaluations"),
        ("privacy.epsilon=many", r"\[privacy\] epsilon must be .*got 'many'"),
        ("privacy=2", r"name a key of \[privacy\]"),
        ("privacy.epsilon", "takes KEY=VALUE"),
        ("=2", "takes KEY=VALUE"),
        ("privacy.epsilon=", "takes KEY=VALUE"),
        (f"privacy.epsilon={'9' * 5000}", r"\[privacy\] epsilon must be"),
        (f"privacy.epsilon={'[' * 5000}", r"\[privacy\] epsilon must be"),
        ("algorithm.name=[1]", r"\[algorithm\] name must be one of .*, got \[1\]"),
    ],
)
def test_what_is_no_key_or_no_value_is_one_sentence(path, stated, said):
    with pytest.raises(ConfigError, match=said) as refused:
        load_study(path, changes_of([stated]))
    assert "\n" not in str(refused.value)


def test_a_key_is_set_once():
    with pytest.raises(ConfigError, match=r"privacy\.epsilon is set twice"):
        changes_of(["privacy.epsilon=1", "privacy.epsilon=2"])


STRANGE = ("0", "two", "1,x", "", 0, [], "9" * 5000, 10**30, f"1,{'9' * 5000}", 1.5, [1.5, 2.5], ["a"])


@pytest.mark.parametrize("stated", STRANGE)
def test_seeds_are_a_number_or_seeds(stated):
    with pytest.raises(ConfigError, match="seeds must be"):
        seeds_of(stated)
