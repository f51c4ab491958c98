"""A study whose clients are owners at the end of a network: what is asked of them, and whether they fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from noiseworthy.data import Federation
from noiseworthy.data.owners import Labels, columns_misfit, labels_misfit
from noiseworthy.deploy.asking import work_of
from noiseworthy.deploy.demands import Demand
from noiseworthy.deploy.gateway.messages import About
from noiseworthy.deploy.gateway.owner import approved
from noiseworthy.deploy.gateway.terms import MOST_NUMBERS
from noiseworthy.deploy.secure_sum.terms import MOST_COORDINATES
from noiseworthy.errors import ConfigError, GatewayError, UnsoundClaim
from noiseworthy.plans.plan import Plan
from noiseworthy.studies.centring import OF_A_SIMULATION
from noiseworthy.studies.checkpoints import fingerprint
from noiseworthy.studies.label_size import NOT_AT_OWNERS
from noiseworthy.studies.models import task_for
from noiseworthy.studies.opening import default_model
from noiseworthy.studies.plan_file import PlanFile
from noiseworthy.studies.prepare import Prepared
from noiseworthy.studies.ranges import NOT_OVER_A_NETWORK
from noiseworthy.studies.read_off import check_nothing_is
from noiseworthy.studies.training import check_begins
from noiseworthy.tasks.base import Task
from noiseworthy.tasks.names import is_encoder


@dataclass(frozen=True)
class Deployment:
    """A study whose clients are owners at the end of a network.

    Attributes:
        prepared: the study, with the model that the plan trains.
        plan: what every owner is asked for.
        seed: of the public start and schedule, the first of `[training] seeds`.
    """

    prepared: Prepared
    plan: Plan
    seed: int

    @classmethod
    def of(cls, prepared: Prepared, plan: Plan) -> Deployment:
        """A study and its plan.

        Raises:
            ConfigError: a study without data, one that is a simulation, or a plan that does not train.
            UnsoundClaim: a plan that owners cannot follow, by name.
            InvalidInput: a plan that follows from a stage of another training.
        """
        federation, _ = prepared.trained()
        check_nothing_is(prepared.study, federation)
        if (bought := plan.ranges or prepared.ranges) is not None and not bought.pending:
            sized = bought.label_scale is not None
            why = NOT_OVER_A_NETWORK if bought.found else NOT_AT_OWNERS if sized else OF_A_SIMULATION
            raise UnsoundClaim(f"nothing is deployed: {why}")
        if not plan.train:
            raise ConfigError(f"there is nothing to deploy: {plan.outcome}")
        check_begins(plan)
        check_trust(plan)
        if plan.pilot is not None and not plan.pilot.pending:
            raise UnsoundClaim(
                "constants that are bought from records are not deployed; state them under [planning], or "
                'plan with source = "trial" on public data'
            )
        if plan.budget.relation != "replace-one":
            raise UnsoundClaim(
                "owners price releases for neighbours that exchange a record, and the study states relation "
                f"{plan.budget.relation}, by which the same noise would cost half as much; state [privacy] "
                'relation = "replace-one" to deploy it'
            )
        if prepared.study.privacy.unit == "person" and plan.budget.unit == "client":
            raise UnsoundClaim(
                f"{plan.algorithm} hides everything that an owner holds, which covers persons, and owners "
                'answer for it by records; leave out [privacy] unit = "person" to deploy it'
            )
        if plan.release is None or not plan.problem.law.noisy:
            raise ConfigError("a plan without noise is not deployed; state a mechanism and a budget")
        work_of(plan, 0, 0)
        most = MOST_COORDINATES if plan.problem.trust.sums_itself else MOST_NUMBERS
        if plan.numbers > most:
            raise ConfigError(
                f"an upload of this plan has {plan.numbers:,} numbers, and owners send {most:,} at most; "
                'project records to fewer features, or state [algorithm] name = "fedsgd-dpc"'
            )
        return cls(prepared, plan, prepared.study.training.seeds[0])

    @property
    def federation(self) -> Federation:
        """The study's clients, by name and size, and its test set."""
        return self.prepared.trained()[0]

    @property
    def task(self) -> Task:
        """Model and loss."""
        return self.prepared.trained()[1]

    @property
    def mark(self) -> str:
        """`fingerprint` of the training."""
        return fingerprint(self.plan, [self.seed], "deployed" + self.prepared.study.names_data)

    def having_told(self, found: Mapping[str, Any]) -> Deployment:
        """The same once its owners told the mean that the plan leaves open: study, model and plan hold it.

        Args:
            found: numbers of `BoughtRanges` by name, lists of them where it has several.
        """
        known = {name: tuple(one) if isinstance(one, list) else one for name, one in found.items()}
        told = replace(cast(Any, self.plan.ranges), **known)
        task = task_for(self.prepared.study, self.federation, told)
        return replace(self, prepared=replace(self.prepared, task=task), plan=replace(self.plan, ranges=told))

    def demand_of(self, client: str) -> Demand:
        """What the plan asks of a client.

        Args:
            client: by name.
        """
        model = approved(model_of(self.prepared), self.prepared.study.task.model_digest)
        place, task = self.federation.clients.index(client), self.prepared.study.task
        return Demand.of(self.plan, model, place, asked_encoder(task.features, task.encoder_digest))

    @property
    def fewest(self) -> int:
        """Owners without whom no round can be made: half of those who are asked, or all but the dropouts."""
        asked, trust = self.plan.clients_per_round, self.plan.problem.trust
        return asked - trust.dropouts if trust.sums_itself else (asked + 1) // 2

    def check_owners(self, abouts: list[About], *, resume: bool = False, fewest: int | None = None) -> None:
        """Refuse to begin while an owner's terms do not fit the plan; asking costs nobody anything.

        Args:
            abouts: what owners tell.
            resume: a part of what is spent was spent by this training.
            fewest: clients who must be there; None for all of them.

        Raises:
            GatewayError: clients that are missing, hold other records than were planned for, or do not allow
                what the plan asks.
        """
        there = {about.client: about for about in abouts}
        missing = [name for name in self.federation.clients if name not in there]
        if missing and (fewest is None or len(there) < fewest):
            raise GatewayError(f"no gateway answers for {', '.join(missing)}; start it, then ask again")
        for name, size in zip(self.federation.clients, self.federation.sizes.tolist(), strict=True):
            if name in missing:
                continue
            self._check_records(there[name], size)
            spent = 0.0 if resume else min(1.0, there[name].spent + there[name].leased)
            demand = self.demand_of(name)
            if why := demand.misfit(there[name]):
                raise GatewayError(f"{name} {why}; change the study, or have the owner change its file")
            if why := demand.unpaid(there[name], spent):
                raise GatewayError(f"{name} {why}")

    def _check_records(self, about: About, size: int) -> None:
        federation, study = self.federation, self.prepared.study
        digest = None if study.columns is None else study.columns.digest
        labels = study.federation.classes
        check_records(about, size, federation.record_shape, federation.classes, digest, labels)


def check_trust(plan: Plan) -> None:
    """Refuse a plan whose noise hides records from fewer than those who would see the uploads.

    Raises:
        UnsoundClaim: cohorts that nobody may see, or a sum that no protocol makes.
    """
    trust = plan.problem.trust
    if trust.secret:
        raise UnsoundClaim(
            'cohorts = "secret" is simulated and not deployed: owners see when they are asked, and keep '
            "books of it; leave it out to deploy"
        )
    if trust.sums_itself and not plan.problem.law.stable:
        raise UnsoundClaim(
            f"{plan.problem.family} noise in sums is simulated and not deployed: no exact sampler of its "
            'shares is at hand; plan with mechanism = "gaussian", or with trust = "local" or "central"'
        )


def check_asked(file: PlanFile, about: About) -> None:
    """Refuse a plan that asks an owner for more than its terms allow, whatever is spent of its budget.

    Args:
        file: that the owner was given to review.
        about: what the owner tells everybody.

    Raises:
        GatewayError: a plan for other clients or other records, or beyond the owner's file.
        UnsoundClaim: cohorts that nobody may see, or sums that no protocol makes.
    """
    check_trust(file.plan)
    facts, name = file.made_for["facts"], about.client
    if "record_shape" not in facts or name not in facts["clients"]:
        raise GatewayError(f"the plan was not made for records of {name!r}; take one that asks this owner")
    place = facts["clients"].index(name)
    size, columns = int(file.plan.problem.sizes[place]), facts.get("columns", {}).get("digest")
    labels = file.made_for["study"]["federation"].get("classes")
    check_records(about, size, tuple(facts["record_shape"]), facts["classes"], columns, labels)
    model = approved(file.task["model"] or default_model(facts["classes"]), file.task.get("model_digest"))
    encoder = asked_encoder(file.task.get("features"), file.task.get("encoder_digest"))
    demand = Demand.of(file.plan, model, place, encoder)
    if why := demand.misfit(about):
        raise GatewayError(f"{name} {why}; change the owner's file, or have the study changed")
    if why := demand.unpaid(about):
        raise GatewayError(f"{name} {why}")


def asked_encoder(features: str | None, digest: str | None) -> str | None:
    """What an encoder is called in terms: its name and its digest; None of other features."""
    return approved(str(features), digest) if is_encoder(features) else None


def check_records(
    about: About, size: int, shape: tuple[int, ...], classes: int | None, columns: str | None,
    labels: Labels | None = None,
) -> None:  # fmt: skip
    """Refuse an owner whose records are not those that were planned for.

    Raises:
        GatewayError: another number of records, other columns, another shape, other classes or their order.
    """
    if about.records != size:
        raise GatewayError(
            f"{about.client} holds {about.records} records, the plan was made for {size}; plan again, "
            "because noise depends on them"
        )
    if misfit := columns_misfit(about.client, about.columns, columns):
        raise GatewayError(misfit)
    if about.record_shape != shape or about.classes != classes:
        raise GatewayError(
            f"{about.client} holds records of shape {about.record_shape} and {about.classes} classes, "
            f"the study's are {shape} and {classes}; have it choose feature_columns and classes alike"
        )
    if misfit := labels_misfit(about.client, about.labels, labels):
        raise GatewayError(misfit)


def model_of(prepared: Prepared) -> str:
    """The model by name, the default one written out."""
    federation, _ = prepared.trained()
    return prepared.study.task.model or default_model(federation.classes)
