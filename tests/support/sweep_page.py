"""Writes the page of a made-up sweep to the file that is named: `python -m tests.support.sweep_page FILE`."""

from __future__ import annotations

import sys
from pathlib import Path

from fuselight_server.sweep.comparison import compare_sweeps
from fuselight_server.sweep.page import as_page
from fuselight_server.sweep.rows import SweepAbout, SweepJob
from tests.support.sweeps import failed, row, timed

SPEEDUPS = {"bert": 1.5, "gpt2": 10.5, "vit": 0.9}
ROWS = [
    *(row(name, graphs=1 + number, breaks=number) for number, name in enumerate(SPEEDUPS)),
    *(
        row(
            name,
            SweepJob.BENCH,
            configurations=(timed("eager", 1000.0), timed("default", 1000.0 / speedup, speedup)),
        )
        for name, speedup in SPEEDUPS.items()
    ),
    failed("resnet"),
]


def main() -> None:
    before = [row("bert", graphs=1, breaks=0), row("gpt2", graphs=1, breaks=0)]
    page = as_page(ROWS, SweepAbout(suite="examples"), compare_sweeps(before, ROWS), "last week")
    Path(sys.argv[1]).write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
