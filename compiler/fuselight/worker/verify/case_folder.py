"""What the run of the old text leaves for that of the new one: a folder with a record of each further call.

Invariant: a call that is not in the list of those that are done has no record that counts.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, astuple, dataclass
from typing import Any

from fuselight.shared.protocol import VerifyRequest
from fuselight.worker.child.state import put
from fuselight.worker.live.call_records import CallRecord, load_record
from fuselight.worker.verify.context_cases import ContextPlan, ContextValue

ABOUT = "about.json"
"""What the run of the old text found for the calls of the inputs."""
_FLOAT64 = "-float64"
"""In the names of the records of calls in float64."""


@dataclass(frozen=True)
class RecordedCase:
    """What the run of the old text found for one case."""

    is_made: bool
    """Whether its inputs can be made."""
    seconds: float
    """How long its call took."""
    raised: str = ""
    """Type of the exception of its call; empty if there was none."""
    first: int = 0
    """The call that its round started with: the new text makes both in one process, too."""
    is_late: bool = False
    """Whether its call did not end in time."""


class CaseFolder:
    """The folder of one verification."""

    def __init__(self, request: VerifyRequest) -> None:
        """Further calls of settings have records of their own."""
        self._folder = request.folder
        self._name = "further-settings" if request.settings else "further"
        if request.names or request.sizes:  # what a change reads decides which calls there are
            key = hashlib.sha256(repr((request.names, request.sizes)).encode()).hexdigest()[:16]
            self._name = f"{self._name}-{key}"
        self._first = request.first
        # A round that starts at a call replaces what earlier ones have recorded from there on.
        self._recorded = {index: known for index, known in self.done().items() if index < self._first}

    @property
    def printed_varies(self) -> bool:
        """Whether printed text differs from call to call."""
        return bool(self._read(ABOUT).get("printed_varies"))

    def note_done(self, index: int, record: CallRecord | None, seconds: float) -> None:
        """Note that a call is done; `record`: None where its inputs cannot be made, or it is not to be made."""
        if record is not None:
            record.save(self._path(index))
        raised = record.raised if record is not None else ""
        self._keep(index, RecordedCase(record is not None, seconds, raised, self._first))

    def add_late(self, index: int, seconds: float) -> None:
        """Note that a call did not end in time."""
        self._keep(index, RecordedCase(is_made=False, seconds=seconds, first=self._first, is_late=True))

    def _keep(self, index: int, case: RecordedCase) -> None:
        self._recorded[index] = case
        recorded = {number: astuple(known) for number, known in self._recorded.items()}
        put(os.path.join(self._folder, f"{self._name}.json"), json.dumps(recorded).encode())

    def add_plan(self, plan: ContextPlan) -> None:
        """Keep which values are varied."""
        put(os.path.join(self._folder, f"{self._name}-plan.json"), json.dumps(asdict(plan)).encode())

    def plan(self) -> ContextPlan:
        """The plan of the text before the change."""
        known = self._read(f"{self._name}-plan.json")
        return ContextPlan(
            tuple(ContextValue(**value) for value in known.get("values", ())),
            tuple(known.get("sizes", ())),
            tuple(known.get("names", ())),
            tuple(known.get("constants", ())),
        )

    def add_in_float64(self, index: int, record: CallRecord) -> None:
        """Keep the record of a call in float64."""
        record.save(self._path(index, _FLOAT64))

    def done(self) -> dict[int, RecordedCase]:
        """The calls that the run of the old text has done, by index."""
        return {int(index): RecordedCase(*value) for index, value in self._read(f"{self._name}.json").items()}

    def load(self, index: int) -> CallRecord:
        """The record of a call."""
        return load_record(self._path(index))

    def load_in_float64(self, index: int) -> CallRecord:
        """The record of a call in float64. Raises FileNotFoundError if it failed, or if there was no time for it."""
        return load_record(self._path(index, _FLOAT64))

    def _path(self, index: int, suffix: str = "") -> str:
        return os.path.join(self._folder, f"{self._name}-{index}{suffix}.pt")

    def _read(self, name: str) -> dict[str, Any]:
        """What an earlier run wrote; empty if it wrote nothing."""
        try:
            with open(os.path.join(self._folder, name), encoding="utf-8") as file:
                records: dict[str, Any] = json.load(file)
        except (OSError, ValueError):
            return {}
        return records
