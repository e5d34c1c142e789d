"""What follows from a graph break comes after it, and says so only where the program shows it."""

from __future__ import annotations

import dataclasses

import pytest

from fuselight.shared.report import (
    Compile,
    Frame,
    GuardCause,
    GuardFailure,
    Location,
    NotCompiled,
    NotCompiledKind,
    Outcome,
    Recompile,
    Report,
)
from fuselight_server.base.finding import Finding
from fuselight_server.explain.findings import findings
from fuselight_server.explain.findings.priority import of_reports
from tests.support.recompilations import again, failed
from tests.support.reports import FILE, at, broken, report

BLOCKS = """\
def blur(x):
    y = x.sin()
    print("blur")
    return y.cos()
def step(x):
    with torch.no_grad():
        target = blur(x)
    other = blur(target)
    return blur(x) - other
"""
MODE = failed(
    "grad mode was off, now on", source="", cause=GuardCause.GLOBAL_STATE, kind="GRAD_MODE", born=()
)
GRADIENT = failed("x.requires_grad was False, now True", cause=GuardCause.REQUIRES_GRAD, born=())


def shown_findings(given: Report, source: str) -> tuple[Finding, ...]:
    lines = dict(enumerate(source.splitlines(), 1))
    return findings(given, read_line=lambda path, line: lines.get(line) if path == FILE else None)


def blurred(
    *failures: GuardFailure, calls: tuple[int, int] = (7, 9), breaks: tuple[int, ...] = (7, 8, 9)
) -> Report:
    """`blur`, compiled for the first call and again for the second; `step` breaks at each of its lines `breaks`."""
    first, second = ((at(12, function="<module>"), at(line, function="step")) for line in calls)
    definition = at(1, function="blur")
    return report(
        frames=(Frame("blur", definition), Frame("step", at(5, function="step"))),
        compiles=(
            Compile("1/0", 0, Outcome.COMPILED, caller=first),
            Compile("1/1", 0, Outcome.COMPILED, caller=second),
        ),
        breaks=tuple(
            broken(at(line, function="step"), at(3, function="blur"), gb="GB0059", compile_id=f"0/{line}")
            for line in breaks
        ),
        recompiles=(
            again(
                *failures,
                function="blur",
                location=definition,
                compile_id="1/1",
                entries=(dataclasses.replace(again().entries[0], compile_id="1/0", failures=failures),),
                caller=second,
            ),
        ),
    )


def recompiled(given: Report, source: str = BLOCKS) -> Finding:
    (finding,) = [finding for finding in shown_findings(given, source) if finding.code == "FL201"]
    return finding


@pytest.mark.parametrize("failures", [(MODE,), (MODE, GRADIENT)])
def test_a_mode_of_a_block_goes_with_the_break_in_what_it_calls(failures: tuple[GuardFailure, ...]) -> None:
    finding = recompiled(blurred(*failures))
    assert finding.follows is not None
    assert (finding.follows.span.line, finding.follows.message) == (
        3,
        "it is called in eager mode because of the graph break on line 3",
    )
    assert not any("Remove" in hint for hint in finding.hints), "no trial shows that it goes"


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(blurred(MODE, calls=(8, 9)), id="both calls are outside of the block"),
        pytest.param(blurred(MODE, breaks=(9,)), id="the first call was not made by a line that broke"),
        pytest.param(blurred(MODE, breaks=()), id="nothing breaks: the calls are the user's own"),
        pytest.param(blurred(MODE, failed("x.size(0) was 4, now 7")), id="a size differs, too"),
        pytest.param(blurred(GRADIENT), id="the tensors may be given so"),
    ],
)
def test_what_no_block_shows_does_not_go_with_a_break(given: Report) -> None:
    finding = recompiled(given)
    assert finding.follows is None


def test_a_block_of_another_kind_sets_no_grad_mode() -> None:
    assert (
        recompiled(blurred(MODE), BLOCKS.replace("torch.no_grad()", "torch.profiler.profile()")).follows
        is None
    )


CROP = """\
def crop(x, given):
    width = choose()
    print("cropped")
    part = x[:width]
    return part * given
"""
PARTS = (
    Frame("crop", at(1), parameters=("x", "given")),
    Frame("crop", at(1), resumes_at=3, parameters=("x", "given")),
)


def cropped(source: str, line: int) -> Report:
    """A part that is compiled again for `source`, read on `line`, until the limit."""
    guard = failed(f"{source} was 4, now 7", source=source, born=(at(line),))
    changed = [again(guard, function="crop", location=at(1), compile_id=f"1/{n}") for n in (1, 2)]
    stopped = dataclasses.replace(changed[0], compile_id=None)
    return report(
        frames=PARTS,
        compiles=(
            Compile("0/0", 0, Outcome.COMPILED),
            *(Compile(f"1/{n}", 1, Outcome.COMPILED) for n in range(3)),
        ),
        breaks=(broken(at(3), gb="GB0059"),),
        recompiles=tuple(_of_part(item) for item in (*changed, stopped)),
        not_compiled=(NotCompiled(NotCompiledKind.RECOMPILE_LIMIT, "crop", at(1), "limit"),),
    )


def _of_part(recompilation: Recompile) -> Recompile:
    entry = dataclasses.replace(recompilation.entries[0], compile_id="1/0")
    return dataclasses.replace(recompilation, entries=(entry,))


def ordered(given: Report, source: str = CROP) -> list[tuple[int, str]]:
    return [(line.cost.line, line.gain) for line in of_reports([given], shown_findings(given, source))]


def test_a_limit_that_the_code_after_a_break_reaches_comes_after_the_break() -> None:
    (first, gain), (second, after) = ordered(cropped("width", 4))
    assert (first, second) == (3, 4)
    assert gain.endswith("; crop reached the recompile limit in the code after it")
    assert (
        after
        == "crop reached the recompile limit because of it; it is in the code after the graph break on line 3"
    )
    (limit,) = [finding for finding in shown_findings(cropped("width", 4), CROP) if finding.code == "FL102"]
    assert limit.follows is not None
    assert limit.follows.span.line == 4
    assert limit.follows in limit.related


@pytest.mark.parametrize("source", ["given", "scale", "given.width"])
def test_a_value_that_the_caller_or_a_global_gives_keeps_its_place(source: str) -> None:
    (first, gain), (second, after) = ordered(cropped(source, 5))
    assert (first, second) == (5, 3), "the limit costs more than the break"
    assert "graph break" not in gain + after
    assert "follows" not in gain + after


def test_code_that_cannot_be_read_shows_nothing() -> None:
    assert [line for line, _ in ordered(cropped("width", 4), "")] == [4, 3]


def test_a_skipped_function_comes_after_the_line_that_breaks_under_it() -> None:
    stack: tuple[Location, ...] = (at(2), at(14))
    guard = failed("x.dtype was f32, now f16", cause=GuardCause.DTYPE, born=(at(1),))
    given = report(
        frames=(Frame("crop", at(1)),),
        breaks=(broken(*stack, frame_skipped=True, frame_function="crop"),),
        not_compiled=(NotCompiled(NotCompiledKind.SKIPPED, "crop", at(1), "in a loop", stack=stack),),
        compiles=(Compile("0/1", 0, Outcome.COMPILED, seconds=9.0),),
        recompiles=(again(guard, function="crop", location=at(1)),),
    )
    assert [line for line, _ in ordered(given)] == [14, 1]
    (skipped,) = [finding for finding in shown_findings(given, CROP) if finding.code == "FL101"]
    assert skipped.follows is not None
    assert skipped.follows.span.line == 14


METER = """\
def track(x, meter):
    loss = x.mean()
    meter.update(loss.item())
    best = meter.best
    mean = meter.total / meter.count
    return loss * best + mean
"""


def tracked(*steps: tuple[str, int]) -> Report:
    """Recompilations of the part of `track` after line 3, each for a value that is read on a line."""
    names = ("x", "meter")
    guards = [
        failed(f"{source} was {n}.0, now {n + 1}.0", source=source, born=(at(line),))
        for n, (source, line) in enumerate(steps)
    ]
    return report(
        frames=(
            Frame("track", at(1), parameters=names),
            Frame("track", at(1), resumes_at=3, parameters=names),
        ),
        compiles=(
            Compile("0/0", 0, Outcome.COMPILED),
            *(Compile(f"1/{n}", 1, Outcome.COMPILED) for n in range(len(steps) + 1)),
        ),
        breaks=(broken(at(3), gb="GB0124"),),
        recompiles=tuple(
            _of_part(again(guard, function="track", location=at(1), compile_id=f"1/{n}"))
            for n, guard in enumerate(guards, 1)
        ),
    )


def recompiled_findings(given: Report) -> list[Finding]:
    return [finding for finding in shown_findings(given, METER) if finding.code == "FL201"]


def test_values_that_the_function_makes_before_one_break_are_one_finding() -> None:
    shown = [
        item
        for item in shown_findings(tracked(("loss", 3), ("best", 4), ("mean", 5)), METER)
        if item.code == "FL201"
    ]
    (finding,) = shown
    assert (finding.span.line, finding.count) == (3, 3)
    assert (
        "- best was 1.0, now 2.0 (read on line 4)\n- mean was 2.0, now 3.0 (read on line 5)"
        in finding.message
    )


def test_a_value_that_the_caller_gives_is_a_finding_of_its_own_after_a_break() -> None:
    shown = [
        item for item in shown_findings(tracked(("loss", 3), ("x.width", 4)), METER) if item.code == "FL201"
    ]
    assert [item.span.line for item in shown] == [3, 4]


@pytest.mark.parametrize(
    ("body", "is_changed"),
    [
        ("counts[kind] = counts.get(kind, 0) + 1", True),
        ("counts['all'] += 1", True),
        ("return x * counts['all']", False),
        ("counts['sum'] += 1; return x * counts['all']", False),
    ],
)
def test_what_the_function_changes_in_a_dict_is_one_finding_and_changed_outside(
    body: str, *, is_changed: bool
) -> None:
    lines = {1: "def count(x, kind):", 2: f"    {body}"}
    read = (at(2),)
    guards = (
        failed("len(counts) was 1, now 2", kind="DICT_KEYS", source="", cause=GuardCause.KEYS, born=read),
        failed("counts['all'] was 1, now 2", source="counts['all']", born=read),
        failed("counts['all'] was 2, now 3", source="counts['all']", born=read),
    )
    given = report(
        frames=(Frame("count", at(1), parameters=("x", "kind")),),
        compiles=tuple(Compile(f"0/{n}", 0, Outcome.COMPILED) for n in range(4)),
        recompiles=tuple(
            again(guard, function="count", location=at(1), compile_id=f"0/{n}")
            for n, guard in enumerate(guards, 1)
        ),
    )
    shown = findings(given, read_line=lambda _path, number: lines.get(number))
    assert len(shown) == (1 if is_changed else 2)
    assert ("hange `counts` outside the compiled code" in shown[0].hints[0]) is is_changed


GIVEN = """\
def loss(self, x):
    noise = draw()
    if self.epoch > 1:
        x = x * 2
    return x + noise
def main(trainer):
    for trainer.epoch in range(4):
        trainer.loss(x)
"""


@pytest.mark.parametrize("text", [GIVEN, GIVEN.replace("noise = draw()", "self.epoch = draw()")])
def test_a_relation_after_a_break_is_to_be_expected(text: str) -> None:
    relation = failed(
        "self.epoch <= 1 no longer holds: self.epoch is 2",
        source="",
        cause=GuardCause.RELATION,
        born=(at(3),),
    )
    recompilation = _of_part(
        again(relation, function="loss", location=at(1), compile_id="1/1", caller=(at(8, function="main"),))
    )
    given = report(
        frames=(Frame("loss", at(1)), Frame("loss", at(1), resumes_at=2)),
        compiles=(
            Compile("0/0", 0, Outcome.COMPILED),
            *(Compile(f"1/{n}", 1, Outcome.COMPILED) for n in range(2)),
        ),
        breaks=(broken(at(2), gb="GB0294"),),
        recompiles=(recompilation,),
    )
    (finding,) = [item for item in shown_findings(given, text) if item.code == "FL201"]
    assert finding.hints[0].startswith("Expect one compile for each outcome of `self.epoch > 1`")
