"""Advice for a guarded value by what it is: a string, a switch, a counter, a grad mode, new state of an optimizer."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from fuselight.shared.report import (
    GuardCause,
    GuardFailure,
    Location,
    Mismatch,
    NotCompiled,
    NotCompiledKind,
    Report,
)
from fuselight_server.base.finding import Finding, Severity
from fuselight_server.explain.findings import findings
from fuselight_server.explain.findings.common.text import label
from tests.support.recompilations import DEF, again, failed
from tests.support.reports import at, report

ADAM = Location("/env/lib/python3.11/site-packages/torch/optim/adam.py", 215, function="step")


def shown(facts: Report, body: str = "return x + 1", code: str = "FL201") -> Finding:
    text = [
        "    def forward(self, x):",
        "        x = x.sin()",
        *(f"        {line}" for line in body.split("\n")),
    ]
    lines = {DEF.line + number: f"{line}\n" for number, line in enumerate(text)}
    return next(
        finding
        for finding in findings(facts, read_line=lambda _path, line: lines.get(line))
        if finding.code == code
    )


def text(was: str = "'left'", now: str = "'right'", source: str = "self.side") -> GuardFailure:
    return failed(
        f"{source} was {was}, now {now}",
        kind="EQUALS_MATCH",
        source=source,
        cause=GuardCause.VALUE,
        was=was,
        now=now,
    )


def of_each_object(*failures: GuardFailure, **parts: Any) -> Report:
    return report(recompiles=(again(entries=(Mismatch("0/0", failures, other_object=True),)),), **parts)


def test_what_a_string_selects_is_passed_in() -> None:
    finding = shown(of_each_object(text()), "return self.proj(self.rows[self.side])")
    assert finding.hints[0].startswith(
        "Compute `self.rows[self.side]` outside the compiled code, and pass it in as a tensor: compiled code"
    )
    assert "`self.side` as a tensor" not in finding.message


def test_each_entry_that_a_string_selects_is_passed_in() -> None:
    body = "return x * self.gain[self.side] + BIAS[self.side] * self.gain[self.side]"
    hint = shown(of_each_object(text()), body).hints[0]
    assert hint.startswith(
        "Compute `self.gain[self.side]` and `BIAS[self.side]` outside the compiled code, and pass them in, each as"
    )


@pytest.mark.parametrize(
    "body",
    [
        "return ACT[self.side](x)",
        "act = ACT[self.side]\nreturn act(x)",
        "self.cells[self.side] = x",
        "self.cells[self.side] += x",
        "if self.side in self.names:\n    x = x * self.gain[self.side]\nreturn x",
        "return ACT[self.side](x * self.gain[self.side])",
    ],
    ids=["called", "called by a name", "written", "added to", "tested too", "one of two called"],
)
def test_a_string_that_does_more_than_select_values_is_not_replaced_by_what_it_selects(body: str) -> None:
    finding = shown(of_each_object(text()), body)
    assert finding.hints[0] == "Expect one compile for each string: `'left'` and `'right'` so far"


def test_the_limit_of_strings_names_the_limit_once() -> None:
    stopped = again(compile_id=None, entries=(Mismatch("0/0", (text(),), other_object=True),))
    limit = NotCompiled(NotCompiledKind.RECOMPILE_LIMIT, "Net.forward", DEF, "limit reached (8)")
    finding = shown(report(recompiles=(stopped,), not_compiled=(limit,)), code="FL102")
    assert sum("recompile_limit" in remedy.text for remedy in finding.remedies) == 1


@pytest.mark.parametrize(
    ("failure", "advised"),
    [
        (text(source="mode"), "Expect one compile for each string"),
        (text("True", "False", source="flag"), "1 possible change is not tried yet"),
        (text("False", "True"), "2 possible changes are not tried yet"),
        (text("False", "True", source="flag"), "1 possible change is not tried yet"),
    ],
)
def test_a_string_has_one_compile_for_each_value_and_a_switch_may_be_a_tensor(
    failure: GuardFailure, advised: str
) -> None:
    finding = shown(report(recompiles=(again(failure),)))
    assert finding.hints[0].startswith(advised)


GRAD = failed("grad mode was on, now off", source="", born=(), cause=GuardCause.GLOBAL_STATE)


@pytest.mark.parametrize(
    "others", [(), (failed("x.size(0) was 8, now 1"),), (failed("x.size(0) was 8, now 16"),)]
)
def test_each_grad_mode_is_expected_to_be_compiled(others: tuple[GuardFailure, ...]) -> None:
    finding = shown(report(recompiles=(again(GRAD, *others),)))
    assert finding.severity is Severity.INFORMATION
    assert (
        finding.hints[0]
        == "Expect one compile for each grad mode: training and evaluation need different code"
    )


def test_autocast_that_is_off_in_an_evaluation_is_part_of_its_mode() -> None:
    both = dataclasses.replace(GRAD, difference="autocast was on, now off; grad mode was on, now off")
    assert shown(report(recompiles=(again(both),))).severity is Severity.INFORMATION


def test_another_setting_of_torch_is_a_warning() -> None:
    autocast = dataclasses.replace(GRAD, difference="autocast was off, now on")
    finding = shown(report(recompiles=(again(autocast),)))
    assert finding.severity is Severity.WARNING
    assert finding.hints == ("Expect one compile for each state of torch that the calls run in",)


def state(difference: str, cause: GuardCause, source: str = "self.state") -> Report:
    was, _, now = difference.partition(" was ")[2].partition(", now ")
    failure = failed(difference, source=source, cause=cause, was=was or None, now=now or None, born=())
    return report(recompiles=(again(failure, location=ADAM, caller=(at(30),)),))


@pytest.mark.parametrize(
    ("difference", "cause"),
    [
        ("len(self.state[list(self.state)[0]]) was 0, now 3", GuardCause.LENGTH),
        ("self.state was empty, now a dict of 4", GuardCause.LENGTH),
        ("self.state[list(self.state)[0]]['momentum_buffer'] was None, now a tensor", GuardCause.NONE),
    ],
)
def test_the_state_that_the_first_step_creates_is_expected(difference: str, cause: GuardCause) -> None:
    finding = shown(state(difference, cause))
    assert finding.severity is Severity.INFORMATION
    (hint,) = finding.hints
    assert hint == (
        "Expect one extra compile: the first step creates the optimizer's state, which did not exist at the first "
        "compile, and later steps find it"
    )


def test_state_that_the_first_step_creates_comes_before_a_rate_that_changed_too() -> None:
    rate = failed("opt.param_groups[0]['lr'] was 0.1, now 0.05", source="opt.param_groups[0]['lr']")
    new = failed("opt.state was not created yet, now it is", source="opt.state", is_new_state=True)
    finding = shown(report(recompiles=(again(rate, new),)))
    assert finding.title == "recompiled: opt.state was not created yet, now it is"
    assert finding.severity is Severity.INFORMATION
    assert "opt.param_groups[0]['lr'] was 0.1, now 0.05" in finding.message


def test_state_that_changes_later_is_a_warning() -> None:
    finding = shown(state("len(self.state) was 3, now 4", GuardCause.LENGTH))
    assert finding.severity is Severity.WARNING


CACHED = "torch ignores the cache of `table` in compiled code, and runs its body in each call."
OUTSIDE = "Call `table` outside the compiled code and pass its result in, as its cache works there"


@pytest.mark.parametrize(
    ("decorator", "statement", "source", "is_named", "is_outside"),
    [
        ("@functools.cache", "built += 1", "built", True, True),
        ("@lru_cache(maxsize=8)", "counts['table'] += size", "counts['table']", True, True),
        ("@functools.lru_cache", "built.append(size)", "built", True, True),
        ("@cache\n@torch.no_grad()", "built = built + 1", "built", True, True),
        ("@cache", "return torch.arange(size) * scale", "scale", True, False),
        ("@functools.wraps(f)", "built += 1", "built", False, False),
        ("@cache_results", "built += 1", "built", False, False),
        ("# @cache", "built += 1", "built", False, False),
    ],
)
def test_a_function_whose_cache_torch_ignores_is_called_outside(
    *, decorator: str, statement: str, source: str, is_named: bool, is_outside: bool
) -> None:
    text = [*decorator.split("\n"), "def table(size):", f"    {statement}", "    return size"]
    lines = {number: f"{line}\n" for number, line in enumerate(text, 40)}
    read = at(40 + text.index("def table(size):") + 1, function="table")
    changed = failed(f"{source} was 0, now 1", kind="EQUALS_MATCH", source=source, born=(at(22), read))
    (finding,) = findings(report(recompiles=(again(changed),)), read_line=lambda _path, line: lines.get(line))
    assert (CACHED in finding.message) is is_named
    assert (OUTSIDE in finding.hints) is is_outside
    assert any("as a tensor" in remedy.text for remedy in finding.remedies) is not is_outside


def of_strings(*pairs: tuple[str, str]) -> Report:
    changed = (text(f"'{was}'", f"'{now}'", source="mode") for was, now in pairs)
    return report(recompiles=tuple(again(item, compile_id=f"0/{n}") for n, item in enumerate(changed, 1)))


def test_a_string_that_selects_nothing_lists_what_it_was() -> None:
    (few,) = shown(of_strings(("train", "eval"), ("eval", "test"))).hints
    assert few == "Expect one compile for each string: `'train'`, `'eval'` and `'test'` so far"
    names = [
        (f"image {n} of the validation set, in the order of the loader", f"image {n + 1} of the")
        for n in range(4)
    ]
    expected, outside = shown(of_strings(*names)).hints
    assert "`'image 0 of the validation set,\N{HORIZONTAL ELLIPSIS}'`" in expected
    assert "outside the compiled code" in outside


@pytest.mark.parametrize(
    ("body", "step"),
    [
        (
            "ids = [ord(letter) for letter in mode]\nreturn x[ids]",
            "Compute `[ord(letter) for letter in mode]`",
        ),
        ("for word in mode.lower().split():\n    x = x + len(word)\nreturn x", "Make numbers of `mode`"),
        ("return x + torch.tensor(list(mode.encode()))", "Compute `list(mode.encode())`"),
        ("n = len(mode)\nreturn x[:n] * mode.count('a')", "Compute `len(mode)` and `mode.count('a')`"),
        ("return x * self.rows.get(mode, 1)", "Compute `self.rows.get(mode, 1)`"),
        ("return x * len(mode) + self.norm(mode)", ""),
        ("return x * 2 if mode.startswith('t') else x", "Compute `mode.startswith('t')`"),
        ("return x * 2 if len(mode) > 4 else x", ""),
        ("mode.clear()\nreturn x * len(mode)", ""),
        ("for layer in self.layers:\n    x = layer(x) if mode == 'train' else x\nreturn x", ""),
        ("for layer in self.layers[mode]:\n    x = layer(x)\nreturn self.last[mode](x)", ""),
        ("for layer in self.pick(mode):\n    x = layer(x)\nreturn x", ""),
        ("return x + torch.tensor(1.0 if mode == 'train' else 0.0)", ""),
    ],
)
def test_a_string_of_which_code_makes_numbers_is_read_outside(body: str, step: str) -> None:
    hints = shown(of_strings(("train", "eval"), ("eval", "test"), ("test", "a"), ("a", "b")), body).hints
    assert hints[0].startswith(
        f"{step} outside the compiled code, and pass" if step else "Expect one compile"
    )
    assert hints[0].endswith("This change of the code cannot be tried here") is bool(step)
    assert len(hints) == (1 if step else 2)


@pytest.mark.parametrize(
    ("body", "texts"),
    [
        ("return {f'{mode}/loss': x}", "`f'{mode}/loss'`"),
        ("y = x * 2\nreturn y, [f'{mode}', f'last {mode}']", "`f'{mode}'` and `f'last {mode}'`"),
        ("key = f'{mode}/a'\nreturn x * self.rows[key]", ""),
        ("print(f'{mode}')\nreturn x", ""),
        ("return {f'{mode}/loss': x * self.rows[mode]}", ""),
    ],
)
def test_a_text_that_is_only_returned_is_made_after_the_call(body: str, texts: str) -> None:
    hints = shown(of_strings(("train_0", "train_1"), ("train_1", "train_2")), body).hints
    assert hints[0].startswith(f"Make {texts} outside the compiled code: return what") is bool(texts), hints
    assert (len(hints) == 1 and hints[0].endswith("cannot be tried here")) or not texts


def test_the_keys_that_differ_are_those_of_the_dict() -> None:
    gone = failed("rows had the key 'a', now it has not", source="rows['a']", cause=GuardCause.KEYS)
    (expected,) = shown(report(recompiles=(again(gone),))).hints
    assert "in the keys of `rows` that" in expected


def test_a_long_title_is_cut_and_stands_in_full_in_the_message() -> None:
    prompts = ("a photo of a cat on a chair, " * 6, "a painting of a very long dog, " * 6)
    finding = shown(of_strings(prompts))
    assert len(finding.title) <= 160
    assert finding.title.startswith("recompiled: mode was 'a photo of a cat on a chair, a")
    assert finding.title.endswith("\N{HORIZONTAL ELLIPSIS}'")
    assert f"In full: recompiled: mode was '{prompts[0]}', now '{prompts[1]}'" in " ".join(
        finding.message.split("\n")
    )


@pytest.mark.parametrize(
    ("title", "shown_label"),
    [
        (
            "torch's text isn't a string " * 6,
            "torch's text isn't a string " * 5 + "torch's text isn't\N{HORIZONTAL ELLIPSIS}",
        ),
        ("the list `" + "x, " * 80 + "`", "the list `" + "x, " * 49 + "x\N{HORIZONTAL ELLIPSIS}`"),
        ("short '" + "a" * 100 + "'", "short '" + "a" * 100 + "'"),
    ],
)
def test_a_label_cuts_nothing_that_is_no_string_but_the_end(title: str, shown_label: str) -> None:
    assert label(title) == shown_label


@pytest.mark.parametrize(
    ("was", "now", "other"),
    [("None", "'a'", "string"), ("'a'", "None", "string"), ("None", "a list of 2", "other kind")],
)
def test_a_string_in_the_place_of_none_has_a_compile_for_each(was: str, now: str, other: str) -> None:
    failure = failed(f"name was {was}, now {now}", source="name", cause=GuardCause.NONE, was=was, now=now)
    finding = shown(report(recompiles=(again(failure),)))
    assert finding.hints[0].startswith(f"Expect one compile for `name` as None, and one for each {other}")


def test_flags_of_a_list_that_a_loop_reads_are_no_numbers_to_make_outside() -> None:
    flag = failed(
        "mode[0] was True, now False", source="mode[0]", cause=GuardCause.VALUE, was="True", now="False"
    )
    finding = shown(
        report(recompiles=(again(flag),)),
        "for layer, k in zip(self.layers, mode):\n    x = layer(x) if k else x",
    )
    assert not any("outside" in remedy.text for remedy in finding.remedies)
