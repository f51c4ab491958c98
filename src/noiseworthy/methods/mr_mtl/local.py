"""How an owner's model moves in MR-MTL: as in simulation, so at an owner."""

from noiseworthy._jax import Array, jnp
from noiseworthy.methods.local import Numbers


def share(step: Numbers | float, pull: Numbers | float) -> Array:
    """kappa = min(1, eta lambda), the share of the way to the mean that a reply draws an owner's model."""
    # A larger share would swing around the mean, and one above 2 lead away from it for good.
    return jnp.minimum(1.0, jnp.asarray(step) * pull)


def moved(
    own: Array, noised: Numbers, mean: Numbers, step: Numbers | float, ridge: float, kappa: Numbers | float
) -> Array:
    """The owner's model after a reply: own - step (noised + ridge own) - kappa (own - mean), shape (p,).

    Args:
        own: theta_m, at which the gradient was taken.
        noised: g_hat, with the noise that it is uploaded with.
        mean: theta, as the server sent it.
        step: eta.
        ridge: of the task.
        kappa: from `share`.
    """
    return own - step * (noised + ridge * own) - kappa * (own - mean)
