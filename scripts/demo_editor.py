"""The demo's editor: a desktop VS Code if there is one, else code-server in the browser.

Invariants: profile and extensions are the demo's own, under `.cache/demo`, so the user's VS Code is left as it is;
the browser editor listens on loopback and asks for a random password, since it gives its user a shell.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
import webbrowser
from typing import TYPE_CHECKING

from bundle import package
from editor_tools import ensure_code_server
from node_tools import CACHE, Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from bootstrap import Environment

HOME = CACHE / "demo"
START_SECONDS = 30.0
SHOWN = "def forward(self, ids)"
"""What is opened in the middle of the window: the lens is above it, and the findings are below."""
NEXT = "Save the file, answer the question about running it, and look at the underlined lines."
_FOREIGN = (
    "VSCODE_IPC_HOOK_CLI",
    "NODE_OPTIONS",
    "PORT",
    "PASSWORD",
    "HASHED_PASSWORD",
    "ELECTRON_RUN_AS_NODE",
)
"""Variables of a terminal inside another editor, which would steer ours."""


def open_editor(environment: Environment, example: Path) -> None:
    """Open an editor on `example`; returns when it was handed to a desktop editor, or when the user ends the other."""
    print("\nNow the same in an editor; the extension is packaged first.", flush=True)
    vsix = package()
    workspace = _workspace(example)
    code = desktop_code(os.environ)
    place = f"{workspace / example.name}:{_line_with(SHOWN, example)}"
    if code is not None:
        _open_desktop(code, vsix, workspace, environment, place)
    else:
        _open_browser(vsix, workspace, environment, place)


def desktop_code(variables: Mapping[str, str]) -> str | None:
    """The `code` command of a desktop VS Code that can open a window here, or None."""
    if variables.get("VSCODE_IPC_HOOK_CLI") or variables.get("SSH_CONNECTION"):
        return None  # there, `code` is the command line of a remote session
    if sys.platform == "linux" and not (variables.get("DISPLAY") or variables.get("WAYLAND_DISPLAY")):
        return None
    return shutil.which("code")


def _workspace(example: Path) -> Path:
    """A copy of the examples to play with: the repository's own stay as they are."""
    folder = HOME / "examples"
    folder.mkdir(parents=True, exist_ok=True)
    for source in example.parent.glob("*.py"):
        shutil.copy2(source, folder / source.name)
    return folder


def _line_with(text: str, file: Path) -> int:
    """The 1-based line on which `text` stands first, 1 where it is nowhere."""
    lines = file.read_text(encoding="utf-8").splitlines()
    return next((number for number, line in enumerate(lines, 1) if text in line), 1)


def _settings(user_data: Path, environment: Environment) -> None:
    quiet = {
        "chat.disableAIFeatures": True,
        "extensions.autoUpdate": "off",
        "extensions.ignoreRecommendations": True,
        "files.autoSave": "off",  # in the browser it is on, and a save within a second replaces each prediction
        "git.enabled": False,  # or it offers to open the repository that the copy lies in
        # The folder is our own copy of our own examples; in any other, VS Code asks.
        "security.workspace.trust.enabled": False,
        "telemetry.telemetryLevel": "off",
        "update.mode": "none",
        "workbench.secondarySideBar.defaultVisibility": "hidden",
        "workbench.startupEditor": "none",
        "fuselight.interpreter": str(environment.python),
    }
    # A remote workbench reads settings of machine scope from Machine, a desktop one from User.
    for scope in ("User", "Machine"):
        path = user_data / scope / "settings.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(quiet, indent=2), encoding="utf-8")


def _clean(variables: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in variables.items() if name not in _FOREIGN}


def _open_desktop(code: str, vsix: Path, workspace: Path, environment: Environment, place: str) -> None:
    user_data = HOME / "desktop"
    _settings(user_data, environment)
    profile = ["--user-data-dir", str(user_data), "--extensions-dir", str(HOME / "desktop-extensions")]
    variables = _clean(environment.variables())
    installed = subprocess.run(
        [code, *profile, "--install-extension", str(vsix), "--force"],
        env=variables,
        check=False,
        capture_output=True,
        text=True,
    )
    if installed.returncode != 0:
        raise Unavailable(f"{code} did not install {vsix.name}: {installed.stderr.strip()}")
    subprocess.run(
        [code, *profile, "--new-window", str(workspace), "--goto", place], env=variables, check=True
    )
    print(f"\nVS Code is open. {NEXT}")


def _open_browser(vsix: Path, workspace: Path, environment: Environment, place: str) -> None:
    editor = ensure_code_server()
    user_data, extensions = HOME / "browser", HOME / "browser-extensions"
    _settings(user_data, environment)
    password = secrets.token_urlsafe(12)
    config = HOME / "config.yaml"
    _write_private(config, f"auth: password\npassword: {password}\ncert: false\n")
    variables = editor.node.environment(_clean(environment.variables()))
    variables["XDG_DATA_HOME"] = str(HOME / "data")
    # No gallery: the demo needs none, and nothing is asked of the network.
    variables["EXTENSIONS_GALLERY"] = '{"serviceUrl":"http://127.0.0.1:9/none"}'
    base = [
        *(str(editor.node.executable), str(editor.entry), "--config", str(config)),
        *("--user-data-dir", str(user_data), "--extensions-dir", str(extensions)),
    ]
    installed = subprocess.run(
        [*base, "--install-extension", str(vsix), "--force"],
        env=variables,
        check=False,
        capture_output=True,
        text=True,
    )
    if installed.returncode != 0:
        raise Unavailable(f"code-server did not install {vsix.name}: {installed.stdout}{installed.stderr}")
    port = _free_port()
    quiet = ["--disable-telemetry", "--disable-update-check", "--disable-getting-started-override"]
    with (HOME / "server.log").open("w", encoding="utf-8") as log:
        server = subprocess.Popen(
            [*base, "--bind-addr", f"127.0.0.1:{port}", *quiet],
            env=variables,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        for ending in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
            signal.signal(
                ending, signal.default_int_handler
            )  # a closed terminal must not leave an orphaned editor
        try:
            _wait_until_up(server, port)
            _announce(port, password, workspace, place)
            server.wait()
        except KeyboardInterrupt:
            print("\nThe editor is closed.")
        finally:
            server.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                server.wait(10)
            if server.poll() is None:
                server.kill()


def _write_private(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)  # an older file keeps its mode, which might let others read
    with os.fdopen(
        os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8"
    ) as stream:
        stream.write(text)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_until_up(server: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while server.poll() is None and time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise Unavailable(f"code-server did not start: see {HOME / 'server.log'}")


def _announce(port: int, password: str, workspace: Path, place: str) -> None:
    opened = [["openFile", f"vscode-remote://127.0.0.1:{port}{place}"], ["gotoLineMode", "true"]]
    query = urllib.parse.urlencode(
        {"folder": str(workspace), "payload": json.dumps(opened, separators=(",", ":"))},
        quote_via=urllib.parse.quote,
    )
    url = f"http://127.0.0.1:{port}/?{query}"
    print(f"\nVS Code runs in the browser:\n\n  {url}\n  password: {password}\n")
    print(f"{NEXT}\nCtrl-C here closes it.", flush=True)
    if os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY") or sys.platform in ("darwin", "win32"):
        webbrowser.open(url)
