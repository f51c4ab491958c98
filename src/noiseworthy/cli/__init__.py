"""The command line: every command is one call of the library, with a progress bar and clear errors.

Exit codes: 0 done, 2 the user's input (one line on stderr), 1 a fault of ours.

A command is a function with typer's annotations in the module of its family (`planning`, `training`, ...). It
is registered by naming it in `COMMANDS`, in the order of `--help`; a group of commands (`ledger show`) in
`GROUPS`. Options that several commands take are in `options`, steps that they share in `steps`, the
consoles and the progress bar in `console`. Heavy imports belong inside the functions, so that `--help` is
quick and never loads jax.
"""

import atexit
import gc
import re
import sys
from collections.abc import Sequence
from errno import ENOSPC
from io import TextIOWrapper
from typing import Annotated, Any

import typer

from noiseworthy._names import concealed, shown
from noiseworthy.cli import checking, gateways, init, ledgers, papers, planning, predicting, training
from noiseworthy.errors import ConfigError, UserError

COMMANDS = (
    init.init, checking.check, planning.plan, training.train, planning.advise, training.compare,
    training.tradeoff, training.rivals, training.sweep, training.quickstart, planning.account, checking.audit,
    checking.measure, papers.reproduce, training.report, predicting.predict, predicting.export,
    predicting.tune, gateways.gateway, init.schema,
)  # fmt: skip
GROUPS = {"ledger": ledgers.ledger, "card": predicting.card, "deploy": gateways.deploy}

_UsageError: type[Any] = typer.BadParameter.__bases__[0]  # of click, which some releases of typer contain
_INTERRUPTED = 130
_OF_EXTRA = re.compile(r"""([\w.-]+).*extra == ["'](\w+)["']""")
"""A requirement of an extra, as the installation states it."""
_OF_DEVELOPERS = ("test", "site")


def _tell_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"noiseworthy {version('noiseworthy')}")
        raise typer.Exit


def _program(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_tell_version, help="say which this is")
    ] = False,
) -> None:
    """Plan and train differentially private federated learning: is the next reply worth its noise?"""


def _app(wanted: str = "") -> typer.Typer:
    """All commands, or the wanted one alone: to read what options all of them take is a tenth of a start."""
    made = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)
    made.callback()(_program)
    every = {command.__name__: command for command in COMMANDS} | GROUPS
    for name in [wanted] if wanted in every else every:
        one = every[name]
        made.add_typer(one, name=name) if isinstance(one, typer.Typer) else made.command()(one)
    return made


app = _app()


def main() -> None:
    """Entry point: the user's mistakes end in one line and exit code 2."""
    gc.set_threshold(500_000, 50, 100)  # modules stay: to look for waste among them took an eighth of a start
    atexit.register(gc.freeze)  # and a fifth, once more, as the process ended
    if isinstance(sys.stdout, TextIOWrapper):  # as Python does for stderr
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = _app(*sys.argv[1:2])(prog_name="noiseworthy", standalone_mode=False) or 0
    except (KeyboardInterrupt, typer.Abort):
        code = _INTERRUPTED
    except Exception as error:
        if (complaint := _complaint(error)) is None:
            raise
        for one in complaint:
            print(f"error: {shown(concealed(' '.join(one.split())))}", file=sys.stderr)
        raise SystemExit(2) from None
    if code == _INTERRUPTED:
        print("interrupted", file=sys.stderr)
    raise SystemExit(code)


def _complaint(error: Any) -> Sequence[str] | None:
    """What the user got wrong, nothing if help was shown instead; None if the fault is ours."""
    if isinstance(error, UserError):
        return error.mistakes if isinstance(error, ConfigError) else [str(error)]
    if isinstance(error, OSError):
        place = error.filename or ("what is written to" if error.errno == ENOSPC else None)
        said = f"{place} cannot be used: {error.strerror}; name another place, open this one or free space"
        return None if place is None else [said]
    if isinstance(error, ModuleNotFoundError):
        return _not_installed(str(error.name))
    if not isinstance(error, _UsageError):
        return None
    command = error.ctx.command_path if error.ctx is not None else "noiseworthy"
    message = error.format_message().rstrip(".")
    return [f"{message}; see {command} --help"] if message else []


def _not_installed(module: str) -> Sequence[str] | None:
    """What to install for a package that an extra brings; None for one that none does, which is our fault."""
    from importlib.metadata import requires

    package = module.partition(".")[0].replace("_", "-").lower()
    for line in requires("noiseworthy") or []:
        found = _OF_EXTRA.match(line)
        if found and found[2] not in _OF_DEVELOPERS and found[1].replace("_", "-").lower() == package:
            return [f"{module} is not installed; pip install 'noiseworthy[{found[2]}]'"]
    return None
