"""The workloads of `peers.py` and `gpu.py` in torch, Opacus and pfl-research, in an environment of their own.

python peers_torch.py RECORDS.npz          on one core, {workload: {peer: CPU seconds}} as JSON
python peers_torch.py RECORDS.npz cuda     on a GPU, seconds by the wall; more records, without pfl-research
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from itertools import pairwise

if len(sys.argv) == 2 and hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {0})

import numpy as np
import torch
from opacus.grad_sample import GradSampleModule, GradSampleModuleFastGradientClipping
from opacus.optimizers import DPOptimizerFastGradientClipping
from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

torch.set_num_threads(1)
GPU = sys.argv[2:] == ["cuda"]
ROUNDS, COHORT, STEPS, RATE, CLIP, NOISE = 100, 10, 10, 0.1, 0.1, 0.01
TRAININGS, CALLS, SUMMED = (1, 20, (200, 2000)) if GPU else (3, 7, (200,))
CROSS = nn.CrossEntropyLoss()
Call = Callable[[], object]


def least(call: Call, repeats: int) -> float:
    """Seconds of the quickest of some calls but the first: of the CPU, or on a GPU by the wall."""
    took, clock = [], time.perf_counter if GPU else time.process_time
    for _ in range(repeats + 1):
        start = clock()
        call()
        if GPU:
            torch.cuda.synchronize()
        took.append(clock() - start)
    return min(took[1:])


# Rounds of a linear model: 10 of 1,000 clients, each with 60 records ------------------------------------


def loops(x: Tensor, y: Tensor) -> None:
    """Local steps as most people write them: a module, autograd, one client after the other."""
    server, rng = nn.Linear(784, 10), np.random.default_rng(0)
    for _ in range(ROUNDS):
        total = [torch.zeros_like(p) for p in server.parameters()]
        for client in rng.choice(len(x), COHORT, replace=False):
            local = nn.Linear(784, 10)
            local.load_state_dict(server.state_dict())
            for _ in range(STEPS):
                slopes = torch.autograd.grad(CROSS(local(x[client]), y[client]), list(local.parameters()))
                with torch.no_grad():
                    for p, slope in zip(local.parameters(), slopes, strict=True):
                        p -= RATE * slope
            with torch.no_grad():
                moved = [p - q for p, q in zip(local.parameters(), server.parameters(), strict=True)]
                norm = torch.sqrt(sum((m**2).sum() for m in moved))
                factor = torch.clamp(CLIP / norm, max=1.0)
                for held, m in zip(total, moved, strict=True):
                    held += factor * m + NOISE * torch.randn_like(m)
        with torch.no_grad():
            for p, held in zip(server.parameters(), total, strict=True):
                p += held / COHORT


class PflLinear(nn.Module):
    """A linear model as pfl-research wants it."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(784, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x)

    def loss(self, x: Tensor, y: Tensor, eval: bool = False) -> Tensor:
        return CROSS(self(x), y)

    def metrics(self, x: Tensor, y: Tensor, eval: bool = True) -> dict[str, float]:
        return {}


def pfl(x: Tensor, y: Tensor) -> None:
    """The same rounds by pfl-research's own simulation; noise at the server, once a round."""
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.data import FederatedDataset
    from pfl.data.dataset import Dataset
    from pfl.hyperparam.base import NNEvalHyperParams, NNTrainHyperParams
    from pfl.model.pytorch import PyTorchModel
    from pfl.privacy import CentrallyAppliedPrivacyMechanism, GaussianMechanism

    module, rng = PflLinear(), np.random.default_rng(0)
    model = PyTorchModel(module, torch.optim.SGD, torch.optim.SGD(module.parameters(), 1.0))
    data = FederatedDataset(lambda i: Dataset((x[i], y[i])), lambda: int(rng.integers(len(x))))
    noise = CentrallyAppliedPrivacyMechanism(GaussianMechanism(CLIP, NOISE))
    FederatedAveraging().run(
        NNAlgorithmParams(ROUNDS, ROUNDS + 1, COHORT, 0),
        SimulatedBackend(data, data, postprocessors=[noise]), model,
        NNTrainHyperParams(local_batch_size=None, local_num_epochs=STEPS, local_learning_rate=RATE),
        NNEvalHyperParams(local_batch_size=None), [], send_metrics_to_platform=False,
    )  # fmt: skip


# Clipped gradients of some records -----------------------------------------------------------------------


def dense() -> nn.Module:
    """Three dense layers of 10^6 parameters."""
    first, *rest = (nn.Linear(i, o) for i, o in pairwise((500, 1000, 500, 10)))
    return nn.Sequential(first, *(part for layer in rest for part in (nn.Tanh(), layer)))


def cnn() -> nn.Module:
    """Two convolutions of 5 x 5 and a dense layer, 28,938 parameters."""
    parts = [
        part
        for i, o in ((1, 16), (16, 32))
        for part in (nn.Conv2d(i, o, 5, padding=2), nn.MaxPool2d(2), nn.ReLU())
    ]
    return nn.Sequential(*parts, nn.Flatten(), nn.Linear(32 * 49, 10))


def plain(module: nn.Module, x: Tensor, y: Tensor) -> Call:
    return lambda: torch.autograd.grad(CROSS(module(x), y), list(module.parameters()))


def by_functions(module: nn.Module, x: Tensor, y: Tensor) -> Call:
    """A gradient per record by torch.func, clipped and summed."""
    params = {name: p.detach() for name, p in module.named_parameters()}

    def loss(params: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        return CROSS(functional_call(module, params, (x[None],)), y[None])

    each = vmap(grad(loss), in_dims=(None, 0, 0))

    def call() -> list[Tensor]:
        return clipped([*each(params, x, y).values()])

    return call


def clipped(slopes: list[Tensor]) -> list[Tensor]:
    norms = torch.sqrt(sum((s.flatten(1) ** 2).sum(1) for s in slopes))
    return [torch.tensordot(torch.clamp(1.0 / norms, max=1.0), s, 1) for s in slopes]


def by_opacus(module: nn.Module, x: Tensor, y: Tensor) -> Call:
    """A gradient per record by Opacus's hooks."""
    wrapped, cross = GradSampleModule(module, loss_reduction="sum"), nn.CrossEntropyLoss(reduction="sum")

    def call() -> list[Tensor]:
        cross(wrapped(x), y).backward()
        total = clipped([p.grad_sample for p in wrapped.parameters()])
        for p in wrapped.parameters():
            p.grad_sample = p.grad = None
        return total

    return call


def by_ghosts(module: nn.Module, x: Tensor, y: Tensor) -> Call:
    """Ghost clipping by Opacus."""
    wrapped = GradSampleModuleFastGradientClipping(module, max_grad_norm=1.0, use_ghost_clipping=True)
    optimizer = DPOptimizerFastGradientClipping(
        torch.optim.SGD(module.parameters(), 0.0), noise_multiplier=0.0, max_grad_norm=1.0,
        expected_batch_size=len(x),
    )  # fmt: skip
    cross = DPLossFastGradientClipping(wrapped, optimizer, nn.CrossEntropyLoss())

    def call() -> None:
        cross(wrapped(x), y).backward()
        optimizer.zero_grad()

    return call


def local_steps(module: nn.Module, x: Tensor, y: Tensor) -> Call:
    """Two local steps."""
    optimizer = torch.optim.SGD(module.parameters(), 0.01)

    def call() -> None:
        for _ in range(2):
            optimizer.zero_grad()
            CROSS(module(x), y).backward()
            optimizer.step()

    return call


def main() -> None:
    device = "cuda" if GPU else "cpu"
    torch.set_default_device(device)
    torch.set_float32_matmul_precision("high")  # TF32 on a GPU, as JAX; a CPU has none
    held = np.load(sys.argv[1])
    x, y = torch.from_numpy(held["x"]).to(device), torch.from_numpy(held["y"]).long().to(device)
    peers = {"torch": loops} if GPU else {"torch": loops, "pfl": pfl}
    found = {
        "local steps, 1,000 clients": {
            name: least(lambda run=run: run(x, y), TRAININGS) for name, run in peers.items()
        }
    }
    ways = {"torch.func": by_functions, "opacus": by_opacus, "opacus ghost": by_ghosts}
    for summed in SUMMED:
        images, labels = x.reshape(-1, 1, 28, 28)[:summed], y.reshape(-1)[:summed]
        rows = torch.randn(summed, 500)
        found |= {
            f"dense, plain, {summed}": {"torch": least(plain(dense(), rows, labels), CALLS)},
            f"dense, clipped, {summed}": {
                name: least(way(dense(), rows, labels), CALLS) for name, way in ways.items()
            },
            f"cnn, clipped, {summed}": {
                name: least(way(cnn(), images, labels), CALLS) for name, way in ways.items()
            },
            f"cnn, two local steps, {summed}": {"torch": least(local_steps(cnn(), images, labels), CALLS)},
        }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
