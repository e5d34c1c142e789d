"""The editor ring: a real VS Code, driven by mocha in its extension host (logic) and by a browser (what is visible).

The package itself is tested first, with every Python of this machine.

Usage: `run.py PYTHON [--pictures] [--only package|host|visual]... [--name NAME]...`, where PYTHON has torch. Each suite
writes its results to `artifacts/junit/editor-<suite>.xml`, and `editor.failed` there lists the kinds that failed.
Invariant: the exit code is 0 only if every test passed; a machine that cannot have an editor or a browser ends with 3
and one line that says why.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from bundle import package  # noqa: E402 - found through the line above
from editor_tools import EDITOR_TESTS, ensure_browser, ensure_code_server, ensure_editor_tests  # noqa: E402
from node_tools import CACHE, Unavailable  # noqa: E402

LEFT_OUT = 3
KINDS = ("package", "host", "visual")


def editor_environment(python: str, *, pictures: bool) -> dict[str, str]:
    """The environment of the harness, after everything that it needs was installed. Raises Unavailable."""
    node = ensure_editor_tests()
    editor = ensure_code_server()
    browser = ensure_browser()
    variables = node.environment()
    variables.update(
        FUSELIGHT_NODE=str(node.executable),
        FUSELIGHT_CODE_SERVER=str(editor.entry),
        FUSELIGHT_BROWSER=str(browser.executable),
        FUSELIGHT_BROWSER_FLAGS=json.dumps(browser.flags),
        FUSELIGHT_PYTHON=python,
        FUSELIGHT_BARE_PYTHON=str(_python_without_torch(python)),
        FUSELIGHT_ARTIFACTS=str(ROOT / "artifacts" / "editor"),
    )
    if pictures:
        variables["FUSELIGHT_PICTURES"] = "1"
    return variables


def _python_without_torch(python: str) -> Path:
    """An empty virtual environment, created once."""
    home = CACHE / "python-without-torch"
    bare = home / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not bare.exists():
        subprocess.run([python, "-m", "venv", "--without-pip", "--clear", str(home)], check=True)
    return bare


def run_editor_tests(
    python: str, *, pictures: bool = False, only: Sequence[str] = (), names: Sequence[str] = ()
) -> int:
    """Package the extension and run each kind of test; returns the exit code. Raises Unavailable.

    `names` are labels of the extension host (`.vscode-test.mjs`), or those of files of visual tests; empty for all.
    """
    variables = editor_environment(python, pictures=pictures)
    results = ROOT / "artifacts" / "junit"
    results.mkdir(parents=True, exist_ok=True)
    variables["FUSELIGHT_VSIX"] = str(package())
    tools = EDITOR_TESTS / "node_modules" / ".bin"
    suffix = ".cmd" if os.name == "nt" else ""
    pytest = [python, "-m", "pytest", "-q", "tests/editor/test_package.py"]
    commands = {
        "package": [*pytest, "--junitxml", str(results / "editor-package.xml")],
        "host": [str(tools / f"vscode-test{suffix}"), *(f"--label={name}" for name in names)],
        "visual": [str(tools / f"playwright{suffix}"), "test", *names],
    }
    codes = {
        kind: subprocess.run(
            commands[kind], cwd=ROOT if kind == "package" else EDITOR_TESTS, env=variables, check=False
        ).returncode
        for kind in KINDS
        if not only or kind in only
    }
    failed = [kind for kind, code in codes.items() if code]
    (results / "editor.failed").write_text("\n".join(failed), encoding="utf-8")
    # The exit code of a runner may be its number of failures: 3 failures are not LEFT_OUT.
    return int(bool(failed))


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("python", help="an interpreter with torch")
    parser.add_argument("--pictures", action="store_true", help="redraw the pictures of the README")
    parser.add_argument("--only", choices=KINDS, action="append", default=[], help="one kind of test")
    parser.add_argument(
        "--name",
        action="append",
        default=[],
        help="one label of the extension host, or one file of visual tests",
    )
    options = parser.parse_args()
    try:
        # Absolute, without resolving links: the editors have other working directories, and a venv's python is a link.
        python = os.path.abspath(options.python)  # noqa: PTH100 - Path.resolve would leave the venv
        return run_editor_tests(python, pictures=options.pictures, only=options.only, names=options.name)
    except Unavailable as why:
        print(f"editor: left out: {why}")
        return LEFT_OUT


if __name__ == "__main__":
    sys.exit(main())
