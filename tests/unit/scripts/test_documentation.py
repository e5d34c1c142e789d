"""The site: each page is in it, and no link of it leads nowhere."""

from __future__ import annotations

import re
from pathlib import Path

import documentation
import pytest
from packaged_pages import linked_files
from release import Release

ROOT = Path(__file__).parents[3]
RELEASES = [None, Release.of("https://github.com/OWNER/fuselight", "0.2.0")]


@pytest.mark.parametrize("release", RELEASES, ids=["alone", "release"])
def test_each_link_of_a_page_is_in_the_site_or_on_the_web(tmp_path: Path, release: Release | None) -> None:
    documentation.stage_pages(ROOT, tmp_path, release)
    pages = [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.md")]
    assert set(documentation.pages_of(ROOT)) < set(pages)
    missing = [
        (page, linked)
        for page in pages
        for linked in linked_files(page, (tmp_path / page).read_text(encoding="utf-8"))
        if not (tmp_path / linked).is_file()
    ]
    assert missing == []


def test_each_page_is_listed_once(tmp_path: Path) -> None:
    documentation.stage_pages(ROOT, tmp_path, None)
    listed: list[str] = []
    for name in ("index.md", "docs/findings/index.md"):
        folder = Path(name).parent
        for tree in re.findall(
            r"```\{toctree\}\n(.*?)```", (tmp_path / name).read_text(encoding="utf-8"), re.DOTALL
        ):
            listed += [
                f"{(folder / line).as_posix()}.md"
                for line in tree.splitlines()
                if line and not line.startswith(":")
            ]
    assert sorted(listed) == sorted([*documentation.pages_of(ROOT), "docs/findings/index.md"])


def test_examples_of_workflows_name_the_release(tmp_path: Path) -> None:
    documentation.stage_pages(ROOT, tmp_path, Release.of("https://github.com/someone/lights", "1.2.3"))
    text = (tmp_path / "docs" / "ci.md").read_text(encoding="utf-8")
    assert "      - uses: someone/lights@v1.2.3\n" in text
    assert "  - repo: https://github.com/someone/lights\n    rev: v1.2.3\n" in text
    assert "OWNER" not in text


def test_what_is_no_page_is_an_address_of_the_release(tmp_path: Path) -> None:
    documentation.stage_pages(ROOT, tmp_path, RELEASES[1])
    text = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "](https://github.com/OWNER/fuselight/blob/v0.2.0/LICENSE)" in text
    assert "](docs/findings/index.md)" in text


def test_the_first_page_says_what_it_is_and_links_show_titles(tmp_path: Path) -> None:
    documentation.stage_pages(ROOT, tmp_path, None)
    first = (tmp_path / "index.md").read_text(encoding="utf-8")
    assert first.startswith("# Fuselight\n\n![")
    assert "](README.md)" in first
    assert "[](docs/editor.md)" in first
    assert "[](docs/editor.md#values-of-the-last-run)" in first
    named = re.compile(r"\[[^\]`]+\.md\]\((?!https?:)")
    shown = [path.name for path in tmp_path.rglob("*.md") if named.search(path.read_text(encoding="utf-8"))]
    assert shown == []
    searched = [path for path in tmp_path.rglob("*.md") if "nosearch: true" not in path.read_text("utf-8")]
    assert {path.name for path in tmp_path.rglob("*.md")} - {path.name for path in searched} == {
        "CHANGELOG.md"
    }
