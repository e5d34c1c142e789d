"""A real JupyterLab with jupyterlab-lsp in a real browser: what docs/notebooks.md promises to its user.

The session (`session.mjs`) runs once and writes what it saw; each test looks at a part of that. Screenshots are kept in
`artifacts/jupyterlab`.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.torch, pytest.mark.timeout(900)]

HERE, ROOT = Path(__file__).parent, Path(__file__).parents[2]
ARTIFACTS = ROOT / "artifacts" / "jupyterlab"
sys.path.insert(0, str(ROOT / "scripts"))

from bootstrap import Environment  # noqa: E402 - found through the line above
from editor_tools import ensure_browser, ensure_editor_tests  # noqa: E402
from ring_environments import JUPYTERLAB, ensure_packages  # noqa: E402

SECONDS = 120.0
CELLS = (
    "import torch\n%load_ext fuselight",
    'def leveled(x):\n    print("level")\n    return x.cumsum(0)',
    '# fuselight: meter(f32[6])\nmeter = torch.compile(leveled, backend="eager")',
    "%%fuselight\nmeter(torch.ones(6)).sum()",
)
NOTEBOOK = {
    "nbformat": 4,
    "nbformat_minor": 5,
    "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
    "cells": [
        {"cell_type": "markdown", "id": "title", "metadata": {}, "source": "# A meter"},
        *(
            {
                "cell_type": "code",
                "id": f"cell-{number}",
                "metadata": {},
                "source": source,
                "outputs": [],
                "execution_count": None,
            }
            for number, source in enumerate(CELLS, 1)
        ),
    ],
}
NO_NEWS = {"fetchNews": "false", "checkForUpdates": False}
Seen = dict[str, Any]


@contextlib.contextmanager
def started_lab(home: Path, notebook: Path) -> Iterator[str]:
    """A JupyterLab of its own home; gives the address of the notebook in it."""
    python = ensure_packages(JUPYTERLAB, Environment(Path(sys.executable), None))
    settings = home / "settings" / "@jupyterlab" / "apputils-extension" / "notification.jupyterlab-settings"
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps(NO_NEWS))
    runtime = home / "runtime"
    # Without this environment's tools: jupyter-lsp would start a type checker of it, too.
    path = [
        part for part in os.environ["PATH"].split(os.pathsep) if Path(part) != Path(sys.executable).parent
    ]
    variables = {
        **{name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"},
        "HOME": str(home),
        "XDG_STATE_HOME": str(home / "state"),
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_RUNTIME_DIR": str(runtime),
        "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
        "IPYTHONDIR": str(home / "ipython"),
        "PATH": os.pathsep.join((str(python.parent), *path)),
        "OMP_WAIT_POLICY": "PASSIVE",
    }
    options = ("--no-browser", "--ip=127.0.0.1", "--ServerApp.port=0", "--LabApp.extension_manager=readonly")
    root = f"--ServerApp.root_dir={notebook.parent}"
    with (home / "lab.log").open("wb") as log:
        lab = subprocess.Popen(
            [str(python), "-m", "jupyterlab", *options, root, "--allow-root"],
            cwd=notebook.parent,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        server = address(runtime, lab)
        yield f"{server['url']}lab/tree/{notebook.name}?token={server['token']}"
    finally:
        lab.terminate()
        lab.wait(SECONDS)


def address(runtime: Path, lab: subprocess.Popen[bytes]) -> dict[str, str]:
    """What JupyterLab writes about itself once it listens."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline and lab.poll() is None:
        for file in runtime.glob("jpserver-*.json"):
            with contextlib.suppress(ValueError):  # it is being written
                server: dict[str, str] = json.loads(file.read_text())
                return server
        time.sleep(0.1)
    raise AssertionError(f"JupyterLab does not listen: see {runtime.parent / 'lab.log'}")


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("work") / "meter.ipynb"
    path.write_text(json.dumps(NOTEBOOK))
    return path


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory, notebook: Path) -> Seen:
    """What the browser saw."""
    home = tmp_path_factory.mktemp("home")
    ARTIFACTS.mkdir(parents=True, exist_ok=True)
    browser, node = ensure_browser(), ensure_editor_tests()
    with started_lab(home, notebook) as url:
        values = {
            "url": url,
            "executable": str(browser.executable),
            "flags": browser.flags,
            "folder": str(ARTIFACTS),
        }
        command = [str(node.executable), str(HERE / "session.mjs"), json.dumps(values)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    result: Seen = json.loads((ARTIFACTS / "seen.json").read_text())
    log = (home / "lab.log").read_text(errors="replace")
    assert "error" not in result, f"{result['error']}\n{log}"
    return result


def test_the_question_names_the_notebook_and_the_python_that_runs_it(seen: Seen) -> None:
    assert "Run code of this folder under torch.compile? Fuselight will " in seen["question"]
    assert "meter.ipynb" in seen["question"]
    assert "call meter" in seen["question"]
    assert f"{os.sep}jupyterlab-" in seen["question"]
    assert seen["question"].split("\n")[-3:] == ["Run", "Not in This Folder", "Later"]


def test_the_finding_is_underlined_in_its_cell(seen: Seen) -> None:
    assert seen["underlined"] == ['print("level")']
    assert seen["cell"].startswith("def leveled(x):")


def test_the_hover_says_what_to_do_and_what_the_break_costs(seen: Seen) -> None:
    assert seen["hover"].startswith("What to do:\n")
    assert "Cost: the only graph of leveled starts after this line" in seen["hover"]
    assert "Quick Fix" not in seen["hover"]  # there is none to choose


def test_the_kernel_shows_the_report_below_its_cell(seen: Seen) -> None:
    assert seen["report"].startswith("Fuselight cell [4]: 1 graph, 1 break, 0 recompilations\n")
    assert "cell [2]:2 graph break: `print` cannot be traced GB0059" in seen["report"]
    assert [output.strip() for output in seen["outputs"][:2]] == ["level", "tensor(21.)"]


def test_the_client_is_the_one_that_the_page_describes(seen: Seen) -> None:
    """The page says that jupyterlab-lsp has no quick fixes and no lenses, joins cells, and hides bodies of magics."""
    asked = seen["capabilities"]["textDocument"]
    assert {"codeAction", "codeLens", "inlayHint"}.isdisjoint(asked)
    assert "notebookDocument" not in seen["capabilities"]
    text = seen["opened"]["text"]
    assert all(line in text for line in CELLS[1].split("\n"))
    assert 'run_cell_magic("fuselight"' in text
    assert seen["opened"]["uri"].endswith("/meter.ipynb")
    assert not any(method.startswith("textDocument/codeAction") for method in seen["sent"])


def test_nothing_is_left_in_the_folder(seen: Seen, notebook: Path) -> None:
    assert seen
    names = {path.name for path in notebook.parent.iterdir()}
    assert names <= {"meter.ipynb", ".fuselight", ".ipynb_checkpoints"}
