"""Verifies wrong and right changes of programs, as `fuselight verify` does: no wrong one may pass without its caveat.

    python -m benchmarks.fix_truth.verify_changes [--programs A,B] [--out FILE]

`programs/changes/changes.json` has a row for each change: the program next to it, what it does, what shows that it is
wrong (empty if it is right), and texts that replace others. The directives of the programs have the defaults of all
constructors and parameters, so that no recorded call shows a wrong change. A wrong change is judged well if it is
refused, or if the verdict names what shows it or the lines that no ordinary call ran; a right one if it passes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[2]
for _part in (".", "compiler", "server"):
    sys.path.insert(0, str(ROOT / _part))

from fuselight.shared.protocol import Limits  # noqa: E402 - the path is set above
from fuselight_server.base.cancellation import CancelToken  # noqa: E402 - the same
from fuselight_server.commands.options import CommandOptions  # noqa: E402 - the same
from fuselight_server.commands.targets import report_each  # noqa: E402 - the same
from fuselight_server.commands.verdict_rows import verify_data  # noqa: E402 - the same
from fuselight_server.commands.verify import VerifyOutcome  # noqa: E402 - the same
from fuselight_server.fixes.verification.fixer import Fixer  # noqa: E402 - the same
from fuselight_server.fixes.verification.patches import PatchVerdict, patch_of, verify_patch  # noqa: E402 - the same

if TYPE_CHECKING:
    from fuselight.shared.report import Report
    from fuselight_server.commands.outcome import CheckOutcome
    from fuselight_server.commands.targets import TargetRun

CHANGES = Path(__file__).parent / "programs" / "changes"
_UNRUN = "no ordinary call ran "
_CLASSES = ("exact", "equal", "changes")


@dataclass(frozen=True)
class Change:
    """One change of a program."""

    program: str
    name: str
    shown_by: str
    """What shows that it is wrong; empty if it is right."""
    edits: tuple[tuple[str, str], ...]

    @property
    def new_text(self) -> str:
        """The program after the change. Raises ValueError if an edit does not apply."""
        text = (CHANGES / f"{self.program}.py").read_text(encoding="utf-8")
        for old, new in self.edits:
            if old not in text:
                raise ValueError(f"{self.program}, {self.name}: `{old}` is not in the program")
            text = text.replace(old, new)
        return text


def read_changes() -> list[Change]:
    """All changes."""
    rows = json.loads((CHANGES / "changes.json").read_text(encoding="utf-8"))
    return [Change(program, name, shown, tuple(map(tuple, edits))) for program, name, shown, edits in rows]


def is_judged_well(change: Change, verdict: str, why: str) -> bool:
    """Whether a right change passes, or a wrong one does not without its caveat."""
    if not change.shown_by:
        return verdict == "same"
    return verdict == "differs" or change.shown_by in why or _UNRUN in why


def row_of(change: Change, outcome: VerifyOutcome) -> dict[str, Any]:
    """What the verification of a change says."""
    data = verify_data(outcome)
    is_same = data["verdict"] == "same"
    classes = [target["class"] for target in data["targets"] if is_same and target["class"] is not None]
    return {
        "program": change.program,
        "change": change.name,
        "right": not change.shown_by,
        "verdict": data["verdict"],
        "class": max(classes, key=_CLASSES.index) if classes else None,
        "why": data["why"],
        "well": is_judged_well(change, data["verdict"], data["why"]),
    }


async def verify_program(program: str, changes: list[Change], folder: Path) -> list[dict[str, Any]]:
    """Verify the changes of a program, all with one worker."""
    path = folder / f"{program}.py"
    path.write_text((CHANGES / path.name).read_text(encoding="utf-8"), encoding="utf-8")
    records = folder / "records"
    records.mkdir()
    verdicts: dict[Change, list[PatchVerdict]] = {change: [] for change in changes}

    async def report_of(target_run: TargetRun, outcome: CheckOutcome) -> Report:
        report = await target_run.run_report()
        fixer = Fixer(
            read=outcome.sources.text_or_none,
            obstacle=lambda _remedy: "",
            readings=outcome.readings,
            folder=str(records),
        )
        for change in changes:
            old = {str(path): fixer.texts.text(str(path)) or ""}
            patch = patch_of({str(path): change.new_text}, old, ())
            verdict = await verify_patch(fixer, target_run, report, patch, has_further_calls=True)
            verdicts[change].append(verdict)
        fixer.runs.forget_results()
        return report

    options = CommandOptions((path,), (), sys.executable, limits=Limits(seconds=180.0))
    checked = await report_each(options, lambda _text: None, CancelToken(), report_of)
    return [row_of(change, VerifyOutcome(checked, tuple(verdicts[change]))) for change in changes]


def main() -> int:
    """Verify all changes; 1 if any is judged badly."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--programs", default="")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    by_program: dict[str, list[Change]] = {}
    for change in read_changes():
        if not options.programs or change.program in options.programs.split(","):
            by_program.setdefault(change.program, []).append(change)
    rows: list[dict[str, Any]] = []
    for program, changes in by_program.items():
        with tempfile.TemporaryDirectory() as folder:
            for row in asyncio.run(verify_program(program, changes, Path(folder).resolve())):
                rows.append(row)
                mark, side = "well" if row["well"] else "BADLY", "right" if row["right"] else "wrong"
                print(
                    f"{mark} {side} {program}: {row['change']}: {row['verdict']} ({row['class']}): {row['why']}"
                )
        sys.stdout.flush()
        if options.out:
            options.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    for is_right in (False, True):
        of_side = [row for row in rows if row["right"] is is_right]
        passed = sum(row["verdict"] == "same" for row in of_side)
        well = sum(row["well"] for row in of_side)
        exact = sum(row["class"] == "exact" for row in of_side)
        side = "right" if is_right else "wrong"
        print(f"{side}: {len(of_side)}, {passed} passed, {exact} exact, {well} judged well")
    return 0 if all(row["well"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
