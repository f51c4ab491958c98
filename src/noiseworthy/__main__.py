"""`noiseworthy` and `python -m noiseworthy` are the command line."""

import sys


def main() -> None:
    """Entry point: whoever interrupts a command is told so in a line, also while it is being loaded."""
    try:
        from noiseworthy.cli import main as command

        command()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
