"""The owner's terms: what they allow of a request, before anything is spent."""

from noiseworthy.deploy.gateway.messages import LARGEST, Reason, Refused, Request
from noiseworthy.deploy.gateway.owner import AllowedTable, BudgetTable, approved
from noiseworthy.methods.wire import Job

MOST_NUMBERS = (LARGEST - 2**20) // 8
"""Of an upload, so that a message has room for it."""


class Declined(Exception):
    """Ends a request in a reply without an upload; its words are made of public things alone."""

    def __init__(self, reason: Reason, message: str, next: int | None = None):
        super().__init__(message)
        # cut: a name in UTF-8 takes up to three times the room in a reply, more than one may have
        self.reply = Refused(reason=reason, message=message[:2000], next=next)


def check_allowed(allowed: AllowedTable, budget: BudgetTable, request: Request) -> None:
    """Hold a request against the owner's file.

    Raises:
        Declined: it asks for more than is allowed.
    """
    steps, task = request.algorithm.steps, request.task
    limits = [
        ("algorithm", request.algorithm.name, request.algorithm.name in allowed.algorithms),
        ("model", approved(str(task.model), task.model_digest), allowed.allows(task)),
        ("encoder", approved(str(task.features), task.encoder_digest), allowed.encodes(task)),
        ("mechanism", request.mechanism, request.mechanism == budget.mechanism),
        ("release", request.release, request.release <= allowed.most_releases),
        ("parameters", len(request.theta), len(request.theta) <= allowed.most_parameters),
        ("local steps", steps, steps <= allowed.most_local_steps),
    ]
    for what, asked, fine in limits:
        if not fine:
            raise Declined("not-allowed", f"the owner does not allow {what} {asked}; nothing was spent")


def check_floor(budget: BudgetTable, job: Job) -> None:
    """Hold noise over sensitivity, as the owner computes it, against the owner's floor.

    Raises:
        Declined: there is too little noise.
    """
    ratio, floor = min(1 / float(one.release.shift[0]) for one in job.sums), budget.noise_floor
    if not ratio >= floor:
        said = f"noise must be at least {floor:g} times what a neighbour changes, got {ratio:g} times; "
        raise Declined("floor", said + "nothing was spent, ask for more noise or a smaller clip")


def check_room(job: Job) -> None:
    """Hold an upload against the longest message, in which it must leave once it is paid for.

    Raises:
        Declined: it is longer.
    """
    numbers = sum(one.dimension for one in job.sums)
    if numbers > MOST_NUMBERS:
        said = f"a message holds uploads of {MOST_NUMBERS:,} numbers, got {numbers:,}; nothing was spent, "
        raise Declined("not-allowed", said + "ask for fewer features, or for gradients in place of moments")
