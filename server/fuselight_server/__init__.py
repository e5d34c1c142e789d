"""Fuselight's language server and command line. Never imports torch or the user's code."""

from __future__ import annotations


def main() -> int:
    """Entry point of the `fuselight` command; returns its exit code."""
    try:
        from fuselight_server import interrupts  # noqa: PLC0415 - so that Ctrl-C is caught from here on
    except KeyboardInterrupt:
        import sys  # noqa: PLC0415 - only here

        sys.stderr.write("fuselight: stopped\n")
        return 130
    return interrupts.end_of(_run)


def _run() -> int:
    from fuselight_server import interrupts  # noqa: PLC0415 - imported by now

    interrupts.exit_at_interrupts()
    from fuselight_server.cli.command_line import run_command  # noqa: PLC0415 - the server needs no command line

    return run_command()
