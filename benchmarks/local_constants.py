"""[constants] for DP-FedAvg and DP-ScaffNew, computed from records: run it on PUBLIC data.

    .venv/bin/python benchmarks/local_constants.py public_study.toml

prints the table for the study of the private data. The public study has the same [task], [algorithm], number
of clients and partition. Constants of private records are private: `local_plans.py` computes them only to
measure what a planner would do with them.
"""

from __future__ import annotations

import sys

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax
from threadpoolctl import threadpool_limits

import noiseworthy as nw
from noiseworthy.tasks import LinearModel

USED = {
    "dp-fedavg": ("smoothness", "strong_convexity", "initial_distance_sq", "gradient_bound", "heterogeneity"),
    "dp-scaffnew": ("smoothness", "strong_convexity", "initial_distance_sq", "optimum_gradient_sq"),
}
Constants = dict[str, float]


def loss_and_gradient(theta, task: LinearModel, x, y):
    """With the ridge; x has shape (n, q), theta (q K,)."""
    outputs = x @ theta.reshape(-1, task.outputs)
    if task.loss == "squared":
        slopes, total = outputs - y[:, None], np.sum((outputs[:, 0] - y) ** 2) / 2
    else:
        logs, labels = log_softmax(outputs, axis=1), np.eye(task.outputs)[y]
        slopes, total = np.exp(logs) - labels, -np.sum(logs * labels)
    loss, gradient = total / len(y) + task.ridge / 2 * theta @ theta, (x.T @ slopes).ravel() / len(y)
    return loss, gradient + task.ridge * theta


def optimum(task: LinearModel, x, y):
    """theta*: of least squares by its normal equations, else searched in the span of the records."""
    if task.loss == "squared":
        return np.linalg.solve(x.T @ x / len(x) + task.ridge * np.eye(x.shape[1]), x.T @ y / len(x))
    basis = np.linalg.qr(x.T)[0]
    start, about = np.zeros(basis.shape[1] * task.outputs), (task, x @ basis, y)
    found = minimize(loss_and_gradient, start, about, "L-BFGS-B", jac=True, options={"ftol": 1e-10})
    return (basis @ found.x.reshape(-1, task.outputs)).ravel()


def spectrum(x):
    """Eigenvalues of X^T X/n, ascending; without the zeros that more features than records leave."""
    return np.linalg.eigvalsh(x.T @ x if len(x) >= x.shape[1] else x @ x.T) / len(x)


@threadpool_limits.wrap(limits=1)
def constants_of(federation: nw.Federation, task: LinearModel) -> dict[str, Constants]:
    """Sound constants, and felt ones.

    Felt are the curvature L of the pooled loss at 0, mu from 2 (F(0) - F*)/||theta*||^2, Gamma = 0, G the
    root mean square at the optimum, and for the dimension trace/L of the Hessian at 0, because noise in a
    direction costs as much loss as the loss is curved there.
    """
    rows = np.asarray(task.prepare(federation.x.reshape(-1, *federation.record_shape)), float)
    rows = rows.reshape(*federation.x.shape[:2], -1)
    clients = [(x[:n], y[:n]) for x, y, n in zip(rows, federation.y, federation.sizes, strict=True)]
    pooled = tuple(np.concatenate(part) for part in zip(*clients, strict=True))
    best, curved, each = optimum(task, *pooled), spectrum(pooled[0]), [spectrum(x) for x, _ in clients]
    start, least = (loss_and_gradient(theta, task, *pooled)[0] for theta in (0 * best, best))
    alone = [loss_and_gradient(optimum(task, *client), task, *client)[0] for client in clients]
    first, last = (
        np.array([np.linalg.norm(loss_and_gradient(theta, task, *client)[1]) for client in clients])
        for theta in (0 * best, best)
    )
    curvature, lowest = (1.0, min(e[0] for e in each)) if task.loss == "squared" else (0.5, 0.0)
    sound = {
        "smoothness": curvature * max(e[-1] for e in each) + task.ridge,
        "strong_convexity": max(lowest, 0.0) + task.ridge,
        "initial_distance_sq": best @ best,
        "gradient_bound": max(first.max(), last.max()),
        "heterogeneity": least - np.mean(alone),
        "optimum_gradient_sq": np.sum(last**2),
        "dimension": task.dimension,
    }
    felt = {
        "smoothness": curved[-1] / task.outputs + task.ridge,
        "strong_convexity": 2 * (start - least) / (best @ best),
        "gradient_bound": np.sqrt(np.mean(last**2)),
        "heterogeneity": 0.0,
        "dimension": curved.sum() / curved[-1] * max(task.outputs - 1, 1),
    }
    return {"sound": sound, "felt": sound | felt}


def stated(known: Constants, algorithm: str, dimension: int) -> Constants:
    """[constants] that plan for noise in known["dimension"] directions in place of p.

    The bounds are sums of terms in Y_0, Gamma, G^2, H and of one in p times the noise: what makes the last
    smaller by p/d chooses as what makes all others larger by it.
    """
    scale = dimension / known["dimension"]
    powers = {"gradient_bound": 0.5, "smoothness": 0.0, "strong_convexity": 0.0}
    return {name: float(known[name] * scale ** powers.get(name, 1.0)) for name in USED[algorithm]}


def main() -> None:
    prepared = nw.prepare(nw.load_study(sys.argv[1]))
    felt = constants_of(*prepared.trained())["felt"]
    print("[constants]")
    for name, value in stated(felt, prepared.study.algorithm.name, prepared.dimension).items():
        print(f"{name} = {value:.4g}")


if __name__ == "__main__":
    main()
