"""The `fuselight` command: one verb a file, on the same core as the editor.

Invariant: stdout carries only what was asked for (a format, a program's own output); all else goes to stderr.
Exit codes: 0 nothing at warning or above, 1 findings, 2 could not be analysed.
"""

from __future__ import annotations

from typing import Annotated

import typer

from fuselight.version import version
from fuselight_server.cli.bench import bench
from fuselight_server.cli.check import check
from fuselight_server.cli.doctor import doctor
from fuselight_server.cli.kernels import kernels
from fuselight_server.cli.ops import ops
from fuselight_server.cli.run import run
from fuselight_server.cli.server import server

app = typer.Typer(
    name="fuselight",
    help="See what torch.compile does to your model, on the line that caused it.",
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(bench)
app.command()(check)
app.command()(doctor)
app.command()(kernels)
app.command()(ops)
app.command(
    context_settings={
        "allow_extra_args": True,
        "ignore_unknown_options": True,
        "allow_interspersed_args": False,
    }
)(run)
app.command()(server)


def _print_version(value: bool) -> None:  # noqa: FBT001 - how the library calls an eager option
    if value:
        typer.echo(f"fuselight {version()}")
        raise typer.Exit


@app.callback()
def _root(
    _version: Annotated[  # noqa: FBT002 - a flag
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and end."),
    ] = False,
) -> None:
    """See what torch.compile does to your model, on the line that caused it."""
