"""What is offered for a recompilation, from a program's text and the guard that failed."""

from __future__ import annotations

import dataclasses

from fuselight.shared.report import (
    Branch,
    Compile,
    Frame,
    GuardCause,
    GuardFailure,
    Location,
    Mismatch,
    Outcome,
    Recompile,
    Report,
    SizeChange,
    Symbol,
    TargetRef,
    Tier,
    Versions,
)
from fuselight_server.base.finding import Finding, Severity, Span
from fuselight_server.explain.findings.recompilations.recompilations import subject_of
from fuselight_server.fixes.rewrites.families import (
    RefusedRewrite,
    Remedy,
    rewrites,
)
from tests.support.offered_remedies import traced

HEAD = "import torch\nfrom torch import nn\n\n\n"


def offered(
    text: str,
    failure: GuardFailure,
    function: str,
    *,
    torch: str = "2.13.0",
    others: dict[str, str] | None = None,
    caller: str = "",
    roots: tuple[str, ...] = (),
    refused: list[RefusedRewrite] | None = None,
    resumes_at: int | None = None,
    other: GuardFailure | None = None,
    part: GuardFailure | None = None,
    calling: str = "",
    outcome: Outcome = Outcome.COMPILED,
    symbols: tuple[Symbol, ...] = (),
    branches: tuple[Branch, ...] = (),
) -> dict[str, Remedy]:
    """The remedies by kind, where the guard failed on the `def` line of a function that the line `caller` calls.

    `calling`: the function of that line, of which Dynamo made `outcome`. `part`: what fails in the part after a break.
    """
    name = function.rpartition(".")[2]
    line = text[: text.index(f"def {name}(")].count("\n") + 1
    at = Location("m.py", line)
    above: tuple[Location, ...] = ()
    further: tuple[Frame, ...] = ()
    if caller:
        above = (Location("m.py", text[: text.index(caller)].count("\n") + 1, function=calling or None),)
    if calling:
        further = (Frame(calling, Location("m.py", text[: text.index(f"def {calling}(")].count("\n") + 1)),)
    failures = (failure,) if other is None else (failure, other)
    again = [Recompile(function, at, (Mismatch("0/0", failures),), compile_id="0/1", caller=above)]
    if part is not None:
        further = (Frame(function, at, line + 2),)
        again.append(Recompile(function, at, (Mismatch("1/0", (part,)),), compile_id="1/1"))
    report = Report(
        *(Versions("3.11", torch, None, "0", "linux", "python"), TargetRef("m.py", name, line, "function")),
        *(Tier.CAPTURE, 1),
        recompiles=tuple(again),
        frames=(
            Frame(function, at, resumes_at, parameters=("self", "x", "n") if "." in function else ("x", "n")),
            *further,
        ),
        compiles=(
            Compile("0/1", 0, Outcome.COMPILED, symbols=symbols),
            *(Compile("1/1", 1, outcome) for _ in further),
        ),
        files=dict.fromkeys(("m.py", *(others or {})), ""),
        roots=roots,
        facts=dataclasses.replace(
            traced(text),
            files={"m.py": dataclasses.replace(traced(text).files["m.py"], branches=branches)},
        ),
    )
    finding = Finding(
        *("FL201", Severity.WARNING, f"recompiled: {failure.difference}", "message", Span("m.py", line)),
        *(Tier.CAPTURE, name, "", torch),
        subject=subject_of(failure),
    )
    known = rewrites(finding, report, {"m.py": text, **(others or {})}.get)
    if refused is not None:
        refused += known.refused
    return {remedy.kind: remedy for remedy in known.remedies}


def size(*changes: tuple[int, int, int], rank: int = 2) -> GuardFailure:
    written = ", ".join("4" for _ in range(rank))
    return GuardFailure(
        *("TENSOR_MATCH", "x", f"check_tensor(L['x'], Tensor, size=[{written}], stride=[4, 1])", "x.size(0)"),
        *(str(changes[0][1]), str(changes[0][2])),
        cause=GuardCause.DIMENSION,
        sizes=tuple(SizeChange("x", *change) for change in changes),
    )


def number(source: str, was: str, now: str, code: str = "") -> GuardFailure:
    code = code or f"L['{source}'] == {was}"
    return GuardFailure(
        *("EQUALS_MATCH", source, code, f"{source} was {was}, now {now}", was, now), cause=GuardCause.NUMBER
    )


COMPILED = f"{HEAD}@torch.compile\ndef f(x, n):\n    return x * n\n"


CORE = f"{HEAD}class Core(nn.Module):\n    def forward(self, x, n):\n        return x * n\n\n\n"
