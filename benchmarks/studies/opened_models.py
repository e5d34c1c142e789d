"""Whether `fuselight open` has the findings of `fuselight check`, on models of `transformers`.

    python benchmarks/studies/opened_models.py --results FILE [--models bart,led] [--part 1/4]

Each architecture's own file is copied into a project, as in `fix_coverage.py`, so that its lines are the user's. The
worker captures a small instance while torch writes its trace in the same process; then the findings of both are
compared by file, line and code (`tests/support/traced_findings.py` has what a trace cannot show). Each model is a line
of FILE; what FILE has is not run again. Exits with 1 if a difference has no known reason.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[2]
for _part in (".", "compiler", "server"):
    sys.path.insert(0, str(ROOT / _part))

from benchmarks.fix_coverage import BUILT, HELD_OUT, project  # noqa: E402 - the path is set above
from fuselight.shared.protocol import Limits  # noqa: E402
from fuselight_server.base.cancellation import CancelToken  # noqa: E402
from fuselight_server.commands.open import OpenRequest, open_jobs  # noqa: E402
from fuselight_server.commands.options import CommandOptions  # noqa: E402
from fuselight_server.commands.targets import report_each  # noqa: E402
from fuselight_server.explain.findings import findings  # noqa: E402
from tests.support.traced_findings import RECORDING, agreement, places  # noqa: E402

if TYPE_CHECKING:
    from fuselight.shared.report import Report
    from fuselight_server.commands.outcome import CheckOutcome
    from fuselight_server.commands.targets import TargetRun


async def compared(folder: Path, name: str) -> dict[str, Any]:
    """The findings of one model in a run and in its trace."""
    began = time.monotonic()
    main, trace = project(folder, name), folder / f"{name}-trace"
    trace.mkdir()
    main.write_text(f"{main.read_text(encoding='utf-8')}\n\n{RECORDING.format(folder=str(trace))}")
    reports: list[Report] = []

    async def report_of(target_run: TargetRun, _outcome: CheckOutcome) -> Report:
        reports.append(await target_run.run_report())
        return reports[-1]

    options = CommandOptions((main,), ("Small",), sys.executable, limits=Limits(seconds=600.0))
    await report_each(options, lambda _text: None, CancelToken(), report_of)
    jobs = await open_jobs(OpenRequest((trace,), (main.parent,)), lambda _text: None, CancelToken())
    of_run = places(finding for report in reports for finding in findings(report))
    of_trace = places(finding for job in jobs for finding in job.findings)
    result = agreement(of_run, of_trace, {path.name for path in main.parent.glob("*.py")})
    failures = [failure.message.splitlines()[0] for report in reports for failure in report.failures]
    return {
        "model": name,
        "findings": len(of_run),
        **dataclasses.asdict(result),
        "agrees": result.is_complete,
        "failures": failures,
        "seconds": round(time.monotonic() - began, 1),
    }


def main() -> int:
    """Compare what is missing in the results; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--models", default=",".join((*BUILT, *HELD_OUT)), help="names, with commas")
    parser.add_argument("--part", default="1/1", help="K/N: every Nth model from the Kth on, for N processes")
    options = parser.parse_args()
    os.environ["HF_HUB_OFFLINE"] = "1"
    number, _, count = options.part.partition("/")
    lines = options.results.read_text().splitlines() if options.results.exists() else []
    known = {row["model"]: row for row in map(json.loads, lines)}
    with tempfile.TemporaryDirectory(prefix="fuselight-opened-", ignore_cleanup_errors=True) as folder:
        for name in options.models.split(",")[int(number) - 1 :: int(count)]:
            if name in known:
                continue
            known[name] = asyncio.run(compared(Path(folder), name))
            with options.results.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(known[name]) + "\n")
            print(json.dumps(known[name]), flush=True)
    return int(any(not row["agrees"] for row in known.values()))


if __name__ == "__main__":
    sys.exit(main())
