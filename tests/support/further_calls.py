"""Further calls of a verification for tests: in the worker, and in this process."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from fuselight.capture.calls import importing
from fuselight.capture.calls.calls import compiled_form
from fuselight.capture.calls.rungs import Answered, Ladder
from fuselight.shared.protocol import NameInUse, VerifyRequest
from fuselight.shared.report import (
    Aspect,
    CaseFamily,
    Verification,
)
from fuselight.worker.child.kernel_launches import KernelLaunches
from fuselight.worker.child.line_watch import LineWatch
from fuselight.worker.child.originals import Loaded
from fuselight.worker.child.request_results import VerifiedCalls
from fuselight.worker.verify.further_calls import FurtherCalls
from fuselight.worker.verify.verification import VerifyCalls
from fuselight_server.fixes.verification.change_context import ChangeContext, context_of
from tests.support.live_worker import LiveWorker, make_request

HEAD = "import time\nimport torch\nfrom torch import nn\n\n"
SCALARS = "torch._dynamo.config.capture_scalar_outputs = <False|True>\n\n"


def compared(
    live: LiveWorker,
    folder: Path,
    old: str,
    new: str,
    name: str = "f",
    *,
    seconds: float = 60.0,
    settings: bool = False,
    names: tuple[NameInUse, ...] = (),
) -> Verification:
    folder = live.folder / folder.name  # in the workspace, where the user's code cannot write
    folder.mkdir()
    for text, records in ((old, True), (new, False)):
        request = live.request(HEAD + text, name, seconds=120.0).of_kind(
            VerifyRequest,
            folder=str(folder),
            records=records,
            cases=True,
            seconds=seconds,
            settings=settings,
            names=names,
            automatic=True,
        )
        request = replace(request, overlays={request.target.path: HEAD + text})
        report = live.report(request)
        assert report.failures == ()
    assert report.verification is not None
    assert not report.verification.refused
    return report.verification


class HereAndNow:
    """Makes further calls of some families in this process: few calls, and no run."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder, self._patch = folder, monkeypatch
        (folder / "records").mkdir()

    def compared(
        self,
        old: str,
        new: str,
        families: Collection[CaseFamily],
        name: str = "f",
        *,
        settings: bool = False,
        most_compiled: int | None = None,
    ) -> Verification:
        planned = FurtherCalls._planned
        self._patch.setattr(
            FurtherCalls,
            "_planned",
            lambda calls: [call for call in planned(calls) if call.case.family in families],
        )
        verification = self.round(old, new, name, settings=settings, most_compiled=most_compiled)
        assert verification.left == ()
        return verification

    def round(
        self,
        old: str,
        new: str,
        name: str = "f",
        *,
        settings: bool = False,
        first: int = 0,
        most_compiled: int | None = None,
    ) -> Verification:
        """The calls from number `first` on for which there is time."""
        context = context_of({"m.py": HEAD + old}, {"m.py": HEAD + new}, {})
        verification = Verification(refused="no text")
        for side, text, records in (("old", old, True), ("new", new, False)):
            verification = self._verification_of(
                side,
                HEAD + text,
                name,
                records=records,
                settings=settings,
                first=first,
                context=context,
                most_compiled=most_compiled,
            )
            assert not verification.refused
        return verification

    def _verification_of(
        self,
        side: str,
        text: str,
        name: str,
        *,
        records: bool,
        settings: bool,
        first: int,
        context: ChangeContext,
        most_compiled: int | None,
    ) -> Verification:
        path = self._folder / f"{side}.py"
        path.write_text(text, encoding="utf-8")
        request = make_request(path, text, name).of_kind(
            VerifyRequest,
            folder=str(self._folder / "records"),
            records=records,
            cases=True,
            seconds=60.0,
            settings=settings,
            first=first,
            most_compiled=most_compiled,
            names=context.names,
            sizes=context.sizes,
        )
        state: Any = SimpleNamespace(
            job=SimpleNamespace(request=request),
            loaded=Loaded(),
            kernel_launches=KernelLaunches(request.roots),
            step=lambda *_: contextlib.nullcontext(),
            compiled_form=lambda prepared: compiled_form(
                prepared.function,
                by_source=request.target.compiled,
                dynamic=prepared.options.dynamic,
                roots=request.roots,
            )[0],
        )
        calls = VerifyCalls()
        torch.compiler.reset()
        with calls.compiling(state):
            self._patch.setitem(sys.modules, side, ModuleType(side))  # and none afterwards
            names = vars(importing.import_file(str(path), side, importing.Sources(request.roots)))

            def climb() -> Answered:
                answered, _ = Ladder(request.target, request.inputs, names, "cpu").climb()
                assert answered is not None
                return answered

            calls.use(state, climb(), climb, names)
        verification: Verification = state.result.verification
        return verification


def differing(verification: Verification) -> dict[tuple[CaseFamily, Aspect], str]:
    """The real differences of each family and aspect, a line each."""
    entries: dict[tuple[CaseFamily, Aspect], str] = {}
    for comparison in verification.comparisons:
        for difference in comparison.differences:
            if not difference.rounding and difference.aspect is not Aspect.MEMORY:
                key = comparison.family, difference.aspect
                entries[key] = f"{entries.get(key, '')}{comparison.values}: {difference.text}\n"
    return entries


def sides(text: str) -> tuple[str, str]:
    """`<old>` or `<old|new>`: the text before and after the change."""
    texts = []
    for side in (0, 1):
        parts = []
        for number, part in enumerate(text.replace(">", "<").split("<")):
            parts.append(part if number % 2 == 0 else ([*part.split("|"), ""])[side])
        texts.append("".join(parts))
    return texts[0], texts[1]


def new_text(
    folder: Path, call: Callable[..., Any], *, records: bool = False, first: int = 0
) -> tuple[FurtherCalls, VerifiedCalls]:
    """The further calls of a new text whose calls `call` makes, and their result; with `records`, of the old text."""
    request: Any = SimpleNamespace(
        folder=str(folder), seconds=60.0, records=records, settings=False, first=first, names=(), sizes=()
    )
    caller: Any = SimpleNamespace(call=call, lines=LineWatch(()))
    result = VerifiedCalls()
    return FurtherCalls(result, request, caller), result
