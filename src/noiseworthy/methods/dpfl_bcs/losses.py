"""How many losses a client reports beside a gradient of stage 1."""

LOSSES_PER_REPLY = 2
"""At the model that was sent, and at the client's own noised step."""
