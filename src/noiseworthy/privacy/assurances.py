"""What the noise of an upload may be trusted with, in words for statements."""

from __future__ import annotations

from noiseworthy.privacy.uploads import Assurance

WORDS: dict[Assurance, str] = {
    "simulation": "seeded floating-point numbers of the right law, which hide nothing",
    "grid-csprng": "whole numbers on a public grid, drawn without a seed by OpenDP's exact samplers",
    "awaited": "no noise yet: the server that its owner trusts adds that of the sum",
}
"""Where noise comes from, for statements."""
SIMULATED = (
    "The noise follows the right law, so losses and accuracies are those of a private training, but it "
    "comes from seeded floating-point numbers and hides nothing from somebody who looks closely. Do not "
    "release the model or the uploads of this run if the records are private."
)
