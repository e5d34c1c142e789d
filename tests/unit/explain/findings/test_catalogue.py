"""The catalogue, its pages and the plain-word titles agree with each other."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from packaged_pages import WHEEL, linked_files

from fuselight_server.base.finding import Severity
from fuselight_server.cli.formats.findings import shown_link
from fuselight_server.explain.findings.common import catalogue

PAGES = Path(__file__).resolve().parents[4] / "docs" / "findings"


def test_each_code_has_a_page_and_each_page_a_code() -> None:
    assert {path.name for path in PAGES.glob("FL*.md")} == {
        entry.page for entry in catalogue.CATALOGUE.values()
    }


def test_each_code_is_expected_by_a_case_or_a_unit_test() -> None:
    tests = Path(__file__).resolve().parents[3]
    files = [
        path for room in ("cases", "unit") for path in (tests / room).rglob("*.py") if path != Path(__file__)
    ]
    expected = {
        code for path in files for code in re.findall(r"[\[\"'](FL\d{3})\b", path.read_text(encoding="utf-8"))
    }
    assert not catalogue.CATALOGUE.keys() - expected


@pytest.mark.parametrize("code", sorted(catalogue.CATALOGUE))
def test_a_page_matches_the_catalog(code: str) -> None:
    entry = catalogue.CATALOGUE[code]
    text = (PAGES / entry.page).read_text(encoding="utf-8")
    assert text.startswith(f"# {code}: {entry.title}\n")
    assert f"\n*Severity: {entry.severity.name.lower()}. Found by {entry.origin.value}.*\n" in text
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert headings[:3] == ["What it means", "What it costs", "What to do"]


@pytest.mark.parametrize("code", sorted(catalogue.CATALOGUE))
def test_links_between_pages_lead_somewhere(code: str) -> None:
    text = (PAGES / f"{code}.md").read_text(encoding="utf-8")
    for target in re.findall(r"\]\((FL\d+\.md)\)", text):
        assert (PAGES / target).is_file()


def test_a_code_links_to_its_page() -> None:
    assert (
        catalogue.link("GB0170") == "https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0170.html"
    )
    assert catalogue.link("FL201") == (PAGES / "FL201.md").as_uri()
    assert catalogue.link("XX1") is None


def test_the_link_of_a_wheel_opens_in_a_browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "FL201.md").touch()
    (tmp_path / "FL201.html").touch()
    monkeypatch.setattr(catalogue, "page_path", lambda code: tmp_path / f"{code}.md")
    assert catalogue.link.__wrapped__("FL201") == (tmp_path / "FL201.html").as_uri()


def test_a_graph_break_is_a_warning() -> None:
    assert catalogue.severity("GB0170") is Severity.WARNING


def test_links_are_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    catalogue.link("FL201")

    def touched(_path: Path) -> bool:
        raise AssertionError("the disk was asked again")

    monkeypatch.setattr(Path, "is_file", touched)
    assert catalogue.link("FL201") == (PAGES / "FL201.md").as_uri()


def test_a_link_into_the_working_folder_is_shown_by_its_path(monkeypatch: pytest.MonkeyPatch) -> None:
    page = catalogue.link("FL201") or ""
    monkeypatch.chdir(PAGES.parents[1])
    assert shown_link(page) == "docs/findings/FL201.md"
    monkeypatch.chdir(PAGES)
    assert shown_link(page) == "FL201.md"
    monkeypatch.chdir(PAGES.parents[1] / "tests")
    assert shown_link(page) == page
    assert shown_link("https://example.org/gb0170.html") == "https://example.org/gb0170.html"


@pytest.mark.slow
def test_the_wheel_contains_the_pages(tmp_path: Path) -> None:
    pytest.importorskip("hatchling", reason="hatchling, which builds the wheel, is a development dependency")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=PAGES.parents[1], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        pages = {
            name: archive.read(name).decode() for name in names if name.endswith(".md") and "/docs/" in name
        }
    assert {f"fuselight_server/docs/findings/{entry.page}" for entry in catalogue.CATALOGUE.values()} <= names
    assert "fuselight_server/docs/inputs.md" in names
    linked = {path for page, text in pages.items() for path in linked_files(page, text)}  # within the archive
    assert linked
    assert linked <= names, "each link opens"
    assert {f"{page.removesuffix('.md')}.html" for page in pages} <= names, "for a browser"


def test_the_source_archive_has_what_its_wheel_takes() -> None:
    """A wheel that is built from the archive, as installers without a wheel do, finds each page."""
    settings = (PAGES.parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    archive = settings.partition("[tool.hatch.build.targets.sdist]")[2].partition("\n[")[0]
    for path in (*WHEEL, "scripts/page_parts.py", "scripts/packaged_pages.py", "scripts/rendered_pages.py"):
        assert f'"/{path.removesuffix("/*.md")}"' in archive
