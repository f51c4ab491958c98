"""Figures 3 and 6 to 14 and Table III of Ma et al.: what stage 1 estimates, and whom stage 2 asks by it.

All with linear models at full size, so that the true heterogeneity is known (`truth`).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from noiseworthy.privacy.mechanisms import Family
from noiseworthy_papers.judge import Claim, verdict
from noiseworthy_papers.laboratory import Laboratory
from noiseworthy_papers.ma import estimates_claims as says
from noiseworthy_papers.ma.benches import CIFAR, FASHION, FEMNIST, LENDING, MECHANISMS, MNIST, Case, linear
from noiseworthy_papers.ma.stages import REPEATS, Measured, measured
from noiseworthy_papers.spec import Circumstances, Item, Reproduction, SelfMeasured, Table

NOISES: dict[Family, str] = {"gaussian": "Gaussian noise", "laplace": "Laplace noise"}
ORDER: dict[str, tuple[str, Family]] = {
    "figure-3": ("MNIST", "gaussian"),
    "figure-6": ("Lending", "gaussian"),
    "figure-7": ("Lending", "laplace"),
    "figure-8": ("MNIST", "laplace"),
    "figure-9": ("F-MNIST", "gaussian"),
    "figure-10": ("F-MNIST", "laplace"),
    "figure-11": ("FEMNIST", "gaussian"),
    "figure-12": ("FEMNIST", "laplace"),
    "figure-13": ("CIFAR-10", "gaussian"),
    "figure-14": ("CIFAR-10", "laplace"),
}
"""Data and noise of each figure, by their names in Table III."""


def whole(case: Case) -> Case:
    """A linear model on all records of a case, whatever the scale.

    Example:
        >>> whole(MNIST).bench.model, whole(LENDING).bench.model
        ('softmax', 'linear')
    """
    plain = case if case.regression else linear(case)
    caveat = plain.bench.caveat.replace("7,840 parameters, ", "")
    return replace(plain, bench=replace(plain.bench, miniature=False, caveat=caveat))


CASES: dict[str, Case] = {
    name: whole(case)
    for name, case in {
        "Lending": LENDING,
        "MNIST": MNIST,
        "F-MNIST": FASHION,
        "FEMNIST": FEMNIST,
        "CIFAR-10": CIFAR,
    }.items()
}


def figure(item: str, case: Case, mechanism: Family, given: Circumstances) -> Reproduction:
    """Gamma_n as estimated and T_n as decided, of one data set under one kind of noise."""
    laboratory = _laboratory(case, given)
    found = measured(case, mechanism, laboratory, given.store)
    given.on_progress(1.0)
    title = f"{item.replace('-', ' ').capitalize()}: estimates and decision, {case.name}, {NOISES[mechanism]}"
    tables, notes = [says.quality(found)], [case.bench.caveat, says.note(found)]
    return _result(item, title, case.bench.source, given, laboratory, says.CLAIMS, tables, notes, found)


def table_3(cases: dict[str, Case], given: Circumstances) -> Reproduction:
    """rho_min, gamma, L and mu of every data set under both kinds of noise."""
    laboratories = {name: _laboratory(case, given) for name, case in cases.items()}
    found: dict[tuple[str, Family], Measured] = {}
    for name, case in cases.items():
        for mechanism in MECHANISMS:
            found[name, mechanism] = measured(case, mechanism, laboratories[name], given.store)
            given.on_progress(len(found) / (len(cases) * len(MECHANISMS)))
    constants = {which: one["constants"] for which, one in found.items()}
    title, data = "Table III: ρ_min, γ, L and μ as estimated", ", ".join(cases)
    (some, *_), notes = laboratories.values(), [says.CONSTANTS_NOTE]
    tables = [says.constants_beside(constants)]
    return _result("table-3", title, data, given, some, says.constants_claims(constants), tables, notes)


def _laboratory(case: Case, given: Circumstances) -> Laboratory:
    return Laboratory(case.bench, given.data_dir, given.scale, REPEATS)


def _result(
    item: str,
    title: str,
    data: str,
    given: Circumstances,
    laboratory: Laboratory,
    claims: tuple[Claim, ...],
    tables: list[Table],
    notes: list[str],
    found: Measured | None = None,
) -> Reproduction:
    statistics = [] if found is None else says.statistics(found)
    return Reproduction(
        paper="ma", item=item, title=title, loss=laboratory.bench.loss, data=data,
        scale=given.scale, seeds=len(laboratory.seeds), repeats=REPEATS,
        verdicts=[verdict(claim, statistics) for claim in claims], tables=tables, notes=notes,
        estimates=None if found is None else found["told"][0], statistics=statistics,
    )  # fmt: skip


ESTIMATES: dict[str, Item] = {
    **{
        item: SelfMeasured(partial(figure, item, CASES[name], mechanism), says.CLAIMS)
        for item, (name, mechanism) in ORDER.items()
    },
    "table-3": SelfMeasured(partial(table_3, CASES)),
}
"""The items of this module by name."""
