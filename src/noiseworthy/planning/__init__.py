"""Planning: bounds, their closed forms and integer optima, and the plan as one value. Never imports jax."""
