"""`make package`: the extension with the server's Python libraries in it, as `fuselight.vsix`, and the runtime's wheel.

Invariant: one folder of libraries serves CPython 3.10 to 3.14 on the platform it is made for. Their Python files are
the same for all of them, and compiled modules carry their Python's ABI in the name, so the builds lie side by side.
"""

from __future__ import annotations

import argparse
import filecmp
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from node_tools import CACHE, ROOT, Unavailable, npm_ci
from packaged_pages import extension_patterns, write_pages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

PYTHONS = ("3.14", "3.13", "3.12", "3.11", "3.10")


@dataclass(frozen=True)
class Target:
    """A platform of a package: its name for uv, and where the lock has no wheel for it."""

    platform: str
    replaced: tuple[tuple[str, str], ...] = ()
    """Requirements of the lock, and the releases that have wheels for this platform."""
    elsewhere: tuple[tuple[str, str], ...] = ()
    """Packages of which another platform's wheel runs here, with that platform."""


TARGETS = {
    "linux-x64": Target("x86_64-unknown-linux-gnu"),
    "linux-arm64": Target("aarch64-unknown-linux-gnu"),
    # py-spy's wheels for glibc are one static program, which needs no library of the system.
    "alpine-x64": Target("x86_64-unknown-linux-musl", elsewhere=(("py-spy", "x86_64-unknown-linux-gnu"),)),
    "darwin-arm64": Target("aarch64-apple-darwin"),
    # libcst 1.9 has no wheels for Macs with an Intel processor.
    "darwin-x64": Target("x86_64-apple-darwin", replaced=(("libcst==1.9.0", "libcst==1.8.6"),)),
    "win32-x64": Target("x86_64-pc-windows-msvc"),
}
"""Platforms by the names of the registries."""
LOCK = ROOT / "bundled" / "requirements.lock"
LIBRARIES = ROOT / "bundled" / "libs"
UV = "uv==0.13.8"

# Only libcst's command line and its code generator read YAML; tests and sources of extensions are not run.
_LEFT_OUT = ("yaml", "_yaml", "yaml_ft", "_yaml_ft", "libcst/tests", "libcst/_nodes/tests", "libcst/codegen")

# The folders and files that `.vscodeignore` chooses from; `packaged_pages.py` copies those of docs/.
_TRAVELS = (
    ".vscodeignore",
    "LICENSE",
    "README.md",
    "bundled/launch.py",
    "bundled/libs",
    "compiler/fuselight",
    "extension/dist",
    "extension/grammars",
    "extension/media",
    "package.json",
    "server/fuselight_server",
    "skills",
)


def bundle_libraries(target: Target | None = None) -> Path:
    """Fill `bundled/libs` from the lock for every supported Python; a folder made from the same lock is kept.

    `target`: None stands for this machine's platform.
    """
    key = hashlib.sha256(
        LOCK.read_bytes() + repr((PYTHONS, _LEFT_OUT, target, sys.platform)).encode()
    ).hexdigest()
    stamp = LIBRARIES / ".lock"
    if stamp.is_file() and stamp.read_text(encoding="ascii") == key:
        return LIBRARIES
    uv = uv_command()
    shutil.rmtree(LIBRARIES, ignore_errors=True)
    LIBRARIES.mkdir(parents=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
        for python in PYTHONS:
            folder = Path(scratch) / python
            for platform, requirements in _requirements(target, Path(scratch)):
                _install(uv, folder, requirements, python=python, platform=platform)
            _merge(folder, LIBRARIES)
    for name in _LEFT_OUT:
        shutil.rmtree(LIBRARIES / name, ignore_errors=True)
    for folder in (*LIBRARIES.rglob("tests"), *LIBRARIES.rglob("__pycache__")):
        shutil.rmtree(folder, ignore_errors=True)
    for metadata in LIBRARIES.glob("pyyaml*.dist-info"):
        shutil.rmtree(metadata)
    _keep_sampler()
    stamp.write_text(key, encoding="ascii")
    return LIBRARIES


def _requirements(target: Target | None, scratch: Path) -> list[tuple[str | None, Path]]:
    """Files of requirements, with the platform that each is for."""
    if target is None:
        return [(None, LOCK)]
    text = LOCK.read_text(encoding="utf-8")
    for old, new in target.replaced:
        if old not in text:
            raise Unavailable(f"the lock has no {old}: see which release has wheels for {target.platform}")
        text = text.replace(old, new)
    lines = text.splitlines()
    parts = {target.platform: [line for line in lines if not _is_of(line, dict(target.elsewhere))]}
    for package, platform in target.elsewhere:
        parts.setdefault(platform, []).extend(line for line in lines if _is_of(line, (package,)))
    files: list[tuple[str | None, Path]] = []
    for platform, chosen in parts.items():
        path = scratch / f"{platform}.txt"
        path.write_text("\n".join(chosen), encoding="utf-8")
        files.append((platform, path))
    return files


def _is_of(line: str, packages: Iterable[str]) -> bool:
    return line.partition("==")[0].strip() in set(packages)


def package(
    target: str | None = None,
    *,
    scan_secrets: bool = True,
    changed: Callable[[Path], None] | None = None,
    arguments: tuple[str, ...] = (),
) -> Path:
    """Build the `.vsix` at the root of the repository; returns its path.

    `target` is the registries' name of a platform, one of `TARGETS`: the package then says which it is for. `changed`
    changes the files that go into it, and `arguments` are further ones of vsce.

    vsce looks for secrets in every file, which takes most of its time: tests of the package go without.
    """
    node = npm_ci(ROOT)
    bundle_libraries(TARGETS[target] if target is not None else None)
    node.run(["extension/build.mjs", "--release"])
    vsix = ROOT / (f"fuselight-{target}.vsix" if target is not None else "fuselight.vsix")
    with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
        stage = Path(scratch)
        stage_files(stage)
        (changed or _without_repository)(stage)
        command = [
            "package",
            "--no-dependencies",
            "--allow-missing-repository",
            "--no-rewrite-relative-links",
        ]
        command += [*arguments, *(["--target", target] if target is not None else [])]
        command += ["--out", str(vsix), *([] if scan_secrets else ["--allow-package-all-secrets"])]
        vsce = ROOT / "node_modules" / "@vscode" / "vsce" / "vsce"
        node.run([vsce, *command], directory=stage)
    return vsix


def runtime_wheel() -> Path:
    """Build the wheel `fuselight-runtime` in `dist/`; returns its path."""
    folder = ROOT / "dist"
    command = [*uv_command(), "build", "--quiet", "--wheel", "--out-dir", str(folder), str(ROOT / "compiler")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Unavailable(f"the wheel of the runtime could not be built:\n{done.stderr.strip()}")
    return max(folder.glob("fuselight_runtime-*.whl"), key=lambda wheel: wheel.stat().st_mtime)


def stage_files(stage: Path) -> None:
    """Copy what may travel: vsce looks at every file below its folder, and a checkout has a hundred thousand."""
    for name in _TRAVELS:
        source, target = ROOT / name, stage / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "*.map"))
        elif source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
        else:
            raise Unavailable(f"{name} is missing, and the extension is not packaged without it")
    write_pages(ROOT, stage, extension_patterns(ROOT))


def _without_repository(stage: Path) -> None:
    """Remove what leads into the repository: the extension's page shows pictures and opens links of web sites only."""
    page = stage / "README.md"
    readme = page.read_text(encoding="utf-8")
    pictures, last_section = r"^!\[[^]]*]\([^)]*\)\n+", r"^## Read on\n(?:(?!## ).*\n)*"
    text = re.sub(f"{pictures}|{last_section}", "", readme, flags=re.MULTILINE)
    text = re.sub(r"\[([^]]+)]\((?!https?:)[^)]*\)", r"\1", text).rstrip()
    page.write_text(f"{text}\n", encoding="utf-8")


def _install(uv: list[str], folder: Path, requirements: Path, *, python: str, platform: str | None) -> None:
    command = [*uv, "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:", "--link-mode", "copy"]
    command += ["--python-version", python, "--target", str(folder), "--requirements", str(requirements)]
    if platform is not None:
        command += ["--python-platform", platform]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Unavailable(
            f"the server's libraries for Python {python} could not be fetched:\n{done.stderr.strip()}"
        )


def _merge(source: Path, target: Path) -> None:
    """Add what `target` lacks. Files that differ between two Pythons would break one of them: refuse."""
    for file in sorted(source.rglob("*")):
        if file.is_dir() or "__pycache__" in file.parts:
            continue
        relative = file.relative_to(source)
        there = target / relative
        if not there.exists():
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, there)
        elif not _names_its_python(relative) and not filecmp.cmp(file, there, shallow=False):
            raise Unavailable(
                f"{relative} differs between the builds for two Pythons: they cannot share a folder"
            )


def _names_its_python(relative: Path) -> bool:
    """Metadata and scripts say which Python they were made for; nothing at run time reads that."""
    return relative.parts[0] == "bin" or relative.parts[0].endswith(".dist-info")


def _keep_sampler() -> None:
    """py-spy is one native program, which its package installs next to the scripts; only that program is bundled."""
    for program in (LIBRARIES / "bin").iterdir():
        if program.stem != "py-spy":
            program.unlink()


def uv_command() -> list[str]:
    """uv, which unlike pip evaluates markers for the Python that is asked for and not for the one that runs."""
    text = shutil.which("uv")
    if text:
        return [text]
    home = CACHE / "uv"
    python = home / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not python.is_file():
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", UV]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Unavailable(f"{UV} could not be installed:\n{done.stderr.strip()}")
    return [str(python), "-m", "uv"]


def main() -> None:
    """Command line: `bundle.py [--libraries-only] [--target NAME]`."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--libraries-only", action="store_true", help="fill bundled/libs and stop")
    parser.add_argument(
        "--target", choices=TARGETS, help="a platform by the registries' name: the package is for it alone"
    )
    options = parser.parse_args()
    try:
        if options.libraries_only:
            every = [bundle_libraries(TARGETS.get(options.target))]
        else:
            every = [package(options.target), runtime_wheel()]
    except Unavailable as why:
        sys.exit(str(why))
    for path in every:
        files = [path] if path.is_file() else path.rglob("*")
        size = sum(file.stat().st_size for file in files if file.is_file())
        print(f"{path.relative_to(ROOT)}  {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
