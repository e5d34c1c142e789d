"""Fuselight's language server and command line. Never imports torch or the user's code."""

from __future__ import annotations


def main() -> int:
    """Entry point of the `fuselight` command; returns its exit code."""
    _open_standard_streams()
    try:
        from fuselight_server.base import interrupts  # noqa: PLC0415 - so that Ctrl-C is caught from here on
    except KeyboardInterrupt:
        import sys  # noqa: PLC0415 - only here

        sys.stderr.write("fuselight: stopped\n")
        return 130
    return interrupts.end_of(_run)


def _open_standard_streams() -> None:
    """Have all three standard streams, also where the shell has closed one (`>&-`): its file is then the null device.

    Else the next file that is opened would get its number, and what is printed would go there.
    """
    import os  # noqa: PLC0415 - before anything that takes longer
    import sys  # noqa: PLC0415 - the same

    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            os.set_inheritable(number, True)  # noqa: FBT003 - it has no name
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 - until the end


def _run() -> int:
    from fuselight_server.base import interrupts  # noqa: PLC0415 - imported by now

    interrupts.exit_at_interrupts()
    from fuselight_server.cli.command_line import run_command  # noqa: PLC0415 - the server needs no command line

    return run_command()
