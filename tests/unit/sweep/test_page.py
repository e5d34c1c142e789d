"""The page and the exports: everything is in them, and nothing of a model becomes markup or a formula."""

from __future__ import annotations

import csv
import io
import re
from html.parser import HTMLParser

from fuselight_server.explain.pages.document import policy_hash
from fuselight_server.sweep.comparison import compare_sweeps
from fuselight_server.sweep.exports import COLUMNS, rows_as_csv
from fuselight_server.sweep.page import as_page
from fuselight_server.sweep.rows import RowFailure, RowStatus, SweepAbout, SweepJob
from tests.support.sweeps import failed, row, timed

HOSTILE = "<script>alert(1)</script>\"'&"
ROWS = [
    row("net", graphs=2, breaks=1, recompilations=0, operators=7, break_causes={HOSTILE: 1}),
    row(HOSTILE, kernels=3, job=SweepJob.KERNELS, kernel_us=12.0, kernel_device="h100"),
    failed("bad", notes=(HOSTILE,)),
    row("gone", status=RowStatus.ABSENT, failure=RowFailure("environment", "absent", "no package ships it")),
    row(
        "=cmd()",
        SweepJob.BENCH,
        torch="2.11.0",
        configurations=(timed("eager", 100.0), timed("default", 25.0, 4.0, is_accurate=False)),
    ),
    row(
        "fast",
        SweepJob.BENCH,
        torch="2.13.0",
        configurations=(timed("default", 25.0, 4.0, is_accurate=True),),
    ),
]
ABOUT = SweepAbout(suite=HOSTILE, started="2026-01-31T12:00:00Z", engine="a test")


class Tags(HTMLParser):
    """The tags of a page, which must be balanced."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        del attrs
        self.seen.append(tag)
        if tag not in {"meta", "input", "br"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_has_every_row_and_no_markup_of_a_model() -> None:
    page = as_page(ROWS, ABOUT, compare_sweeps([row("net", breaks=0)], ROWS), "last week")
    tags = Tags(page)
    assert tags.seen.count("script") == tags.seen.count("style") == 1
    assert HOSTILE not in page
    for text in (
        "no package ships it",
        "ValueError: no (net.py:3). fix it",
        "WRONG in default",
        "4.0×",
        "~12 µs",
    ):
        assert text in page, text
    for title in ("Compared with last week", "Speed-up", "Breaks by cause", "Failures by cause", "Rows"):
        assert f"<h2>{title}</h2>" in page
    assert "1 regression, 0 improvements" in page
    assert "different releases of torch" in page
    assert "http" not in re.sub(r"http-equiv", "", page)


def test_the_policy_allows_the_page_alone() -> None:
    page = as_page(ROWS, ABOUT)
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)
    script = re.search(r"<script>(.*?)</script>", page, re.DOTALL)
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)
    assert policy
    assert script
    assert style
    assert policy[1] == (
        f"default-src 'none'; script-src '{policy_hash(script[1])}'; style-src '{policy_hash(style[1])}'"
    )


def test_empty_columns_are_left_out() -> None:
    page = as_page([row("net", graphs=1)], SweepAbout(suite="s"))
    heads = re.findall(r'<th scope="col"><button type="button">([^<]+)<', page)
    assert heads == ["model", "job", "status", "graphs"]


def test_a_sweep_without_rows_has_a_page() -> None:
    Tags(as_page([], SweepAbout()))


def test_csv_has_a_line_for_each_configuration_and_no_formula() -> None:
    lines = list(csv.DictReader(io.StringIO(rows_as_csv(ROWS))))
    assert len(lines) == len(ROWS) + 1
    assert list(lines[0]) == list(COLUMNS)
    wrong = next(line for line in lines if line["accurate"] == "False")
    assert (wrong["name"], wrong["configuration"], wrong["us"]) == ("'=cmd()", "default", "25.0")
    bad = next(line for line in lines if line["name"] == "bad")
    assert (bad["failure"], bad["kind"], bad["place"]) == ("ValueError: no", "exception", "net.py:3")
