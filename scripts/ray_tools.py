"""The environment of the ray ring: Ray of `requirements-ray.lock`, and all else of the project's own environment.

Invariant: a second call with the same lock and environment uses no network. Ray stays out of the environment in which
everything else runs, so that nothing comes to need it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from bootstrap import install_locked, keep_installed_bytecode
from node_tools import CACHE, ROOT, Unavailable

if TYPE_CHECKING:
    from bootstrap import Environment

RAY_LOCK = ROOT / "requirements-ray.lock"
_SITE = "import sysconfig; print(sysconfig.get_path('purelib'))"


def ensure_ray(environment: Environment) -> Path:
    """Return the Python that has Ray and the packages of `environment`. Raises Unavailable."""
    key = hashlib.sha256(b"\0".join((RAY_LOCK.read_bytes(), str(environment.python).encode()))).hexdigest()[
        :12
    ]
    home = CACHE / f"ray-{key}"
    python = home / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if (home / "ready").is_file():
        return python
    print(f"setting up Ray in {home.relative_to(ROOT)} (80 MB, once)", flush=True)
    shutil.rmtree(home, ignore_errors=True)
    # The environment's uv or pip installs into it: a copy of pip would take 5 seconds.
    _check(home, _run([str(environment.python), "-m", "venv", "--without-pip", str(home)]))
    _check(home, install_locked(python, RAY_LOCK, installer=environment.python))
    base, site = (
        subprocess.run([str(path), "-c", _SITE], check=True, capture_output=True, text=True).stdout.strip()
        for path in (environment.python, python)
    )
    keep_installed_bytecode(python)  # each process of a cluster imports Ray
    # addsitedir reads the .pth files of that folder, too; its packages come after Ray's.
    Path(site, "zz_project.pth").write_text(f"import site; site.addsitedir({base!r})\n", encoding="utf-8")
    (home / "ready").touch()
    return python


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _check(home: Path, done: subprocess.CompletedProcess[str]) -> None:
    if done.returncode != 0:
        shutil.rmtree(home, ignore_errors=True)
        last = (done.stdout.strip().splitlines() or ["no output"])[-1]
        raise Unavailable(f"Ray cannot be installed ({' '.join(map(str, done.args[1:4]))}): {last}")
