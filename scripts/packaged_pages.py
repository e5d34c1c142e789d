"""Pages of docs/ as packages carry them: a link to a file that the package lacks is plain text.

Invariant: each link of a packaged page opens. The standard library alone: the wheel's build runs this, too.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

_PART = re.compile(
    r"""
    ^\ *(?P<fence>`{3,}|~{3,}).*?^\ *(?P=fence)\ *$  # a block of code, which has no links
  | (?P<picture>!?)\[(?P<text>(?:[^\[\]]|\[[^\[\]]*\])*)\]\(<?(?P<path>[^)\s>\#]*)[^)\n]*\)
    """,
    re.VERBOSE | re.MULTILINE | re.DOTALL,
)
_WEB = re.compile(r"[a-z][a-z0-9+.-]+:", re.IGNORECASE)

WHEEL = (
    "docs/findings/*.md",  # the pages that findings link to
    "docs/inputs.md",  # and the pages that those link to
    "docs/accuracy.md",
    "docs/caches.md",
    "docs/jobs.md",
    "docs/memory.md",
    "docs/notebooks.md",
    "docs/ranks.md",
    "docs/safety.md",
    "docs/triton.md",
    "docs/upgrade.md",
    "docs/verification.md",
)


def files_of(root: Path, patterns: tuple[str, ...]) -> tuple[str, ...]:
    """The files of a checkout that patterns choose, with `/`, relative to it."""
    chosen = {path for pattern in patterns for path in root.glob(pattern) if path.is_file()}
    return tuple(sorted(path.relative_to(root).as_posix() for path in chosen))


def extension_patterns(root: Path) -> tuple[str, ...]:
    """What of docs/ goes with the extension: `.vscodeignore` is an allowlist."""
    lines = (root / ".vscodeignore").read_text(encoding="utf-8").splitlines()
    return tuple(line[1:] for line in lines if line.startswith("!docs/"))


def linked_files(page: str, text: str) -> list[str]:
    """The files that a page links to, relative to the root of the repository."""
    return [_target(page, match["path"]) for match in _PART.finditer(text) if _is_file(match)]


def packaged(page: str, text: str, files: frozenset[str]) -> str:
    """The text of a page in a package with these files: other links are plain text, other pictures are left out."""

    def kept(match: re.Match[str]) -> str:
        if not _is_file(match) or _target(page, match["path"]) in files:
            return match[0]
        return "" if match["picture"] else match["text"]

    return _PART.sub(kept, text)


def with_addresses(
    page: str, text: str, pages: str, files: str, *, inside: frozenset[str] = frozenset()
) -> str:
    """The text of a page outside of the repository: links and pictures of files are addresses of web sites.

    `pages` and `files` are where the repository's root is: as pages, and as the files themselves. Files that are
    `inside`, with the page, are linked to as they are.
    """

    def address(match: re.Match[str]) -> str:
        if not _is_file(match) or _target(page, match["path"]) in inside:
            return match[0]
        start, end = match.span("path")
        base = files if match["picture"] else pages
        whole, first = match[0], match.start()
        return whole[: start - first] + base + _target(page, match["path"]) + whole[end - first :]

    return _PART.sub(address, text)


def write_pages(root: Path, target: Path, patterns: tuple[str, ...]) -> tuple[str, ...]:
    """Write the pages and files that patterns choose below `target`; returns their paths."""
    files = files_of(root, patterns)
    for name in files:
        copy = target / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        data = (root / name).read_bytes()
        if name.endswith(".md"):
            data = packaged(name, data.decode("utf-8"), frozenset(files)).encode("utf-8")
        copy.write_bytes(data)
    return files


def _is_file(match: re.Match[str]) -> bool:
    return bool(match["path"]) and not _WEB.match(match["path"])


def _target(page: str, path: str) -> str:
    return os.path.normpath(os.path.join(os.path.dirname(page), path)).replace(os.sep, "/")  # noqa: PTH118, PTH120 - a path of text
