"""`make release REPOSITORY=URL VERSION=X`: all that is uploaded, in `dist/release/`, checked as the stores check it.

Invariant: the checkout stays as it is. The version and the links are written into copies, the links name the tag of the
version, and nothing is uploaded from here.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bundle import TARGETS, package, uv_command
from node_tools import CACHE, ROOT, Unavailable
from packaged_pages import with_addresses
from store_checks import problems_of

OUT = ROOT / "dist" / "release"
TWINE = "twine==6.2.0"
MCP_SCHEMA = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
_VERSION = re.compile(r"\d+\.\d+\.\d+")
_PATH = re.compile(r"/([\w.-]+(?:/[\w.-]+)+)")
_ADDRESSES = {
    "github.com": (
        "https://github.com/{path}/blob/{tag}/",
        "https://raw.githubusercontent.com/{path}/{tag}/",
    ),
    "gitlab.com": ("https://gitlab.com/{path}/-/blob/{tag}/", "https://gitlab.com/{path}/-/raw/{tag}/"),
}
"""By host: where the pages of a tag are, and where its files are as they are."""
_UNRELEASED = re.compile(r"^## Unreleased$", re.MULTILINE)
_MAX_DESCRIPTION = 100
"""Characters in the registry of MCP servers."""
_INSTALL_FROM_CHECKOUT = re.compile(
    r"^## Install\n(?:(?!## ).*\n)*?.*`make package`(?:(?!## ).*\n)*", re.MULTILINE
)
_INSTALL = """## Install

In VS Code, search the Extensions view for Fuselight, or run `code --install-extension {identifier}`. The extension
contains its server's libraries; the only requirement is a Python interpreter that has torch. Programs that
[replay tuned results](docs/replay.md) need `pip install fuselight-runtime` instead.

For the command line only: `pip install fuselight`. If torch is in another interpreter, name it:
`fuselight check --python PATH`.

"""
"""What a published page says in place of how to build the packages in a checkout."""


@dataclass(frozen=True)
class Release:
    """One version, and the repository that its pages link to."""

    repository: str
    version: str

    @classmethod
    def of(cls, repository: str, version: str) -> Release:
        """Check what the user has named. Raises Unavailable."""
        address = repository.strip().removesuffix("/").removesuffix(".git")
        parts = urlsplit(address)
        if parts.scheme != "https" or parts.netloc not in _ADDRESSES or not _PATH.fullmatch(parts.path):
            hosts = " or ".join(f"https://{host}/OWNER/NAME" for host in _ADDRESSES)
            raise Unavailable(f"REPOSITORY is `{repository}`: name it as {hosts}")
        if not _VERSION.fullmatch(version):
            raise Unavailable(
                f"VERSION is `{version}`: name three numbers, as 0.2.0; the stores take no others"
            )
        return cls(address, version)

    @property
    def is_preview(self) -> bool:
        """Whether it is a pre-release: its second number is odd, as the Marketplace recommends."""
        return int(self.version.split(".")[1]) % 2 == 1

    @property
    def name(self) -> str:
        """`OWNER/NAME`."""
        return urlsplit(self.repository).path.removeprefix("/")

    @property
    def is_on_github(self) -> bool:
        """Whether workflows, badges and the name in the registry of MCP servers are GitHub's."""
        return urlsplit(self.repository).netloc == "github.com"

    @property
    def server_name(self) -> str:
        """The name in the registry of MCP servers, which is bound to the owner of the repository."""
        return f"io.github.{self.name.partition('/')[0]}/fuselight"

    def addresses(self) -> tuple[str, str]:
        """Where pages of this version are, and where its pictures are."""
        pages, files = _ADDRESSES[urlsplit(self.repository).netloc]
        return tuple(  # type: ignore[return-value] # of two
            text.format(path=self.name, tag=f"v{self.version}") for text in (pages, files)
        )

    def changelog(self, text: str) -> str:
        """The changelog of this version, which has what is unreleased if the text has no heading for it."""
        if re.search(rf"^## {re.escape(self.version)}\b", text, re.MULTILINE):
            return text
        return _UNRELEASED.sub(f"## {self.version}", text, count=1)

    def notes(self, changelog: str) -> str:
        """The part of the changelog that is about this version. Raises Unavailable."""
        heading = rf"^## {re.escape(self.version)}\b[^\n]*\n(?P<text>.*?)(?=^## |\Z)"
        match = re.search(heading, changelog, re.MULTILINE | re.DOTALL)
        if match is None or not match["text"].strip():
            raise Unavailable(f"CHANGELOG.md has nothing under `## {self.version}` or `## Unreleased`")
        return match["text"].strip() + "\n"

    def manifest(self, manifest: dict[str, Any]) -> dict[str, Any]:
        """The manifest of the extension with what the store's page shows."""
        badges = [
            {
                "url": f"{self.repository}/actions/workflows/test.yml/badge.svg",
                "href": f"{self.repository}/actions/workflows/test.yml",
                "description": "Tests",
            }
        ]
        return {
            **manifest,
            "version": self.version,
            "repository": {"type": "git", "url": f"{self.repository}.git"},
            "bugs": {"url": f"{self.repository}/issues"},
            "homepage": f"{self.repository}#readme",
            "galleryBanner": {"color": "#1e1e1e", "theme": "dark"},
            **({"badges": badges} if self.is_on_github else {}),
        }

    def page(self, name: str, text: str) -> str:
        """A page with links that open outside of the repository, and with its own name in examples."""
        return with_addresses(name, self.named(text), *self.addresses())

    def named(self, text: str) -> str:
        """Examples of workflows that name this repository and this version, where a checkout's name none.

        Pages also say how to install what is published, in place of how to build it.
        """
        manifest = json.loads((ROOT / "package.json").read_text(encoding="utf-8"))
        installed = _INSTALL.format(identifier=f"{manifest['publisher']}.{manifest['name']}")
        text = _INSTALL_FROM_CHECKOUT.sub(lambda _: installed, self.changelog(text))
        for example, name in (
            (
                "uses: OWNER/fuselight@main # where you have this repository",
                f"uses: {self.name}@v{self.version}",
            ),
            ("https://github.com/OWNER/fuselight # where you have this repository", self.repository),
            ("rev: main # or a commit", f"rev: v{self.version}"),
        ):
            text = text.replace(example, name)
        return text

    def server(self, description: str) -> dict[str, Any]:
        """The entry for the registry of MCP servers."""
        return {
            "$schema": MCP_SCHEMA,
            "name": self.server_name,
            "title": "Fuselight",
            "description": _shortened(description),
            "repository": {"url": self.repository, "source": "github"},
            "version": self.version,
            "packages": [
                {
                    "registryType": "pypi",
                    "identifier": "fuselight",
                    "version": self.version,
                    "runtimeHint": "uvx",
                    "transport": {"type": "stdio"},
                    "packageArguments": [{"type": "positional", "value": "mcp"}],
                }
            ],
        }


def _shortened(description: str) -> str:
    """As many parts of an enumeration as the registry of MCP servers takes."""
    if len(description) <= _MAX_DESCRIPTION:
        return description
    return description[: _MAX_DESCRIPTION + 1].rpartition(",")[0] or description[:_MAX_DESCRIPTION]


def change_extension(stage: Path, release: Release) -> None:
    """Write the version and the links into the files of a package."""
    manifest = stage / "package.json"
    data = json.loads(manifest.read_text(encoding="utf-8"))
    manifest.write_text(json.dumps(release.manifest(data), indent=2) + "\n", encoding="utf-8")
    for name in ("README.md", "CHANGELOG.md"):
        (stage / name).write_text(
            release.page(name, (ROOT / name).read_text(encoding="utf-8")), encoding="utf-8"
        )


def copy_sources(stage: Path, release: Release) -> None:
    """Copy what a wheel is built from, with the version and the links."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    built = [path.relative_to(ROOT).as_posix() for path in (ROOT / "extension" / "dist").glob("*.js")]
    for name in (*filter(None, listed.split("\0")), *built):
        if not name.startswith("tests/"):
            target = stage / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target)
    change_extension(stage, release)
    readme = stage / "README.md"
    text = readme.read_text(encoding="utf-8")
    if release.is_on_github:  # by which the registry of MCP servers knows the owner
        text += f"\n<!-- mcp-name: {release.server_name} -->\n"
    readme.write_text(text, encoding="utf-8")
    urls = {
        "Repository": release.repository,
        "Issues": f"{release.repository}/issues",
        "Changelog": f"{release.addresses()[0]}CHANGELOG.md",
    }
    lines = "".join(f'{name} = "{address}"\n' for name, address in urls.items())
    for path in (stage / "pyproject.toml", stage / "compiler" / "pyproject.toml"):
        path.write_text(f"{path.read_text(encoding='utf-8')}\n[project.urls]\n{lines}", encoding="utf-8")


def build_wheels(release: Release) -> list[Path]:
    """Build both wheels and the source archive, and check their metadata as PyPI does. Raises Unavailable."""
    print("building the wheels and the source archive", flush=True)
    stage = CACHE / "release"
    shutil.rmtree(stage, ignore_errors=True)
    copy_sources(stage, release)
    uv = uv_command()
    for arguments in (("--wheel", "--sdist"), ("--wheel", "compiler")):
        _run([*uv, "build", "--quiet", "--out-dir", str(OUT), *arguments], stage)
    files = sorted(path for path in OUT.iterdir() if path.suffix in {".whl", ".gz"})
    _run(
        [*uv, "tool", "run", "--quiet", "--from", TWINE, "twine", "check", "--strict", *map(str, files)],
        stage,
    )
    return files


def build_extensions(release: Release, targets: list[str]) -> list[Path]:
    """Build the package of each platform, and check it as the stores do. Raises Unavailable."""
    files = []
    for target in targets:
        print(f"{target}: building the package", flush=True)
        arguments = ("--pre-release",) if release.is_preview else ()
        built = package(
            target,
            scan_secrets=target == targets[0],  # the others differ in libraries of the package index alone
            changed=lambda stage: change_extension(stage, release),
            arguments=arguments,
        )
        path = OUT / f"fuselight-{target}-{release.version}.vsix"
        shutil.move(built, path)
        files.append(path)
        problems = problems_of(path, target, release.version, is_preview=release.is_preview)
        if problems:
            raise Unavailable("\n".join((f"{path.name} would not be accepted:", *problems)))
    return files


def _run(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Unavailable(f"`{' '.join(command[:6])}` failed:\n{(done.stdout + done.stderr)[-2000:]}")


def build(release: Release, targets: list[str]) -> list[Path]:
    """Build everything; returns the files. Raises Unavailable."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    changelog = release.changelog(text)
    notes = release.notes(changelog)
    if changelog != text:
        print(
            f"`## Unreleased` of CHANGELOG.md is {release.version} here: rename it before you tag", flush=True
        )
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    files = [*build_extensions(release, targets), *build_wheels(release)]
    (OUT / "notes.md").write_text(release.page("CHANGELOG.md", notes), encoding="utf-8")
    if release.is_on_github:
        description = json.loads((ROOT / "package.json").read_text(encoding="utf-8"))["description"]
        entry = json.dumps(release.server(description), indent=2)
        (OUT / "server.json").write_text(f"{entry}\n", encoding="utf-8")
    sums = (f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)
    (OUT / "SHA256SUMS").write_text("".join(sums), encoding="ascii")
    return files


def table(files: list[Path]) -> str:
    """Name, size, and size once it is unpacked, of each file."""
    lines = []
    for path in files:
        unpacked = ""
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as packed:
                unpacked = f"{sum(entry.file_size for entry in packed.infolist()) / 1e6:8.1f} MB unpacked"
        lines.append(f"{path.name:<44}{path.stat().st_size / 1e6:8.1f} MB{unpacked}")
    return "\n".join(lines)


def main() -> None:
    """Command line: `release.py REPOSITORY VERSION [--target NAME]...`."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("repository", help="https://github.com/OWNER/NAME")
    parser.add_argument("version", help="three numbers; an odd second one is a pre-release")
    parser.add_argument("--target", action="append", choices=TARGETS, help="this platform alone")
    options = parser.parse_args()
    try:
        release = Release.of(options.repository, options.version)
        files = build(release, options.target or list(TARGETS))
    except Unavailable as why:
        sys.exit(str(why))
    kind = "pre-release" if release.is_preview else "release"
    print(f"{kind} {release.version} of {release.repository}, in {OUT.relative_to(ROOT)}:\n{table(files)}")
    print("checked: twine check --strict, and what the Marketplace and Open VSX ask of a package")


if __name__ == "__main__":
    main()
