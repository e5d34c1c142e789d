"""Environments of rings that need more than the project's own: the packages of a lock, and all else of that one.

Invariant: a second call with the same lock and environment uses no network. What a ring needs stays out of the
environment in which everything else runs, so that nothing comes to need it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bootstrap import LOCK, install_locked, keep_installed_bytecode
from node_tools import CACHE, ROOT, Unavailable

if TYPE_CHECKING:
    from bootstrap import Environment


@dataclass(frozen=True)
class RingPackages:
    """The packages of one ring."""

    ring: str
    name: str
    """Of the program, for messages."""
    size: str
    """On disk."""

    @property
    def lock(self) -> Path:
        """The lock file."""
        return ROOT / f"requirements-{self.ring}.lock"


RAY = RingPackages("ray", "Ray", "80 MB")
JUPYTERLAB = RingPackages("jupyterlab", "JupyterLab", "180 MB")
PAGES = RingPackages("site", "Sphinx", "80 MB")
_SITE = "import sysconfig; print(sysconfig.get_path('purelib'))"


def ensure_packages(packages: RingPackages, environment: Environment) -> Path:
    """Return the Python that has these packages and those of `environment`. Raises Unavailable."""
    key = hashlib.sha256(b"\0".join((packages.lock.read_bytes(), str(environment.python).encode())))
    home = CACHE / f"{packages.ring}-{key.hexdigest()[:12]}"
    python = home / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if (home / "ready").is_file():
        return python
    print(f"setting up {packages.name} in {home.relative_to(ROOT)} ({packages.size}, once)", flush=True)
    shutil.rmtree(home, ignore_errors=True)
    # The environment's uv or pip installs into it: a copy of pip would take 5 seconds.
    _check(packages, home, _run([str(environment.python), "-m", "venv", "--without-pip", str(home)]))
    _check(packages, home, install_locked(python, packages.lock, installer=environment.python))
    base, site = (
        subprocess.run([str(path), "-c", _SITE], check=True, capture_output=True, text=True).stdout.strip()
        for path in (environment.python, python)
    )
    keep_installed_bytecode(python)  # each process of the ring imports them
    # addsitedir reads the .pth files of that folder, too; its packages come after those of the lock.
    Path(site, "zz_project.pth").write_text(f"import site; site.addsitedir({base!r})\n", encoding="utf-8")
    (home / "ready").touch()
    return python


def write_lock(
    packages: RingPackages, python: Path, source: list[str], requirements: str = "", *, is_apart: bool = False
) -> None:
    """Write the lock of what `source` names, or of requirements; versions that the project's lock has stay.

    `is_apart`: what it installs is not imported with the project's packages, and may have other versions of them.
    """
    subprocess.run(
        [
            *(str(python), "-m", "uv", "pip", "compile", *source, *(() if is_apart else ("-c", str(LOCK)))),
            *("--universal", "--python-version", "3.10"),
            *("--generate-hashes", "--no-annotate", "--quiet", "--upgrade"),
            *("--custom-compile-command", "make lock", "--output-file", str(packages.lock)),
        ],
        cwd=ROOT,
        input=requirements,
        text=True,
        check=True,
    )


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _check(packages: RingPackages, home: Path, done: subprocess.CompletedProcess[str]) -> None:
    if done.returncode != 0:
        shutil.rmtree(home, ignore_errors=True)
        last = (done.stdout.strip().splitlines() or ["no output"])[-1]
        command = " ".join(map(str, done.args[1:4]))
        raise Unavailable(f"{packages.name} cannot be installed ({command}): {last}")
