"""A federation whose theory is known exactly: least squares with chosen curvature and heterogeneity."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from noiseworthy._validate import count, non_negative, positive
from noiseworthy.data.federation import Federation
from noiseworthy.errors import InvalidInput


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """A federation and the constants of its losses.

    F_i(theta) is the mean of (x.theta - y)^2 / 2 over the records of client i, and F the mean of the F_i; all
    clients have equally many records.

    Attributes:
        federation: N clients of n records with d features each, without intercept.
        smoothness: L, largest eigenvalue of every client's Hessian.
        strong_convexity: mu, the smallest one.
        optimum: theta*, the minimiser of F, float64, shape (d,).
        optimal_loss: F* = F(theta*).
        client_optima: theta_i*, the minimisers of the F_i, float64, shape (N, d).
        heterogeneity: Gamma = F* - mean of F_i(theta_i*).
    """

    federation: Federation
    smoothness: float
    strong_convexity: float
    optimum: NDArray[np.float64]
    optimal_loss: float
    client_optima: NDArray[np.float64]
    heterogeneity: float


def least_squares(
    *,
    clients: int,
    records_per_client: int,
    dimension: int,
    smoothness: float,
    strong_convexity: float,
    heterogeneity: float = 0.0,
    residual: float = 0.0,
    seed: int,
) -> LeastSquares:
    """Least squares with exactly the stated L, mu, theta*, F* and Gamma, up to the float32 of the records.

    Every client has the same Hessian X_i'X_i/n = H, with eigenvalues spread geometrically from mu to L, so
    theta* is the mean of the client optima and Gamma = mean of (theta_i* - theta*)'H(theta_i* - theta*)/2.
    The residuals of a client are orthogonal to the features: they add `residual`^2/2 to every loss and move
    no optimum.

    Args:
        clients: N.
        records_per_client: n, more than `dimension`.
        dimension: d, at least 2.
        smoothness: L.
        strong_convexity: mu, at most L.
        heterogeneity: Gamma; above 0 it takes two clients.
        residual: root mean square of y - x.theta_i* within each client.
        seed: of the features, optima and residuals.

    Raises:
        InvalidInput: a value outside its range, named.

    Example:
        >>> known = least_squares(
        ...     clients=3,
        ...     records_per_client=20,
        ...     dimension=4,
        ...     smoothness=2.0,
        ...     strong_convexity=0.5,
        ...     heterogeneity=0.1,
        ...     seed=0,
        ... )
        >>> x = known.federation.x[1].astype(float)
        >>> np.linalg.eigvalsh(x.T @ x / 20).round(4)[[0, -1]].tolist(), round(known.optimal_loss, 6)
        ([0.5, 2.0], 0.1)
    """
    d = count("dimension", dimension, least=2)
    n = count(
        "records_per_client", records_per_client, least=d + 1, remedy="take more records than dimensions"
    )
    clients = count("clients", clients)
    gamma = non_negative("heterogeneity", heterogeneity).item()
    spread = non_negative("residual", residual).item()
    if gamma > 0 and clients == 1:
        raise InvalidInput(f"heterogeneity must be 0 with one client, got {gamma:g}; take two clients")
    rng = np.random.default_rng(count("seed", seed, least=0))
    root = _hessian_root(d, smoothness, strong_convexity, rng)
    optimum = rng.standard_normal(d) / np.sqrt(d)
    optima = optimum + _deviations(clients, root, gamma, rng)
    data = [_client(n, root, theta, spread, rng) for theta in optima]
    federation = Federation.from_clients(
        data, test=_test_set(n, root, optimum, spread, rng), classes=None, name="least squares"
    )
    return LeastSquares(
        federation, float(smoothness), float(strong_convexity), optimum, gamma + spread**2 / 2, optima, gamma
    )


def _hessian_root(d: int, smoothness: float, strong_convexity: float, rng: np.random.Generator) -> NDArray:
    """R with R'R = H, shape (d, d)."""
    top, bottom = (
        positive("smoothness", smoothness).item(),
        positive("strong_convexity", strong_convexity).item(),
    )
    if bottom > top:
        raise InvalidInput(f"strong_convexity must be at most the smoothness {top:g}, got {bottom:g}")
    return np.sqrt(np.geomspace(bottom, top, d))[:, None] * _orthonormal(d, d, rng).T


def _deviations(clients: int, root: NDArray, gamma: float, rng: np.random.Generator) -> NDArray:
    """theta_i* - theta*, shape (N, d): mean zero, and of the heterogeneity asked for."""
    if gamma == 0:
        return np.zeros((clients, len(root)))
    raw = rng.standard_normal((clients, len(root)))
    raw -= raw.mean(axis=0)
    return raw * np.sqrt(gamma / (np.sum((raw @ root.T) ** 2) / (2 * clients)))


def _client(n: int, root: NDArray, theta: NDArray, residual: float, rng: np.random.Generator):
    basis = _orthonormal(n, len(root) + 1, rng)
    x = np.sqrt(n) * basis[:, :-1] @ root
    return x, x @ theta + residual * np.sqrt(n) * basis[:, -1]


def _test_set(n: int, root: NDArray, optimum: NDArray, residual: float, rng: np.random.Generator):
    x = rng.standard_normal((n, len(root))) @ root
    return x, x @ optimum + residual * rng.standard_normal(n)


def _orthonormal(rows: int, columns: int, rng: np.random.Generator) -> NDArray:
    return np.linalg.qr(rng.standard_normal((rows, columns)))[0]
