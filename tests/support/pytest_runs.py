"""Runs pytest with the plugin in a folder of its own, in a process of its own, as a user does."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.support.prepared import program_interpreter

ROOT = Path(__file__).parents[2]
PLUGIN = ("-p", "no:fuselight", "-p", "fuselight_server.pytest_plugin")
"""The plugin of this checkout, whether or not the environment knows its entry point."""


@dataclass(frozen=True)
class PytestRun:
    """One run that has ended."""

    code: int
    output: str

    def section(self, title: str) -> str:
        """The lines below a heading, up to the next heading of the same or a higher kind; empty if there is none."""
        lines = self.output.splitlines()
        starts = [index for index, line in enumerate(lines) if _is_heading(line, title)]
        if not starts:
            return ""
        end = next(
            (index for index in range(starts[0] + 1, len(lines)) if lines[index][:5] in {"=====", "_____"}),
            len(lines),
        )
        return "\n".join(lines[starts[0] + 1 : end])

    def summary(self, test: str) -> str:
        """The line of a test in the short summary: `FAILED test_x.py::test_a - message`; empty if there is none."""
        lines = (
            line for line in self.output.splitlines() if line.split(" ")[0] in {"FAILED", "PASSED", "ERROR"}
        )
        return next((line for line in lines if f"::{test} " in f"{line} "), "")


def _is_heading(line: str, title: str) -> bool:
    return line[:1] in {"=", "_"} and line.strip("=_ ") == title


def run_pytest(
    folder: Path, *arguments: str, seconds: float = 280, fresh: bool = False, **environment: str
) -> PytestRun:
    """Run pytest in a folder, without plugins that are not asked for, and without CI's variables.

    Its process has torch imported, unless it is to be `fresh`.
    """
    variables = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    for name in ("CI", "BUILD_NUMBER"):
        variables.pop(name, None)
    variables |= {
        "PYTHONPATH": os.pathsep.join((str(ROOT / "compiler"), str(ROOT / "server"))),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "COLUMNS": "160",
        **environment,
    }
    ended = subprocess.run(
        (
            sys.executable if fresh else program_interpreter(),
            "-m",
            "pytest",
            *PLUGIN,
            "-p",
            "no:cacheprovider",
            "-rA",
            *arguments,
        ),
        cwd=folder,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        check=False,
        timeout=seconds,
    )
    return PytestRun(ended.returncode, ended.stdout)


def write_files(folder: Path, files: dict[str, str]) -> None:
    """Write files into a folder."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
