"""The catalogue, its pages and the plain-word titles agree with each other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fuselight_server import catalogue
from fuselight_server.finding import Severity

PAGES = Path(__file__).resolve().parents[3] / "docs" / "findings"


def test_each_code_has_a_page_and_each_page_a_code() -> None:
    assert {path.name for path in PAGES.glob("FL*.md")} == {
        entry.page for entry in catalogue.CATALOGUE.values()
    }


@pytest.mark.parametrize("code", sorted(catalogue.CATALOGUE))
def test_a_page_says_what_the_catalogue_says(code: str) -> None:
    entry = catalogue.CATALOGUE[code]
    text = (PAGES / entry.page).read_text(encoding="utf-8")
    assert text.startswith(f"# {code}: {entry.title}\n")
    assert f"*Severity: {entry.severity.name.lower()}.*" in text
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


def test_a_graph_break_is_a_warning() -> None:
    assert catalogue.severity("GB0170") is Severity.WARNING
