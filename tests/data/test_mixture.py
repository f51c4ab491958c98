import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from noiseworthy.data.mixture import mixture


@pytest.mark.parametrize(
    ("shape", "classes"), [((8,), 2), ((30,), 2), pytest.param((8, 8), 10, marks=pytest.mark.full)]
)
def test_the_mixture_is_as_hard_as_it_claims_about_one_record_in_ten_is_misclassified(shape, classes):
    records = mixture(shape, classes)
    fitted = LogisticRegression(C=100, max_iter=500).fit(records.x.reshape(len(records), -1), records.y)
    error = 1 - fitted.score(records.test_x.reshape(len(records.test_x), -1), records.test_y)
    assert 0.04 < error < 0.16


def test_the_mixture_follows_from_public_facts_alone():
    one, again = mixture((8, 8), 10), mixture((8, 8), 10)
    np.testing.assert_array_equal(one.x, again.x)
    assert one.x.shape[1:] == (8, 8)
    assert set(np.unique(one.y)) == set(range(10))
