"""No text that an editor shows names an option of the command line: it names the setting, or the editor's command."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest

from fuselight_server.base.option_names import _OPTIONS, _PHRASES, with_options

ROOT = Path(__file__).parents[1]
OPTION = re.compile(r"(?<![\w/-])--[a-z][a-z-]+\b")
COMMANDS = re.compile(r"pip install|xcode-select|git|fuselight (?:consent|mcp|check --ranks)")
"""Commands that a text gives as a whole, to be typed in a terminal."""
TERMINAL = (
    "server/fuselight_server/cli/",
    "server/fuselight_server/pytest_plugin/",
    "server/fuselight_server/sweep/",
    "server/fuselight_server/upgrades/",
    "server/fuselight_server/agents/",
    "server/fuselight_server/commands/",
    "server/fuselight_server/base/option_names.",
    "server/fuselight_server/editor/presenters/job_page.py",
    "server/fuselight_server/execution/torch_releases.py",
    "server/fuselight_server/explain/benchmarks/exports.py",
    "server/fuselight_server/explain/kernels/script.py",
    "compiler/fuselight/notebook/",
    "compiler/fuselight/replay/",
    "compiler/fuselight/remote/",
    "compiler/fuselight/shared/suites/",
    "compiler/fuselight/worker/launch.py",
    "compiler/fuselight/worker/child/program.py",
    "compiler/fuselight/adapters/torch_api/distributed/fake_world.py",
)
"""Shown in a terminal, to a coding agent, or by the user's own program."""


def names_option(text: str) -> bool:
    return OPTION.search(text) is not None and COMMANDS.search(text) is None


def sources(folder: Path) -> list[Path]:
    """Modules, and the tables next to them, which are expressions of Python, too."""
    return [path for path in folder.rglob("*.*") if path.suffix in {".py", ".json"}]


def texts(path: Path) -> list[str]:
    """The texts of several words in a module or a table, without docstrings and what is an option by itself."""
    source = path.read_text(encoding="utf-8")
    if OPTION.search(source) is None:
        return []
    tree = ast.parse(source)
    docstrings = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in docstrings
        and " " in node.value.strip()
    ]


def test_no_text_of_the_server_or_the_worker_names_an_option() -> None:
    modules = [path for folder in ("server", "compiler") for path in sources(ROOT / folder)]
    shown = [path for path in modules if not path.relative_to(ROOT).as_posix().startswith(TERMINAL)]
    named = [(path.name, text) for path in shown for text in texts(path) if names_option(text)]
    assert named == []


def test_no_text_of_the_extension_names_an_option() -> None:
    comment = re.compile(r"/\*.*?\*/|^\s*//.*?$", re.DOTALL | re.MULTILINE)
    literal = re.compile(r"\"(?:[^\"\\\n]|\\.)* (?:[^\"\\\n]|\\.)*\"|`[^`]* [^`]*`")
    named = [
        (path.name, text)
        for folder in ("src", "webview")
        for path in (ROOT / "extension" / folder).rglob("*.ts")
        for text in literal.findall(comment.sub("", path.read_text(encoding="utf-8")))
        if names_option(text) and "var(--" not in text
    ]
    assert named == []
    manifest = json.loads((ROOT / "package.json").read_text(encoding="utf-8"))["contributes"]
    walkthrough = [path.read_text(encoding="utf-8") for path in (ROOT / "extension/media").rglob("*.md")]
    lines = "\n".join([json.dumps(manifest, indent=1), *walkthrough]).splitlines()
    assert [line for line in lines if names_option(line)] == []


@pytest.mark.parametrize(("setting", "option"), _OPTIONS.items())
def test_a_terminal_shows_the_option_of_a_setting(setting: str, option: str) -> None:
    assert with_options(f"raise the setting `{setting}`") == f"raise `{option}`"
    assert with_options(f"more time (`{setting}`)") == f"more time (`{option}`)"


def test_each_setting_with_an_option_is_in_the_manifest() -> None:
    manifest = json.loads((ROOT / "package.json").read_text(encoding="utf-8"))
    assert _OPTIONS.keys() <= manifest["contributes"]["configuration"]["properties"].keys()


def test_each_phrase_with_an_option_is_in_a_text() -> None:
    modules = sources(ROOT / "server")
    written = "\n".join(path.read_text(encoding="utf-8") for path in modules if path.stem != "option_names")
    # A hint gets its period where it is shown.
    assert [phrase for phrase in _PHRASES if phrase.rstrip(".") not in written] == []
    assert with_options("Create it, or write the result to another file").endswith("`--output FILE`")
