"""`python -m noiseworthy` is the command line."""

from noiseworthy.cli import main

main()
