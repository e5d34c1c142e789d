"""The packaged extension's server, started as the extension starts it, with the oldest and the newest Python here.

The visual tests start it with the Python that has torch. Needs FUSELIGHT_VSIX, the path of the package
(tests/editor/run.py sets it). The compiled libraries are checked for each supported version, also for one that this
machine does not have.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.lsp_client import Client

VSIX = os.environ.get("FUSELIGHT_VSIX", "")
SUPPORTED = ("3.10", "3.11", "3.12", "3.13", "3.14")

pytestmark = pytest.mark.skipif(not VSIX, reason="FUSELIGHT_VSIX names no package; run.py makes one")


@pytest.fixture(scope="module")
def extension(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("vsix")
    with zipfile.ZipFile(VSIX) as package:
        package.extractall(home)
    return home / "extension"


def pythons() -> list[tuple[str, str]]:
    """The oldest and the newest supported version that this machine has, with interpreters from PATH or pyenv."""
    installed = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    usable: list[tuple[str, str]] = []
    for version in SUPPORTED:
        candidates = [shutil.which(f"python{version}"), *map(str, installed.glob(f"{version}.*/bin/python"))]
        if f"{sys.version_info.major}.{sys.version_info.minor}" == version:
            candidates.insert(0, sys.executable)
        working = ((version, name) for name in candidates if name and answers(name, version))
        usable += itertools.islice(working, 1)
    return usable[:1] + usable[1:][-1:]


def answers(python: str, version: str) -> bool:
    """A pyenv shim exists for every version and works only for selected ones."""
    ask = "import sys; print('%d.%d' % sys.version_info[:2])"
    asked = subprocess.run([python, "-I", "-c", ask], capture_output=True, text=True, check=False)
    return asked.stdout.strip() == version


@pytest.mark.parametrize("python", [pytest.param(path, id=version) for version, path in pythons()])
def test_the_server_answers(extension: Path, python: str, tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text("import torch\n\n\n@torch.compile\ndef step(x):\n    return x + 1\n", encoding="utf-8")
    launcher = extension / "bundled" / "launch.py"
    cache = f"pycache_prefix={tmp_path / 'pyc'}"
    client = Client(command=[python, "-I", "-S", "-X", "utf8", "-X", cache, str(launcher)])
    try:
        entries = client.start(tmp_path, options={"trusted": False})
        assert entries["serverInfo"]["name"] == "fuselight"
        uri = client.open(file)
        client.notified("textDocument/publishDiagnostics", lambda shown: "FL502" in str(shown))
        titles = [action["title"] for action in client.actions(uri, 4)]
        assert any("input" in title for title in titles), titles
        assert client.stop() == 0
    finally:
        client.close()


@pytest.mark.parametrize("version", SUPPORTED)
@pytest.mark.parametrize("module", ["libcst/native", "tree_sitter/_binding", "tree_sitter_python/_binding"])
def test_the_package_has_the_compiled_libraries(extension: Path, version: str, module: str) -> None:
    tag = version.replace(".", "")
    folder, name = (extension / "bundled" / "libs" / module).parent, Path(module).name
    builds = [file.name for file in folder.glob(f"{name}.*")]
    fitting = re.compile(rf"{name}\.(cpython-{tag}[-.]|cp{tag}-|abi3\.).*(so|pyd)$")
    assert any(fitting.match(build) for build in builds), builds


def test_the_sampler_can_be_run(extension: Path) -> None:
    program = next((extension / "bundled" / "libs" / "bin").glob("py-spy*"))
    program.chmod(0o755)  # zipfile drops the bit, which VS Code restores
    assert subprocess.run([program, "--version"], capture_output=True, check=True).stdout.startswith(
        b"py-spy"
    )


def test_the_package_has_the_pages_and_the_licenses_of_bundled_packages(extension: Path) -> None:
    for name in (
        "dist/graphs.js",
        "dist/graphs.css",
        "dist/bench.js",
        "dist/tune.js",
        "dist/job.js",
        "dist/bench.css",
        "dist/tune.css",
        "dist/job.css",
    ):
        assert (extension / "extension" / name).is_file(), name
    licenses = (extension / "extension" / "dist" / "LICENSES.txt").read_text(encoding="utf-8")
    manifest = json.loads((extension / "package.json").read_text(encoding="utf-8"))
    for name, version in manifest["dependencies"].items():
        known = (f"{name} {version} ({text})\n" for text in ("MIT", "Apache-2.0"))
        assert any(line in licenses for line in known), name
    for words in (
        "Permission is hereby granted",
        "Apache License",
        "The Apache Software Foundation",
        "zrender",
    ):
        assert words in licenses


def test_the_package_has_the_skills_that_its_manifest_names(extension: Path) -> None:
    manifest = json.loads((extension / "package.json").read_text(encoding="utf-8"))
    skills = [skill["path"] for skill in manifest["contributes"]["chatSkills"]]
    assert skills
    assert [path for path in skills if not (extension / path).is_file()] == []


def test_the_extension_page_has_no_picture_and_no_link_into_the_repository(extension: Path) -> None:
    text = (extension / "readme.md").read_text(encoding="utf-8")
    assert "torch.compile" in text
    assert re.findall(r"!\[|<img", text) == []
    assert re.findall(r"\]\((?!https?:)[^)]*", text) == []
    assert "which fits the first layers (all ways). The lens then says\nwhat to fix first." in text
    assert "## Tested with" in text
    assert "CONTRIBUTING" not in text


def test_the_package_has_no_other_files(extension: Path) -> None:
    present = {file.relative_to(extension).parts[0] for file in extension.rglob("*") if file.is_file()}
    assert present == {
        "LICENSE.txt", "bundled", "compiler", "docs", "extension", "package.json", "readme.md", "server", "skills",
    }  # fmt: skip
    assert not [file for file in extension.rglob("*") if file.suffix in {".pyc", ".map", ".vsix"}]
