"""Commands whose standard streams the shell has closed, as in `fuselight check m.py >&-`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fuselight_server.cli.command_line import COMMANDS

SOURCE = "import torch\n\n\ndef f(x):\n    return x\n"
CLOSED = ("<&-", ">&-", "2>&-", "<&- >&- 2>&-")


def _ended(folder: Path, command: str, *arguments: str, closed: str) -> subprocess.CompletedProcess[str]:
    line = " ".join(['exec "$0" -m fuselight_server', command, *arguments, closed])
    return subprocess.run(
        ["sh", "-c", line, sys.executable], cwd=folder, capture_output=True, text=True, timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("closed", CLOSED)
def test_a_command_works_without_a_standard_stream(tmp_path: Path, closed: str) -> None:
    """What is opened next must not get the number of the closed stream, and what is printed not go there."""
    (tmp_path / "m.py").write_text(SOURCE, encoding="utf-8")
    commands: tuple[tuple[str, str, int], ...] = (("check", "m.py", 0), ("check", "gone.py", 2))
    if closed == CLOSED[-1]:
        commands += (("--version", "", 0), ("sweep", "no-suite", 2), ("server", "</dev/null", 0))
    for command, argument, code in commands:
        done = _ended(tmp_path, command, argument, closed=closed)
        assert "Traceback" not in done.stderr, (command, done.stderr)
        assert done.returncode == code, (command, done)
    assert {path.name for path in tmp_path.iterdir()} <= {"m.py", ".fuselight"}
    assert (tmp_path / "m.py").read_text(encoding="utf-8") == SOURCE


_HELP = """\
import os, sys
from fuselight_server import main
from fuselight_server.cli.command_line import COMMANDS
for name in COMMANDS:
    for number in range(3):
        try:
            os.close(number)
        except OSError:
            pass
    sys.stdin = sys.stdout = sys.stderr = None
    sys.argv[1:] = [name, "--help"]
    try:
        code = main()
    except SystemExit as ended:
        code = ended.code
    if code:
        os._exit(9)
    open("helped", "a").write(name + "\\n")
"""
"""Each command finds the streams as a shell that closed them leaves them."""


def test_every_subcommand_has_its_help_without_streams(tmp_path: Path) -> None:
    done = subprocess.run(
        ["sh", "-c", 'exec "$0" -c "$1" <&- >&- 2>&-', sys.executable, _HELP], cwd=tmp_path, timeout=300,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0
    assert (tmp_path / "helped").read_text(encoding="utf-8").split() == list(COMMANDS)
