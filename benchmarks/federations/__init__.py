"""Real tables and images as federations of 4 to 500 owners, split once into a tuning and a judging half.

They come from scikit-learn, statsmodels, river and the data folder (NOISEWORTHY_DATA), and from nowhere else.
Which half a federation belongs to, who owns its records and how many owners there are follow from hashes of
names alone; nothing is moved by hand. Nothing about a planner may be chosen on the judging half.
"""

from federations.deals import FEDERATIONS, SOURCES, Deal, Evidence, half, relatives_of
from federations.source import Source, half_of

__all__ = ["FEDERATIONS", "SOURCES", "Deal", "Evidence", "Source", "half", "half_of", "relatives_of"]
