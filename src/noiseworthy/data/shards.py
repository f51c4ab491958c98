"""How many records of which class each client gets, so that all get equally many."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from noiseworthy.errors import DataError


def equal_shares(stock: NDArray[np.int64], holds: NDArray[np.int64]) -> NDArray[np.int64]:
    """Whole shares of the largest common size, as near to even within a client as the stock allows.

    First the largest size is found, then the least total distance from even shares. Both are linear programs
    over a transportation polytope, whose corners are whole numbers when stock and sizes are.

    Args:
        stock: records of each class, shape (K,).
        holds: classes of each client, distinct within a row, shape (N, k).

    Returns:
        Records of class `holds[i, j]` for client i, shape (N, k); all rows have the same sum.

    Raises:
        DataError: not even one record for everybody.

    Example:
        >>> equal_shares(np.array([4, 6, 5]), np.array([[0, 1], [1, 2], [2, 0]]))
        array([[2, 3],
               [3, 2],
               [3, 2]])
    """
    of_client, of_class = _incidence(len(stock), holds)
    size = _largest_size(stock, of_client, of_class)
    if size == 0:
        raise DataError(
            f"{stock.sum()} records in {len(stock)} classes are too few for {len(holds)} equal clients; "
            "take fewer clients or more labels per client"
        )
    return _most_even(stock, size, of_client, of_class).reshape(holds.shape)


def _incidence(classes: int, holds: NDArray[np.int64]) -> tuple[sparse.csr_array, sparse.csr_array]:
    """Which of the N k shares belong to each client (N, N k) and to each class (K, N k)."""
    clients, held = holds.shape
    ones, shares = np.ones(holds.size), np.arange(holds.size)
    of_client = sparse.csr_array((ones, (np.repeat(np.arange(clients), held), shares)))
    of_class = sparse.csr_array((ones, (holds.ravel(), shares)), shape=(classes, holds.size))
    return of_client, of_class


def _largest_size(stock: NDArray[np.int64], of_client: Any, of_class: Any) -> int:
    """Greatest s with every client's shares summing to s; the last variable is s."""
    clients, shares = of_client.shape
    from scipy.optimize import linprog  # here, because few data are dealt out so

    solution = linprog(
        np.append(np.zeros(shares), -1.0),
        A_eq=sparse.hstack([of_client, -np.ones((clients, 1))]),
        b_eq=np.zeros(clients),
        A_ub=sparse.hstack([of_class, sparse.csr_array((len(stock), 1))]),
        b_ub=stock,
        method="highs-ds",
    )
    # a corner is whole but for the solver's tolerance, about 1e-7
    return int(np.floor(solution.x[-1] + 1e-6))


def _most_even(stock: NDArray[np.int64], size: int, of_client: Any, of_class: Any) -> NDArray[np.int64]:
    """Shares `even + more - less` of sum `size`, with the sum of `more` and `less` least."""
    clients, shares = of_client.shape
    even = size // (shares // clients)
    from scipy.optimize import linprog

    solution = linprog(
        np.ones(2 * shares),
        A_eq=sparse.hstack([of_client, -of_client]),
        b_eq=size - even * of_client.sum(axis=1),
        A_ub=sparse.hstack([of_class, -of_class]),
        b_ub=stock - even * of_class.sum(axis=1),
        bounds=[(0, None)] * shares + [(0, even)] * shares,
        method="highs-ds",
    )
    return even + np.rint(solution.x[:shares] - solution.x[shares:]).astype(np.int64)
