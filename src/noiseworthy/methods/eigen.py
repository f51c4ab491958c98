"""Eigenvectors within mapped trainings."""

from noiseworthy._jax import Array, jax, jnp


@jax.custom_batching.sequential_vmap
def eigh(symmetric: Array) -> tuple[Array, Array]:
    """Eigenvalues, ascending, and vectors; of mapped matrices one at a time.

    jaxlib 0.10 shares out a batch to the threads that run the program and waits for them: with as many
    trainings side by side as there are cores, all wait for ever.
    """
    return tuple(jnp.linalg.eigh(symmetric))
