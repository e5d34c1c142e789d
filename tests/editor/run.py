"""The editor ring: a real VS Code, driven by mocha in its extension host (logic) and by a browser (what is visible).

The package itself is tested first, with the oldest and the newest Python of this machine.

Usage: `run.py PYTHON [--picture NAME]... [--results FOLDER] [--only KIND[:NAME]]...`, where PYTHON has torch, KIND is
`package`, `host` or `visual`, and NAME a label of the extension host (`.vscode-test.mjs`) or the beginning of the name
of a file of visual tests. Each suite writes its results to `editor-<suite>.xml` in `artifacts/junit` or FOLDER, and
`editor.failed` there lists what failed as values of `--only`. The workers of all editors are forks of one process
(tests/support/prepared.py).
Invariant: the exit code is 0 only if every test passed; a machine that cannot have an editor or a browser ends with 3
and one line that says why.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT)]

from bundle import package  # noqa: E402 - found through the line above
from editor_tools import EDITOR_TESTS, ensure_browser, ensure_code_server, ensure_editor_tests  # noqa: E402
from node_tools import CACHE, Unavailable  # noqa: E402

from tests.support.prepared import prepared_interpreter  # noqa: E402

LEFT_OUT = 3
KINDS = ("package", "host", "visual")
ARTIFACTS = ROOT / "artifacts"


def editor_environment(python: str, results: Path, *, pictures: Sequence[str]) -> dict[str, str]:
    """The environment of the harness, after everything that it needs was installed. Raises Unavailable."""
    node = ensure_editor_tests()
    editor = ensure_code_server()
    browser = ensure_browser()
    variables = node.environment()
    # Some images set it: each fork would compile what it imports of the installed extension.
    variables.pop("PYTHONDONTWRITEBYTECODE", None)
    variables.update(
        FUSELIGHT_NODE=str(node.executable),
        FUSELIGHT_CODE_SERVER=str(editor.entry),
        FUSELIGHT_BROWSER=str(browser.executable),
        FUSELIGHT_BROWSER_FLAGS=json.dumps(browser.flags),
        FUSELIGHT_PYTHON=prepared_interpreter() if python == sys.executable else python,
        FUSELIGHT_BARE_PYTHON=str(_python_without_torch(python)),
        FUSELIGHT_ARTIFACTS=str(ARTIFACTS / "editor"),
        FUSELIGHT_RESULTS=str(results),
    )
    if pictures:
        variables["FUSELIGHT_PICTURES"] = ",".join(pictures)
    return variables


def _python_without_torch(python: str) -> Path:
    """An empty virtual environment, created once."""
    home = CACHE / "python-without-torch"
    bare = home / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not bare.exists():
        subprocess.run([python, "-m", "venv", "--without-pip", "--clear", str(home)], check=True)
    return bare


def run_editor_tests(
    python: str, results: Path, *, pictures: Sequence[str] = (), only: Sequence[tuple[str, str]] = ()
) -> int:
    """Package the extension and run the tests; returns the exit code. Raises Unavailable.

    `only` is (kind, name) of what to run: all of a kind where the name is empty, everything if there is none.
    """
    variables = editor_environment(python, results, pictures=pictures)
    results.mkdir(parents=True, exist_ok=True)
    names = {kind: [name for asked, name in only if asked == kind and name] for kind in KINDS}
    variables["FUSELIGHT_VSIX"] = str(package(scan_secrets=False))
    tools = EDITOR_TESTS / "node_modules" / ".bin"
    suffix = ".cmd" if os.name == "nt" else ""
    pytest = [python, "-m", "pytest", "-q", "tests/editor/test_package.py"]
    commands = {
        "package": [*pytest, "--junitxml", str(results / "editor-package.xml")],
        "host": [str(tools / f"vscode-test{suffix}"), *(f"--label={name}" for name in names["host"])],
        "visual": [str(tools / f"playwright{suffix}"), "test", *map(spec_pattern, names["visual"])],
    }
    codes = {
        kind: subprocess.run(
            commands[kind], cwd=ROOT if kind == "package" else EDITOR_TESTS, env=variables, check=False
        ).returncode
        for kind in KINDS
        if not only or any(asked == kind for asked, _ in only)
    }
    failed = [kind for kind, code in codes.items() if code]
    (results / "editor.failed").write_text(
        "\n".join(part for kind in failed for part in failed_parts(kind, results)), encoding="utf-8"
    )
    # The exit code of a runner may be its number of failures: 3 failures are not LEFT_OUT.
    return int(bool(failed))


def spec_pattern(name: str) -> str:
    """What Playwright, which looks for it in whole paths, finds in files of visual tests whose names begin so."""
    return rf"[/\\]{re.escape(name)}[^/\\]*$"


def failed_parts(kind: str, results: Path) -> list[str]:
    """What to run again after a kind failed, as values of `--only`: the whole kind if no test of it is to blame."""
    failed = [
        (path.stem.removeprefix("editor-"), str(case.get("classname")))
        for path in sorted(results.glob("editor-*.xml"))
        for case in ET.parse(path).getroot().iter("testcase")  # noqa: S314 - our own test runner wrote it
        if case.find("failure") is not None or case.find("error") is not None
    ]
    if kind == "visual":
        names = {file for suite, file in failed if suite == "visual"}
    else:
        names = {suite for suite, _ in failed if suite not in KINDS} if kind == "host" else set()
    return [f"{kind}:{name}" for name in sorted(names)] or [kind]


def part(text: str) -> tuple[str, str]:
    """The kind and the name in `KIND[:NAME]`. Raises argparse.ArgumentTypeError."""
    kind, _, name = text.partition(":")
    if kind not in KINDS:
        raise argparse.ArgumentTypeError(f"no kind `{kind}`: write {', '.join(KINDS)}")
    return kind, name


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("python", help="an interpreter with torch")
    parser.add_argument(
        "--picture",
        action="append",
        default=[],
        metavar="NAME",
        help="replace this picture of docs/images (scripts/pictures.py knows which test takes it)",
    )
    parser.add_argument("--results", type=Path, default=ARTIFACTS / "junit", help="the folder of the results")
    parser.add_argument(
        "--only",
        type=part,
        action="append",
        default=[],
        metavar="KIND[:NAME]",
        help="one kind of test, or one label of the extension host or one file of visual tests of it",
    )
    options = parser.parse_args()
    try:
        # Absolute, without resolving links: the editors have other working directories, and a venv's python is a link.
        python = os.path.abspath(options.python)  # noqa: PTH100 - Path.resolve would leave the venv
        return run_editor_tests(
            python, options.results.absolute(), pictures=options.picture, only=options.only
        )
    except Unavailable as why:
        print(f"editor: left out: {why}")
        return LEFT_OUT


if __name__ == "__main__":
    sys.exit(main())
