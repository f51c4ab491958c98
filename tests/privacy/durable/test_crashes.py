"""A ledger that is killed at any statement, against a model in plain dictionaries."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from noiseworthy.errors import LedgerError
from noiseworthy.privacy.durable import Charge, DurableLedger, Grant, Refusal, Resend
from noiseworthy.privacy.durable.accounts import LAST_BITS, WHOLE
from noiseworthy.privacy.durable.reading import check_holds
from noiseworthy.privacy.durable.statement import statement

from .conftest import CLIENTS, opened


class Kill(BaseException):
    """The process ends here: nothing after it runs, not even a rollback."""


class Mortal:
    """A connection that dies before its n-th statement from now on, and stays dead."""

    def __init__(self, db, statements: int):
        self.db, self.left, self.committed = db, statements, False

    def _live(self) -> None:
        if self.left <= 0:
            raise Kill
        self.left -= 1

    def execute(self, sql, *values):
        self._live()
        done = self.db.execute(sql, *values)
        self.committed |= sql == "COMMIT"
        return done

    def executemany(self, sql, rows):
        self._live()
        return self.db.executemany(sql, rows)

    @property
    def in_transaction(self) -> bool:
        return self.db.in_transaction

    def close(self) -> None:
        self.db.close()


class Crashes(RuleBasedStateMachine):
    """Reserve, seal and acknowledge, each of which may be killed before any of its statements."""

    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.path = self.folder / "ledger.sqlite"
        self.releases: dict[tuple[int, int], int] = {}  # (client, number) -> share, as it must be on disk
        self.grants: dict[int, tuple[frozenset, bytes | None, bool]] = {}
        self.head = None

    @initialize(repeatable=st.booleans())
    def start(self, repeatable):
        self.repeatable = repeatable
        self.books = opened(self.path, repeatable=repeatable)

    def attempt(self, call, statements: int):
        """What the call answers, or None if it was killed; and whether it was on disk by then."""
        whole = self.books.ledger
        mortal = Mortal(whole._db, statements)
        whole._db = mortal
        try:
            answer, killed = call(), False
        except Kill:
            answer, killed = None, True
        finally:
            whole._db = mortal.db
        if killed:
            mortal.close()  # what was not committed is gone, as for a killed process
            self.books = opened(self.path, repeatable=self.repeatable)
        return answer, mortal.committed

    @rule(
        wanted=st.lists(
            st.tuples(st.integers(0, 1), st.integers(0, 5), st.integers(0, WHOLE // 3)),
            min_size=1, max_size=4, unique_by=lambda one: one[:2],
        ),
        statements=st.one_of(st.just(1000), st.integers(0, 20)),
    )  # fmt: skip
    def reserve(self, wanted, statements):
        wanted = [(c, n, self.releases.get((c, n), share)) for c, n, share in wanted]
        charges = [Charge(self.books.accounts[c], n, share) for c, n, share in wanted]
        keys = frozenset((c, n) for c, n, _ in wanted)
        known = keys & self.releases.keys()
        owner = next((g for g, (members, _, _) in self.grants.items() if members == keys), None)
        try:
            answer, on_disk = self.attempt(
                lambda: self.books.ledger.reserve(self.books.run, charges), statements
            )
        except LedgerError:
            assert known
            assert owner is None
            return
        if known:
            assert answer is None or self.as_before(owner, answer)
        elif self.fits(wanted):
            assert answer is None or isinstance(answer, Grant)
            if on_disk:
                self.releases |= {(c, n): share for c, n, share in wanted}
                self.grants[len(self.grants) + 1] = keys, None, False
        else:
            assert answer is None or (isinstance(answer, Refusal) and answer.why == "budget")

    def as_before(self, owner: int, answer) -> bool:
        """Whether releases that were spent are answered by the state that they are in."""
        sealed = self.grants[owner][1]
        if sealed is not None:
            return answer == Resend(owner, sealed)
        if self.repeatable:
            return answer == Grant(owner, again=True)
        return isinstance(answer, Refusal) and answer.why == "lost"

    def fits(self, wanted) -> bool:
        return all(
            self.spent(client) + sum(share for c, _, share in wanted if c == client) <= WHOLE + LAST_BITS
            for client in (0, 1)
        )

    def spent(self, client: int) -> int:
        return sum(share for (c, _), share in self.releases.items() if c == client)

    @rule(pick=st.integers(0, 30), sealed=st.sampled_from([b"a", b"b"]), statements=st.integers(0, 12))
    def seal(self, pick, sealed, statements):
        if not self.grants:
            return
        grant = pick % len(self.grants) + 1
        members, before, arrived = self.grants[grant]
        try:
            _, on_disk = self.attempt(lambda: self.books.ledger.seal(grant, sealed), statements)
        except LedgerError:
            assert before not in (None, sealed)
            return
        if on_disk and before is None:
            self.grants[grant] = members, sealed, arrived

    @rule(pick=st.integers(0, 30), statements=st.integers(0, 12))
    def acknowledge(self, pick, statements):
        if not self.grants:
            return
        grant = pick % len(self.grants) + 1
        members, sealed, arrived = self.grants[grant]
        try:
            _, on_disk = self.attempt(lambda: self.books.ledger.acknowledge(grant), statements)
        except LedgerError:
            assert sealed is None
            return
        self.grants[grant] = members, sealed, arrived or on_disk

    @rule()
    def remember_the_head(self):
        self.head = self.books.ledger.head

    @invariant()
    def disk_and_model_agree(self):
        if not hasattr(self, "books"):
            return
        lines = statement(self.books.ledger)
        for client, line in enumerate(lines):
            assert line.shares == self.spent(client) <= WHOLE + LAST_BITS
            assert line.spent == self.count(client, lambda sealed, arrived: True)
            assert line.sealed == self.count(client, lambda sealed, arrived: sealed is not None)
            assert line.acknowledged == self.count(client, lambda sealed, arrived: arrived)
        assert len(lines) == len(CLIENTS)
        if self.head is not None:
            check_holds(self.books.ledger, self.head)

    def count(self, client: int, kind) -> int:
        """Releases of a client whose grant is of a kind."""
        grants = (members for members, *state in self.grants.values() if kind(*state))
        return sum(c == client for members in grants for c, _ in members)

    def teardown(self):
        if hasattr(self, "books"):
            self.books.ledger.verify()
            self.books.ledger.close()
            with DurableLedger.open(self.path):
                pass
        shutil.rmtree(self.folder)


TestCrashes = Crashes.TestCase
TestCrashes.settings = settings(max_examples=30, stateful_step_count=20, deadline=None)
