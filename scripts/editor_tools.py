"""A real VS Code for the tests and the demo: code-server from npm, and a browser by the first rung that works.

Invariant: what is downloaded lies in `.cache/`, keyed by version; a machine that cannot have it gets `Unavailable`
with the reason, never a half-installed editor.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from node_tools import CACHE, ROOT, Node, Unavailable, ensure_node, npm_ci

CODE_SERVER_VERSION = "4.139.1"  # VS Code 1.139.1
SPARTICUZ_VERSION = "153.0.0"
EDITOR_TESTS = ROOT / "tests" / "editor"
_SPDLOG = EDITOR_TESTS / "harness" / "spdlog.cjs"

# Each of these that starts costs CPU time in every window.
_UNUSED_EXTENSIONS = (
    "copilot",
    "debug-auto-launch",
    "debug-server-ready",
    "emmet",
    "extension-editing",
    "git",
    "git-base",
    "github",
    "github-authentication",
    "grunt",
    "gulp",
    "ipynb",
    "jake",
    "merge-conflict",
    "mermaid-markdown-features",
    "microsoft-authentication",
    "ms-vscode.js-debug",
    "ms-vscode.js-debug-companion",
    "ms-vscode.vscode-js-profile-table",
    "npm",
    "php-language-features",
    "terminal-suggest",
    "tunnel-forwarding",
    "typescript-language-features",
)
# What neither the tests nor the demo open; a third of the installation.
_UNUSED = (
    *(f"extensions/{name}" for name in _UNUSED_EXTENSIONS),
    "node_modules/@github",
    "node_modules/@koromix",
    "node_modules/@microsoft/mxc-sdk",
    "node_modules/@vscode/sqlite3",
    "node_modules/koffi",
    "node_modules/node-pty/deps",
    "node_modules/node-pty/third_party",
)


@dataclass(frozen=True)
class Editor:
    """code-server: `node entry` starts it. Listening address, profile and extensions are the caller's arguments."""

    node: Node
    entry: Path


@dataclass(frozen=True)
class Browser:
    """A Chromium: its `executable`, the `flags` that this machine needs, and the rung that gave it (`why`)."""

    executable: Path
    flags: tuple[str, ...]
    why: str


def ensure_code_server() -> Editor:
    """code-server out of `.cache/`, installed from npm when it is not there (under a minute, about 470 MB)."""
    node = ensure_node()
    home = CACHE / f"code-server-{CODE_SERVER_VERSION}"
    entry = home / "node_modules" / "code-server" / "out" / "node" / "entry.js"
    ready = home / ".ready"
    if not ready.exists():
        if platform.system() == "Windows":
            raise Unavailable("code-server does not run on Windows: use a desktop VS Code")
        print(
            f"installing code-server {CODE_SERVER_VERSION} from npm (once, about 470 MB on disk)", flush=True
        )
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        _install_code_server(node, home)
        ready.touch()
    for unused in _UNUSED:  # after each change of the list, too
        shutil.rmtree(_vscode(home) / unused, ignore_errors=True)
    if _SPDLOG.is_file():  # the same
        shutil.copy(_SPDLOG, _vscode(home) / "node_modules" / "@vscode" / "spdlog" / "index.js")
    return Editor(node, entry)


def _vscode(home: Path) -> Path:
    return home / "node_modules" / "code-server" / "lib" / "vscode"


def ensure_browser() -> Browser:
    """The system's Chromium, else Playwright's own, else the one that npm carries, else apt's when we are root.

    What is here comes before what would be fetched: where Playwright's server is out of reach, that takes seconds to
    show, each time.
    """
    reasons: list[str] = []
    here = (_system_browser, partial(_playwright_browser, fetch=False), partial(_npm_browser, fetch=False))
    for rung in (*here, _playwright_browser, _npm_browser, _apt_browser):
        try:
            return rung()
        except Unavailable as why:
            reasons.append(str(why))
    raise Unavailable("no Chromium: " + "; ".join(dict.fromkeys(reasons)))


def ensure_editor_tests() -> Node:
    """The packages of `tests/editor` (Playwright, @vscode/test-cli), as its lock file pins them."""
    return npm_ci(EDITOR_TESTS, extra=("--ignore-scripts",))


def _install_code_server(node: Node, home: Path) -> None:
    (home / "package.json").write_text('{"private":true}', encoding="ascii")
    # Its own postinstall builds Kerberos, which needs system headers and which nothing here uses, so no scripts run. Of
    # the two native modules that matter, the watchdog, which ends orphans, is built here if possible;
    # ensure_code_server replaces the other one.
    node.run_npm(
        "install", f"code-server@{CODE_SERVER_VERSION}", "--ignore-scripts", "--omit=dev", directory=home
    )
    vscode = _vscode(home)
    for directory in (vscode, vscode / "extensions"):
        node.run_npm("install", "--ignore-scripts", "--omit=dev", directory=directory)
    system = "darwin" if platform.system() == "Darwin" else "linux"
    for link, target in (
        ("bin/remote-cli/code-server", f"code-{system}.sh"),
        ("bin/helpers/browser.sh", f"browser-{system}.sh"),
    ):
        path = vscode / link
        path.unlink(missing_ok=True)
        path.symlink_to(target)
    if shutil.which("g++") and shutil.which("make"):
        try:
            quick = {"CFLAGS": "-O0 -g0", "CXXFLAGS": "-O0 -g0"}
            node.run_npm("rebuild", "@vscode/native-watchdog", directory=vscode, variables=quick)
        except Unavailable:
            print("code-server runs without its watchdog, which could not be built here", flush=True)


def _flags() -> tuple[str, ...]:
    flags = ["--disable-dev-shm-usage"]  # containers have a /dev/shm that is too small for a workbench
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        flags.append("--no-sandbox")  # Chromium refuses to start its sandbox as root
    return tuple(flags)


def _works(executable: Path) -> bool:
    try:
        subprocess.run([str(executable), "--version"], capture_output=True, check=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return False
    return True


def _system_browser() -> Browser:
    named = os.environ.get("CHROMIUM")
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "microsoft-edge")
    paths = [Path(path) for name in names if (path := shutil.which(name))]
    if platform.system() == "Darwin":
        paths += [
            Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"),
            Path("/Applications/Chromium.app/Contents/MacOS/Chromium"),
        ]
    for executable in ([Path(named)] if named else []) + paths:
        if _works(executable):
            return Browser(executable, _flags(), "the system's")
    raise Unavailable("none installed")


def _playwright_browser(*, fetch: bool = True) -> Browser:
    if not (EDITOR_TESTS / "package-lock.json").is_file():
        raise Unavailable("Playwright is not part of this checkout")
    node = ensure_editor_tests()
    ask = "import('playwright-core').then(({chromium}) => console.log(chromium.executablePath()))"
    environment = node.environment()
    environment["PLAYWRIGHT_BROWSERS_PATH"] = str(CACHE / "playwright")
    try:
        executable = _ask(node, ask, EDITOR_TESTS, environment, timeout=30)
        if not executable.is_file() and not fetch:
            raise Unavailable("Playwright's own is not here")
        if not executable.is_file():
            cli = EDITOR_TESTS / "node_modules" / "playwright-core" / "cli.js"
            # 30 seconds without a connection, five minutes with one: its server is not reachable everywhere.
            environment["PLAYWRIGHT_DOWNLOAD_CONNECTION_TIMEOUT"] = "10000"
            subprocess.run(
                [str(node.executable), str(cli), "install", "chromium"],
                env=environment,
                capture_output=True,
                check=True,
                timeout=300,
            )
    except (OSError, subprocess.SubprocessError) as error:
        raise Unavailable("Playwright's own could not be downloaded") from error
    if not _works(executable):
        raise Unavailable("Playwright's own lacks libraries of this system")
    return Browser(executable, _flags(), "Playwright's")


def _npm_browser(*, fetch: bool = True) -> Browser:
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise Unavailable("npm carries one for Linux x86_64 only")
    node = ensure_node()
    home = CACHE / f"sparticuz-chromium-{SPARTICUZ_VERSION}"
    if not (home / "node_modules").is_dir():
        if not fetch:
            raise Unavailable("npm's is not here")
        home.mkdir(parents=True, exist_ok=True)
        (home / "package.json").write_text('{"private":true}', encoding="ascii")
        node.run_npm(
            "install", "--ignore-scripts", f"@sparticuz/chromium@{SPARTICUZ_VERSION}", directory=home
        )
    ask = "import('@sparticuz/chromium').then(async ({default: c}) => console.log(await c.executablePath()))"
    environment = node.environment()
    environment["TMPDIR"] = str(home)  # it unpacks there, and a shared /tmp is swept
    try:
        executable = _ask(node, ask, home, environment, timeout=120)
    except (OSError, subprocess.SubprocessError) as error:
        raise Unavailable("npm's could not be unpacked") from error
    if not _works(executable):
        raise Unavailable("npm's does not start on this system")
    # It carries no sandbox of its own. Its makers start it as one process, which ends with the first page that closes.
    flags = dict.fromkeys((*_flags(), "--no-sandbox", "--no-zygote"))
    return Browser(executable, tuple(flags), "npm's @sparticuz/chromium")


def _ask(node: Node, question: str, folder: Path, environment: dict[str, str], *, timeout: float) -> Path:
    """Return the path that a line of JavaScript prints, with `folder`'s packages available."""
    asked = subprocess.run(
        [str(node.executable), "-e", question],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=timeout,
    )
    return Path(asked.stdout.strip())


def _apt_browser() -> Browser:
    if not (shutil.which("apt-get") and hasattr(os, "geteuid") and os.geteuid() == 0):
        raise Unavailable("apt would need root")
    print("installing chromium with apt (once, about 290 MB on disk)", flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        for command in (
            ["apt-get", "update", "-qq"],
            ["apt-get", "install", "-y", "-qq", "--no-install-recommends", "chromium", "fonts-dejavu-core"],
        ):
            subprocess.run(command, env=environment, capture_output=True, check=True, timeout=600)
    except (OSError, subprocess.SubprocessError) as error:
        raise Unavailable("apt could not install it") from error
    return _system_browser()


if __name__ == "__main__":
    try:
        print(ensure_code_server().entry)
        print(ensure_browser())
    except Unavailable as why:
        sys.exit(str(why))
