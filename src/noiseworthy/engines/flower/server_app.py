"""The Flower app of the server: does at its grid what the training asks for (`relay.serve`)."""

from __future__ import annotations

from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from noiseworthy.engines.flower.relay import serve

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Serve the training that waits in the `folder` of the run's configuration."""
    serve(grid, Path(str(context.run_config["folder"])))
