"""What a planner must keep, as a suite to inherit."""

import json

import numpy as np

from noiseworthy.data.federation import Federation
from noiseworthy.plans.plan import Plan
from noiseworthy.plans.problem import Problem
from noiseworthy.privacy.accountants import spent_epsilon

_EPSILON = (0.05, 1.0, 6.0)


class PlannerConformance:
    """A planner: public facts in, a `Plan` out, with noise that keeps every client within its budget."""

    def problem(self, epsilon: float) -> Problem:
        """Public facts of a federation whose clients allow about `epsilon` each. Abstract."""
        raise NotImplementedError

    def plan(self, problem: Problem, federation: Federation) -> Plan:
        """The plan. The federation holds the clients' records, which it must not depend on. Abstract."""
        raise NotImplementedError

    def federation(self, problem: Problem, seed: int) -> Federation:
        """Records that fit the problem's sizes; other seeds give other ones."""
        draw, sizes = np.random.default_rng(seed), np.asarray(problem.sizes)
        n, most = len(sizes), int(sizes.max())
        held = np.arange(most) < sizes[:, None]
        x = (draw.normal(size=(n, most, 3)) * held[..., None]).astype(np.float32)
        y = (draw.integers(0, 2, (n, most)) * held).astype(np.int32)
        names = tuple(f"client {i}" for i in range(n))
        return Federation(
            x=x, y=y, sizes=sizes, test_x=x[:, 0], test_y=y[:, 0], classes=2, name="drawn", clients=names
        )

    def made(self, epsilon: float, seed: int = 0) -> Plan:
        """The plan for one budget."""
        problem = self.problem(epsilon)
        return self.plan(problem, self.federation(problem, seed))

    def test_every_client_stays_within_its_budget(self):
        """Counted again from noise, sensitivity and counts; a pilot counts with it."""
        for epsilon in _EPSILON:
            plan = self.made(epsilon)
            over = plan.spent() > plan.budget.epsilon * (1 + 1e-9)
            assert not np.any(over), f"client {np.flatnonzero(over)[:1]} spends more than its budget"

    def test_noise_is_for_the_sensitivity_of_the_problem(self):
        """Not for less, and in the unit and relation of the budget."""
        for epsilon in _EPSILON:
            plan = self.made(epsilon)
            if plan.release is None or not plan.problem.law.noisy:
                continue
            claimed, needed = plan.release.sensitivity, plan.problem.sensitivity
            assert np.all(claimed.value >= needed.value * (1 - 1e-12)), "a record changes more than claimed"
            assert (claimed.unit, claimed.relation) == (plan.budget.unit, plan.budget.relation)
            spent = spent_epsilon(plan.release, plan.releases, plan.budget.delta)
            assert np.all(spent <= plan.budget.epsilon * (1 + 1e-9))

    def test_counts_are_whole_and_a_training_has_rounds(self):
        """Nobody replies 1.1 times."""
        for epsilon in _EPSILON:
            plan = self.made(epsilon)
            for counts in (plan.releases, plan.uploads):
                assert np.issubdtype(np.asarray(counts).dtype, np.integer)
                assert np.all(np.asarray(counts) >= 0)
            assert plan.train == (plan.rounds > 0)
            assert plan.uploads.max() <= plan.rounds, "a client is asked more often than there are rounds"
            assert plan.uploads.sum() <= plan.rounds * len(plan.uploads)

    def test_it_does_not_look_at_private_records(self):
        """Other records, the same plan."""
        for epsilon in _EPSILON[1:]:
            one, other = (self._said(self.made(epsilon, seed)) for seed in (0, 1))
            assert one == other, "the plan changes with the clients' records"

    def test_it_decides_alike_twice(self):
        """A plan is a function of what it is given."""
        assert self._said(self.made(1.0)) == self._said(self.made(1.0))

    def test_more_budget_needs_no_more_noise_for_as_many_releases(self):
        """Noise per unit of sensitivity and root of the count falls with epsilon."""
        plans = [self.made(epsilon) for epsilon in _EPSILON]
        noise = [
            p.release.mechanism.size / p.release.sensitivity.value for p in plans if p.release and p.train
        ]
        counts = [p.releases for p in plans if p.release and p.train]
        for k in range(len(noise) - 1):
            alike = counts[k] == counts[k + 1]
            assert np.all(noise[k + 1][alike] <= noise[k][alike] * (1 + 1e-9))

    def test_a_plan_is_plain_values(self):
        """The contract of `plan --json`, with the privacy that it claims."""
        stated = json.loads(self._said(self.made(1.0)))
        assert {"unit", "relation", "adversary", "accountant", "clients"} <= stated["privacy"].keys()
        assert stated["outcome"]

    @staticmethod
    def _said(plan: Plan) -> str:
        return json.dumps(plan.as_dict(), allow_nan=False, sort_keys=True)
