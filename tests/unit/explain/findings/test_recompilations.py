"""Locations, folding and texts of recompilations and of the recompile limit."""

from __future__ import annotations

import dataclasses

import pytest

from fuselight.shared.report import (
    Compile,
    Frame,
    Guard,
    GuardCause,
    GuardFailure,
    Location,
    Mismatch,
    NotCompiled,
    NotCompiledKind,
    Outcome,
    Symbol,
)
from fuselight_server.explain.findings import findings
from fuselight_server.explain.findings.common.text import rounded
from tests.support.golden import expect
from tests.support.recompilations import DEF, READ, SIZE, WHOLE, again, failed, untried
from tests.support.reports import FILE, LIBRARY, at, report

HOOK = "self.net._forward_hooks[list(self.net._forward_hooks)[0]].calls"


def test_it_is_on_the_read_that_made_the_guard() -> None:
    (finding,) = findings(report(recompiles=(again(SIZE),)))
    assert (finding.code, finding.span.line, finding.span.column) == ("FL201", 22, 8)
    assert finding.title == "recompiled: x.size(0) was 4, now 7"
    assert finding.fixes == ("mark_dynamic",)
    assert finding.data == (("parameter", "x"), ("dimension", "0"))


def test_a_guard_without_a_line_is_reported_on_the_def() -> None:
    grad = failed("grad mode was on, now off", source="", born=(), cause=GuardCause.GLOBAL_STATE)
    (finding,) = findings(report(recompiles=(again(grad),)))
    assert finding.span.line == 20


def test_a_read_in_a_library_shows_on_the_users_line_outside_it() -> None:
    deep = failed("x.size(0) was 4, now 7", born=(READ, at(9, path=LIBRARY)))
    (finding,) = findings(report(recompiles=(again(deep),)))
    assert (finding.span.path, finding.span.line) == (FILE, 22)


def test_a_library_frame_shows_on_the_call_that_led_to_it() -> None:
    inside = again(
        failed("x.size(0) was 4, now 7", born=()),
        location=at(9, path=LIBRARY),
        caller=(at(40, function="main"),),
    )
    (finding,) = findings(report(recompiles=(inside,)))
    assert finding.span.line == 40


def test_the_same_value_changing_again_is_one_finding_with_the_later_changes_listed() -> None:
    (finding,) = findings(
        report(recompiles=(again(SIZE), again(failed("x.size(0) was 4, now 9"), compile_id="0/2")))
    )
    assert finding.count == 2
    assert "Later changes:\n- x.size(0) was 4, now 9" in finding.message


def test_the_same_change_of_another_version_is_not_spelled_out_again() -> None:
    (finding,) = findings(report(recompiles=(again(SIZE), again(SIZE, compile_id="0/2"))))
    assert "Later changes:\n- the same change, for another compiled version" in finding.message


def test_a_stride_is_named_after_the_value_that_changed_with_it() -> None:
    stride = failed("x.stride(0) was 150, now 200", cause=GuardCause.STRIDE)
    number = failed("k was 5, now 6", kind="EQUALS_MATCH", source="k", born=(at(23, function="forward"),))
    (finding,) = findings(report(recompiles=(again(stride, number),)))
    assert finding.title == "recompiled: k was 5, now 6"


def test_the_calls_of_a_loop_are_on_one_line_and_are_one_place() -> None:
    loop = at(40, (8, 20), function="main")
    compiles = (Compile("0/0", 0, Outcome.COMPILED, caller=(loop,)),)

    def related(*caller: Location) -> list[tuple[int, str]]:
        (finding,) = findings(report(compiles=compiles, recompiles=(again(SIZE, caller=caller),)))
        return [(item.span.line, item.message) for item in finding.related if item.span.line > 30]

    assert related(loop) == [(40, "triggered by this call, as was the earlier compile")]
    assert related(at(41)) == [
        (41, "triggered by this call"),
        (40, "the earlier compile was triggered by this call"),
    ]


def test_two_values_read_on_one_line_are_two_findings() -> None:
    other = failed("self.scale was 2, now 3", kind="EQUALS_MATCH", source="self.scale")
    assert len(findings(report(recompiles=(again(SIZE), again(other, compile_id="0/2"))))) == 2


def test_all_failing_guards_of_the_nearest_entry_are_shown() -> None:
    other = failed("FLAG was 1, now 2", kind="EQUALS_MATCH", source="FLAG")
    (finding,) = findings(report(recompiles=(again(SIZE, other),)))
    assert "Other failed guards:\n- FLAG was 1, now 2" in finding.message


def test_a_setting_of_torch_comes_before_its_consequences() -> None:
    setting = failed("grad mode was on, now off", source="", born=(), cause=GuardCause.GLOBAL_STATE)
    (finding,) = findings(report(recompiles=(again(SIZE, setting),)))
    assert (finding.title, finding.span.line) == ("recompiled: grad mode was on, now off", 20)


def test_torchs_message_is_shown_without_a_known_guard() -> None:
    (finding,) = findings(report(recompiles=(again(entries=(), reasons=("0/0: backend changed",)),)))
    assert finding.title == "recompiled: 0/0: backend changed"
    assert "one backend" in finding.hints[0]


def test_the_recompilation_that_the_limit_stopped_is_part_of_the_limits_finding() -> None:
    limit = NotCompiled(
        kind=NotCompiledKind.RECOMPILE_LIMIT, function="Net.forward", location=DEF, reason="limit reached (8)"
    )
    (finding,) = findings(report(recompiles=(again(SIZE, compile_id=None),), not_compiled=(limit,)))
    assert (finding.code, finding.span.line) == ("FL102", 20)
    assert "The call that exceeded it: x.size(0) was 4, now 7." in finding.message
    assert any("mark_dynamic(x, 0)" in text for text in untried(finding))


def test_wording() -> None:
    (finding,) = findings(
        report(recompiles=(again(SIZE, failed("FLAG was 1, now 2", kind="EQUALS_MATCH", source="FLAG")),))
    )
    expect(
        f"{finding.title}\n{finding.message}\n"
        + "\n".join(f"{item.span.line}: {item.message}" for item in finding.related),
        """\
        recompiled: x.size(0) was 4, now 7
        `Net.forward` was compiled again because a guard failed: a condition that its compiled code relies on.

        Other failed guards:
        - FLAG was 1, now 2

        Cost: `Net.forward` was compiled once more.

        What to do: 2 possible changes are not tried yet.
        9: triggered by this call, Net()(f32[4, 8])
        20: `Net.forward` was compiled again
        """,
    )


def test_a_class_that_is_created_again_hides_other_guards_that_its_advice_leaves() -> None:
    again_created = failed("the class Net of self was created again", source="self", cause=GuardCause.CLASS)
    number = failed(
        "self.rate was 0.1, now 0.2", kind="EQUALS_MATCH", source="self.rate", cause=GuardCause.NUMBER
    )
    (alone,) = findings(report(recompiles=(again(again_created),)))
    assert alone.hints[-1].endswith("objects of the same sizes and values then share compiled code")
    (both,) = findings(report(recompiles=(again(again_created, number),)))
    assert both.hints == alone.hints
    assert "Other failed guards:\n- self.rate was 0.1, now 0.2" in both.message


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("n was 0.10000000149, now 0.2", "n was 0.1, now 0.2"),
        ("n was 1.00000000001, now 2.5", "n was 1.0, now 2.5"),
        ("n was 1.00000001, now 1.00000002", "n was 1.00000001, now 1.00000002"),
        ("n was 1.25e-08, now 1.2345678e-08", "n was 1.25e-08, now 1.23457e-08"),
        ("torch was 2.13.0, now 1234567", "torch was 2.13.0, now 1234567"),
    ],
)
def test_floats_are_rounded_unless_that_hides_the_difference(text: str, shown: str) -> None:
    assert rounded(failed(text)) == shown


def test_one_line_that_fixes_a_size_again_and_again_is_one_finding_with_all_sizes() -> None:
    compiles = tuple(
        Compile(
            f"0/{number}",
            0,
            Outcome.COMPILED,
            symbols=(Symbol("s0", "x.size(0)", specialized_to=size, stack=(READ,)),),
        )
        for number, size in enumerate(("5", "6", "8"))
    )
    (finding,) = findings(report(frames=(WHOLE,), compiles=compiles))
    assert (finding.title, finding.count) == ("`x.size(0)` is fixed to 5, 6 and 8", 3)


@pytest.mark.parametrize(
    ("lines", "source", "where"),
    [
        ({22: "        state['step'] += 1"}, "self.state[p]['step']", ", changed on line 22"),
        ({22: "        x = x / step", 31: "    self.step -= 1"}, "self.step", ", changed on line 31"),
        ({22: "        x = x / rate", 31: "        rate **= 2"}, "rate", ", changed on line 31"),
        ({22: "        x = x / steps", 31: "    self.steps += 1"}, "self.step", ", read on line 22"),
        ({22: "        x = x * n", 31: "    n += 1", 33: "    n -= 1"}, "n", ", read on line 22"),
        ({22: "        x = x * n", 31: "    if n <= 1:"}, "n", ", read on line 22"),
        ({22: "        n += 1", 31: "    n += 1"}, "n", ", changed on line 22"),
    ],
)
def test_values_that_changed_with_dropped_code_have_the_line_that_changes_them(
    lines: dict[int, str], source: str, where: str
) -> None:
    dropped = failed("p.grad was freed", source="p.grad", kind="DELETED", cause=GuardCause.DELETED)
    value = failed(f"{source} was 0, now 1", source=source, kind="EQUALS_MATCH")
    (finding,) = findings(
        report(recompiles=(again(dropped, value),)),
        read_line=lambda _path, line: lines.get(line, "" if line < 40 else None),
    )
    assert finding.title == "recompiled: p.grad was freed"
    assert "torch checks no guard of dropped code" in finding.message
    assert f"Values that also changed:\n- {source} was 0, now 1{where}" in finding.message


def test_only_dropped_code_has_causes_that_may_follow() -> None:
    (finding,) = findings(report(recompiles=(again(SIZE, failed("n was 1, now 2", source="n")),)))
    assert "Other failed guards:\n- n was 1, now 2" in finding.message
    assert "may follow" not in finding.message


def test_what_failed_in_most_versions_is_the_cause_and_not_a_size_that_varied_once() -> None:
    def step(was: int) -> GuardFailure:
        return failed(f"self.step was {was}, now 9", kind="EQUALS_MATCH", source="self.step")

    nearest_one = Mismatch("0/0", (failed("x.size(0) was 4, now 7"),))
    others = tuple(Mismatch(f"0/{number}", (step(number),)) for number in range(1, 8))
    (finding,) = findings(report(recompiles=(again(entries=(nearest_one, *others)),)))
    assert finding.title == "recompiled: self.step was 1, now 9"
    both = Mismatch("0/0", (failed("x.size(0) was 4, now 7"), step(0)))
    (finding,) = findings(report(recompiles=(again(entries=(both, *others)),)))
    assert finding.title == "recompiled: self.step was 0, now 9"


def _number(name: str, was: str, now: str) -> GuardFailure:
    return failed(f"{name} was {was}, now {now}", kind="EQUALS_MATCH", source=name)


def test_a_version_of_the_same_mode_is_nearer_than_a_recent_one_of_another() -> None:
    mode = failed("grad mode was on, now off", source="", born=(), cause=GuardCause.GLOBAL_STATE)
    rate = _number("self.rate", "0.1", "0.0")
    entries = (Mismatch("0/1", (rate,)), Mismatch("0/2", (mode,)), Mismatch("0/0", (mode, rate)))
    (finding,) = findings(report(recompiles=(again(entries=entries, compile_id="0/3"),)))
    assert finding.title == "recompiled: self.rate was 0.1, now 0.0"
    assert "3 compiled versions existed; the comparison is with the nearest." in finding.message
    (finding,) = findings(report(recompiles=(again(entries=entries[1:], compile_id="0/3"),)))
    assert finding.title == "recompiled: grad mode was on, now off"


@pytest.mark.parametrize(
    ("head", "last", "is_moved"),
    [
        ("    def forward(self, x):", "return x", True),
        ("    def forward(self, x):", "return torch.stack(self.rows)", False),
        # What a block adds it takes away again: the list has what the caller's blocks have added.
        ("    def __enter__(self, x):", "return x", False),
        ("    @contextlib.contextmanager\n    def scope(self, x):", "yield x", False),
    ],
)
def test_a_list_is_changed_outside_only_where_the_code_does_not_read_it(
    head: str, last: str, *, is_moved: bool
) -> None:
    *above, definition = head.splitlines()
    body = {21: "        x = x * 2", 22: "        self.rows.append(x)", 20: definition, 19: "".join(above)}
    lines = {**body, 23: f"        {last}"}
    grown = failed("len(self.rows) was 1, now 2", source="self.rows", cause=GuardCause.LENGTH)
    (finding,) = findings(
        report(recompiles=(again(grown),)), read_line=lambda _path, number: lines.get(number)
    )
    moved = (
        "Change `self.rows` outside the compiled code: return the values, and make the change after the call"
    )
    assert (moved in finding.hints) is is_moved


@pytest.mark.parametrize(
    ("statements", "names"),
    [
        (("Net.calls += 1", "self.rows.append(x)"), "`Net.calls` and `self.rows`"),
        (("Net.calls = Net.calls + 2", "rows = self.rows; rows.append(x)"), "`Net.calls` and `self.rows`"),
        (("Net.calls += 1", "y = self.rows"), "`Net.calls`"),
    ],
)
def test_values_that_the_code_changes_in_each_call_are_one_piece_of_advice(
    statements: tuple[str, str], names: str
) -> None:
    lines = {20: "def forward(self, x):", 21: f"    {statements[0]}", 22: f"    {statements[1]}"}
    born = (at(22, function="forward"),)
    width = failed("width was 4, now 8", source="width", born=born)
    calls = failed("Net.calls was 1, now 2", source="Net.calls", born=born)
    grown = failed("len(self.rows) was 1, now 2", source="self.rows", cause=GuardCause.LENGTH, born=born)
    (finding,) = findings(
        report(recompiles=(again(width, calls, grown),)), read_line=lambda _path, number: lines.get(number)
    )
    assert finding.hints[0].startswith(f"Change {names} outside the compiled code")
    assert not any("each value of `Net.calls`" in hint for hint in finding.hints)
    assert "width" not in finding.title, "the call compiles again with the same width, too"


@pytest.mark.parametrize(
    ("source", "difference"),
    [
        ("options", "'scale' was in options, now it is not"),
        ("list(options)[0]", "key 0 of options was 'scale', now 'bias'"),
        ("", "len(options) was 1, now 2"),
    ],
)
def test_keys_are_those_of_the_dict(source: str, difference: str) -> None:
    changed = failed(difference, kind="DICT_KEYS", source=source, cause=GuardCause.KEYS)
    (finding,) = findings(report(recompiles=(again(changed),)))
    (hint,) = finding.hints
    assert hint == "Expect one compile for each difference in the keys of `options` that the code reads"


def test_a_set_has_elements() -> None:
    code = "not set.__contains__(L['seen'], 'a')"
    changed = failed("'a' was not in seen, now it is", source="seen", cause=GuardCause.KEYS, code=code)
    (finding,) = findings(report(recompiles=(again(changed),)))
    assert finding.hints[0] == (
        "Expect one compile for each difference in the elements of `seen` that the code reads"
    )


def test_a_counter_that_alone_failed_in_the_nearest_version_is_not_hidden_by_a_dtype_in_turn() -> None:
    """Calls in float32 and bfloat16 in turn, of a layer that counts the hits of its cache."""
    hits = _number("self.hits", "0", "1")
    wide, narrow = "x.dtype was float32, now bfloat16", "x.dtype was bfloat16, now float32"
    to_narrow, to_wide = (failed(text, source="x", cause=GuardCause.DTYPE) for text in (wide, narrow))
    first = again(entries=(Mismatch("0/0", (to_narrow, hits)),), compile_id="0/1")
    second = again(entries=(Mismatch("0/0", (hits,)), Mismatch("0/1", (to_wide,))), compile_id="0/2")
    second = dataclasses.replace(second, reasons=("0/1: tensor 'x' dtype mismatch",))
    shown = findings(report(recompiles=(first, second)))
    assert "recompiled: self.hits was 0, now 1" in {finding.title for finding in shown}


def test_a_new_cause_is_not_lost_where_an_old_one_failed_in_more_versions() -> None:
    first = again(_number("mode", "'a'", "'b'"))
    second = again(
        entries=(
            Mismatch("0/1", (_number("mode", "'b'", "'c'"),)),
            Mismatch("0/0", (_number("mode", "'a'", "'c'"),)),
        ),
        compile_id="0/2",
    )
    entries = (
        Mismatch("0/2", (_number("gain", "0.5", "0.25"),)),
        Mismatch("0/1", (_number("mode", "'b'", "'c'"),)),
        Mismatch("0/0", (_number("mode", "'a'", "'c'"),)),
    )
    shown = findings(report(recompiles=(first, second, again(entries=entries, compile_id="0/3"))))
    gain, mode = sorted(shown, key=lambda item: item.title)
    assert (mode.title, mode.count) == ("recompiled: mode was 'a', now 'b'", 2)
    assert (gain.title, gain.count) == ("recompiled: gain was 0.5, now 0.25", 1)
    assert "Later changes:\n- mode was 'b', now 'c'\n" in f"{mode.message}\n"
    assert "3 compiled versions existed; the comparison is with the most recent." in gain.message


def test_of_two_single_differences_the_most_recent_version_has_the_cause() -> None:
    source = failed("source was None, now a Source", source="source", cause=GuardCause.NONE)
    entries = (Mismatch("0/0", (_number("eta", "0.0", "0.3"),)), Mismatch("0/1", (source,)))
    (finding,) = findings(report(recompiles=(again(entries=entries, compile_id="0/2"),)))
    assert finding.title == "recompiled: source was None, now a Source"
    used_last = again(entries=entries, compile_id="0/2", reasons=("0/0: eta == 0.0", "0/1: source is None"))
    (finding,) = findings(report(recompiles=(used_last,)))
    assert finding.title == "recompiled: eta was 0.0, now 0.3"


def test_a_version_that_differs_in_less_is_compared_if_the_most_recent_one_differs_in_that_too() -> None:
    size = failed("x.size(0) was 4, now 7")
    recent = Mismatch("0/1", (_number("flag", "1", "2"), size))
    recompiled = again(entries=(Mismatch("0/0", (size,)), recent), compile_id="0/2")
    (finding,) = findings(report(recompiles=(recompiled,)))
    assert finding.title == "recompiled: x.size(0) was 4, now 7"
    assert "flag" not in finding.message
    assert "the comparison is with the nearest." in finding.message


def test_a_later_change_is_named_by_the_guard_that_its_finding_is_about() -> None:
    elsewhere = dataclasses.replace(_number("other", "1", "2"), born=())
    later = again(elsewhere, _number("k", "6", "7"), compile_id="0/2")
    (finding,) = findings(report(recompiles=(again(_number("k", "5", "6")), later)))
    assert "Later changes:\n- k was 6, now 7" in finding.message


def test_the_object_of_a_wrapped_method_is_self() -> None:
    wrapper = at(115, function="decorate_context")
    frames = (Frame("Net.forward", DEF, wrapper=wrapper),)
    compiles = (Compile("0/0", 0, Outcome.COMPILED), Compile("0/1", 0, Outcome.COMPILED))
    length = failed(
        "len(fn.__self__.queue) was 1, now 2", source="fn.__self__.queue", cause=GuardCause.LENGTH
    )
    (finding,) = findings(report(frames=frames, compiles=compiles, recompiles=(again(length),)))
    assert finding.title == "recompiled: len(self.queue) was 1, now 2"
    assert untried(finding) == ("Stack the tensors in `self.queue` into one tensor before the call",)


@pytest.mark.parametrize(
    ("line", "function", "name"),
    [
        ("self.calls += 1", "Probe.__call__", "Probe.calls"),
        ("if seen.calls < 3:", "Probe.__call__", "seen.calls"),
        ("self.calls = other.calls + 1", "Probe.__call__", HOOK),  # which of the two it is, nobody knows
    ],
)
def test_a_value_of_a_hook_has_the_name_of_the_line_that_reads_it(
    line: str, function: str, name: str
) -> None:
    read = at(22, (8, 8 + len(line)), function=function)
    counter = failed(f"{HOOK} was 0, now 3", source=HOOK, born=(read,), kind="EQUALS_MATCH")
    (finding,) = findings(
        report(recompiles=(again(counter),)), read_line=lambda _path, _line: f"        {line}"
    )
    assert finding.title == f"recompiled: {name} was 0, now 3"


def test_one_compile_is_expected_for_each_set_of_hooks() -> None:
    hook = failed("a forward hook of self.net was removed", source="self.net", cause=GuardCause.KEYS)
    (finding,) = findings(report(recompiles=(again(hook),)))
    assert finding.hints[0].startswith("Expect one compile with the hooks and one without")


@pytest.mark.parametrize(
    ("is_guarded", "symbols"), [(True, ()), (False, ()), (False, (Symbol("s0", "rate"),))]
)
def test_a_value_without_a_guard_in_the_next_version_needs_no_further_compile(
    symbols: tuple[Symbol, ...], *, is_guarded: bool
) -> None:
    """As one that the code assigns before it reads it; a value that is symbolic says so in other words."""
    rate = failed("rate was 0.5, now 0.25", kind="EQUALS_MATCH", source="rate", cause=GuardCause.NUMBER)
    guards = (Guard("CONSTANT_MATCH", "rate", ("L['rate'] == 0.5",)), Guard("TENSOR_MATCH", "x", ()))
    compiles = (
        Compile("0/0", 0, Outcome.COMPILED, guards=guards, guard_count=2),
        Compile("0/1", 0, Outcome.COMPILED, guards=guards[0 if is_guarded else 1 :], symbols=symbols),
    )
    (finding,) = findings(
        report(frames=(Frame("Net.forward", DEF),), compiles=compiles, recompiles=(again(rate),))
    )
    is_said = "Expect one extra compile: what torch compiled next does not check `rate`" in finding.hints
    assert is_said is (not is_guarded and not symbols)


def test_a_guard_that_fails_only_later_is_shown_with_what_to_do() -> None:
    """A counter and a list, which was empty at first: a tensor in the place of the counter leaves the list."""
    counter, more = _number("k", "0", "1"), _number("k", "1", "2")
    grown = failed(
        "len(self.seen) was 1, now 2", kind="LENGTH_CHECK", source="self.seen", cause=GuardCause.LENGTH
    )
    later = again(more, grown, compile_id="0/2")
    (finding,) = findings(report(recompiles=(again(counter), later)))
    assert "Guards that failed with them:\n- len(self.seen) was 1, now 2" in finding.message
    assert any("`self.seen`" in remedy.text for remedy in finding.remedies)
    (alone,) = findings(report(recompiles=(again(counter), again(more, compile_id="0/2"))))
    assert not any("self.seen" in text for text in (alone.message, *alone.hints))


def test_a_step_for_a_later_value_is_not_listed_twice() -> None:
    """Two entries of a list that waits for a break: both go with it."""
    first, later = (
        failed(
            f"order[{index}] was 1, now {index + 2}",
            "EQUALS_MATCH",
            f"order[{index}]",
            cause=GuardCause.NUMBER,
        )
        for index in (0, 1)
    )
    facts = report(
        frames=(Frame("Net.forward", DEF, resumes_at=25),),
        compiles=tuple(Compile(f"1/{number}", 0, Outcome.COMPILED) for number in (1, 2)),
        recompiles=(again(first, compile_id="1/1"), again(first, later, compile_id="1/2")),
    )
    (finding,) = findings(facts)
    assert len({*finding.hints}) == len(finding.hints)


def test_a_float_that_only_its_type_guards_stays_symbolic() -> None:
    """A running sum, which the graph does not compute with: no result fixes it."""
    total = failed("total was 0.5, now 0.75", kind="EQUALS_MATCH", source="total", cause=GuardCause.NUMBER)
    for kind, is_free in (("TYPE_MATCH", True), ("CONSTANT_MATCH", False)):
        guards = (Guard(kind, "total", ()),)
        compiled = Compile(
            "0/1", 0, Outcome.COMPILED, guards=guards, guard_count=1, symbols=(Symbol("zf0", "total"),)
        )
        facts = report(frames=(Frame("Net.forward", DEF),), compiles=(compiled,), recompiles=(again(total),))
        (finding,) = findings(facts)
        assert ("torch then made `total` dynamic" in finding.message) is is_free


def test_a_guard_that_torch_wrote_twice_is_listed_once_and_is_no_size() -> None:
    number = _number("k", "0", "1")
    same = failed("loss was 0.5, now 1.5", kind="EQUALS_MATCH", source="loss", cause=GuardCause.NUMBER)
    (finding,) = findings(report(recompiles=(again(number, same, dataclasses.replace(same, code="other")),)))
    assert "Other failed guards:\n- loss was 0.5, now 1.5\n" in f"{finding.message}\n"
    assert "more size" not in finding.message


def test_the_same_advice_is_not_given_again_for_another_value() -> None:
    carried = [
        failed(f"{name} was 0.5, now 0.75", kind="EQUALS_MATCH", source=name, cause=cause)
        for name, cause in (("___stack0", GuardCause.NUMBER), ("___stack1", GuardCause.VALUE))
    ]
    frames = (Frame("Net.forward", DEF, resumes_at=25),)
    compiles = (Compile("1/1", 0, Outcome.COMPILED),)
    facts = report(frames=frames, compiles=compiles, recompiles=(again(*carried, compile_id="1/1"),))
    (finding,) = findings(facts)
    assert len({*finding.hints}) == len(finding.hints)


def test_objects_that_are_one_are_not_called_tensors() -> None:
    same = failed("task and tasks[0] were the same object, now they are not", cause=GuardCause.ALIASING)
    (finding,) = findings(report(recompiles=(again(same),)))
    assert not any("tensor" in hint for hint in finding.hints)
    views = failed("x and y are the same tensor now, which they were not", cause=GuardCause.ALIASING)
    (finding,) = findings(report(recompiles=(again(views),)))
    assert "the same tensor or views of it" in finding.hints[0]


def test_objects_that_are_keys_are_counted_over_all_versions() -> None:
    keys = [
        failed(
            f"list(self.slots)[{n}] and part were the same object, now they are not",
            source="",
            cause=GuardCause.ALIASING,
        )
        for n in range(4)
    ]
    recompiles = tuple(
        again(
            keys[n - 1],
            compile_id=f"0/{n}",
            entries=tuple(Mismatch(f"0/{m}", (keys[m],)) for m in reversed(range(n))),
        )
        for n in range(1, 5)
    )
    (finding,) = findings(report(recompiles=recompiles))
    assert finding.hints[0] == "Expect one compile for each object that is looked up: 5 in this run"


@pytest.mark.parametrize(
    ("line", "compares"),
    [
        ("if task is tasks[0]:", True),
        ("return left is not right", True),
        ("if task is None or task.size > 2:", False),
        ("names.append(this_is_it)", False),
    ],
)
def test_a_comparison_by_is_says_that_one_outcome_has_no_guard(line: str, compares: bool) -> None:  # noqa: FBT001
    same = failed(
        "task and tasks[0] were the same object, now they are not", cause=GuardCause.ALIASING, born=(at(3),)
    )
    (finding,) = findings(report(recompiles=(again(same),)), read_line=lambda _path, _line: line)
    assert any("no guard that they are two" in hint for hint in finding.hints) is compares


def test_a_number_that_two_lines_read_is_one_finding() -> None:
    """torch guards on the first read of each compile, which may be another line, or one inside a library."""
    first = failed("self.scale was 5, now 4", "EQUALS_MATCH", "self.scale", born=(at(38, (8, 20)),))
    later = failed("self.scale was 4, now 3", "EQUALS_MATCH", "self.scale", born=(at(32, (8, 20)),))
    (finding,) = findings(report(recompiles=(again(first), again(later, compile_id="0/2"))))
    assert (finding.span.line, finding.count) == (38, 2)
    assert "self.scale was 4, now 3 (read on line 32)" in finding.message
    other = failed("self.other was 4, now 3", "EQUALS_MATCH", "self.other", born=(at(38, (8, 20)),))
    assert len(findings(report(recompiles=(again(first), again(other, compile_id="0/2"))))) == 2


def test_a_number_that_a_library_reads_is_a_finding_on_each_call_of_the_user() -> None:
    first = failed("mode was 0, now 1", "EQUALS_MATCH", "mode", born=())
    later = failed("mode was 1, now 2", "EQUALS_MATCH", "mode", born=())
    inside = at(9, path=LIBRARY)
    calls = (
        again(first, location=inside, caller=(at(40, function="main"),)),
        again(later, location=inside, caller=(at(41, function="main"),), compile_id="0/2"),
    )
    assert [finding.span.line for finding in findings(report(recompiles=calls))] == [40, 41]


def test_nothing_is_expected_of_a_value_for_which_there_is_a_step() -> None:
    """After the step no compile is left for it, neither for None nor for each value."""
    lines = {20: "def forward(self, x):", 21: "    if self.grid is None or self.grid != x.shape:",
             22: "        self.grid = x.shape", 23: "    return x"}  # fmt: skip
    born = (at(21, function="forward"),)
    none = failed("self.grid was None, now (2, 3)", source="self.grid", cause=GuardCause.NONE, born=born)
    other = failed("self.grid was (2, 3), now (4, 5)", source="self.grid", cause=GuardCause.VALUE, born=born)
    given = report(recompiles=(again(none), again(other, compile_id="0/2")))
    shown = findings(given, read_line=lambda _path, number: lines.get(number))
    hints = [hint for item in shown if item.code == "FL201" for hint in item.hints]
    assert hints[0].startswith("Run the `if` on line 21")
    assert not any("xpect" in hint for hint in hints)
