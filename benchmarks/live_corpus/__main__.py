"""Measure the predictions of live findings on edits of real models (docs/results/live.md).

python -m benchmarks.live_corpus [--held-out | --building] [--sources bert,resnet] [--inserted 12] [--jobs 4]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
for _part in (".", "compiler", "server"):
    sys.path.insert(0, str(ROOT / _part))

from benchmarks.live_corpus.compare import compare_source  # noqa: E402 - the path is set above
from benchmarks.live_corpus.page import summary  # noqa: E402
from benchmarks.live_corpus.sources import sources  # noqa: E402


def main() -> int:
    """Compare, print the summary, and write the outcomes."""
    parser = argparse.ArgumentParser(description="Compare predictions with runs, on edits of real models.")
    half = parser.add_mutually_exclusive_group()
    half.add_argument("--held-out", action="store_true", help="only the half that is reported")
    half.add_argument("--building", action="store_true", help="only the half that rules are written with")
    parser.add_argument("--sources", default="", help="names, or parts of names, with commas between them")
    parser.add_argument("--seed", default="1")
    for kind, count in (("inserted", 12), ("clean", 2), ("untraced", 2), ("removed", 3)):
        parser.add_argument(f"--{kind}", type=int, default=count, metavar="N", help="edits of each source")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path, help="where the outcomes are written")
    options = parser.parse_args()
    os.environ["HF_HUB_OFFLINE"] = "1"
    wanted = [name for name in options.sources.split(",") if name]
    chosen = [
        source
        for source in sources()
        if (not wanted or any(name in source.name for name in wanted))
        and source.held_out
        in ({True} if options.held_out else {False} if options.building else {True, False})
    ]
    counts = {"insert": options.inserted, "clean": options.clean, "untraced": options.untraced}
    outcomes: list[dict[str, Any]] = []
    with ProcessPoolExecutor(options.jobs) as pool:
        jobs = {
            pool.submit(compare_source, source, options.seed, counts, options.removed): source
            for source in chosen
        }
        for job in as_completed(jobs):
            result = job.result()
            outcomes += result
            error = next((entry["error"] for entry in result if entry["error"]), f"{len(result)} edits")
            print(f"{jobs[job].name}: {error}", flush=True)
            if options.json:  # what was compared stays if the rest is cut off
                options.json.write_text(json.dumps(outcomes), encoding="utf-8")
    print(summary(outcomes))
    return 0


if __name__ == "__main__":
    sys.exit(main())
