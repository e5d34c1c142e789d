"""torch's texts of guards that failed, as failures of guards with the values that the texts contain."""

from __future__ import annotations

import pytest

from fuselight.shared.report import GuardCause, Location, SizeChange
from fuselight_server.jobs.reports.guard_reasons import GuardOrigins, read_mismatches
from fuselight_server.jobs.trace_log.model import LogFrame, LoggedSymbol

EQUAL = "they had the same size when it was compiled, so torch took them for equal"
ORIGINS = GuardOrigins((), frozenset({"/job/net.py", "/job/other.py", "/job/sub/other.py"}), tuple)


@pytest.mark.parametrize(
    ("text", "difference", "was", "now", "cause"),
    [
        (
            "tensor 'L['x']' size mismatch at index 1. expected 4, actual 7",
            "x.size(1) was 4, now 7",
            "4",
            "7",
            "dimension",
        ),
        (
            "tensor 'x' stride mismatch at index 0. expected 8, actual 1",
            "x.stride(0) was 8, now 1",
            "8",
            "1",
            "stride",
        ),
        ("tensor 'x' rank mismatch. expected 2, actual 3", "x.dim() was 2, now 3", "2", "3", "rank"),
        (
            "tensor 'x' dtype mismatch. expected Float, actual BFloat16",
            "x.dtype was float32, now bfloat16",
            "float32",
            "bfloat16",
            "dtype",
        ),
        (
            "tensor 'x' requires_grad mismatch. expected requires_grad=0",
            "x.requires_grad was False, now True",
            "False",
            "True",
            "requires_grad",
        ),
        (
            "tensor 'self.weight' requires_grad mismatch. expected requires_grad=1. Guard failed on a parameter, use",
            "self.weight.requires_grad was True, now False",
            "True",
            "False",
            "requires_grad",
        ),
        (
            "tensor 'x' dispatch key set mismatch. expected DispatchKeySet(CPU, AutogradCPU), actual (CPU, Conjugate)",
            "the dispatch keys of x changed, now with Conjugate and without AutogradCPU",
            None,
            None,
            "dispatch",
        ),
        ("tensor 'x' does something new", "x: does something new", None, None, "other"),
        (
            "expected type of 'x' to be a tensor type, ' but found <class 'NoneType'>",
            "x was a tensor, now None",
            "a tensor",
            "None",
            "none",
        ),
        (
            "expected type of 'x' to be a tensor type, ' but found <class '__main__.Tagged'>",
            "the type of x changed, now Tagged",
            None,
            "Tagged",
            "type",
        ),
        ("L['self'].scale == 1.0", "self.scale is no longer 1.0", "1.0", None, "number"),
        ("L['name'] == 'sin'", "name is no longer 'sin'", "'sin'", None, "value"),
        ("L['self'].training == True", "self.training is no longer True", "True", None, "training"),
        ("L['bias'] == None", "bias is no longer None", "None", None, "none"),
        ("L['bias'] is None", "bias is no longer None", None, None, "none"),
        ("len(L['xs']) == 1", "len(xs) is no longer 1", "1", None, "length"),
        (
            "len(L['self'].layers._modules) != 1",
            "len(self.layers._modules) is no longer 1",
            "1",
            None,
            "length",
        ),
        ("not L['rest']", "rest was empty or false, now it is not", None, None, "length"),
        ("not ___dict_contains('b', L['options'])", "'b' was not in options, now it is", None, None, "keys"),
        (
            "not ___dict_contains(('a b', 5), G['_sizes'])",
            "('a b', 5) was not in _sizes, now it is",
            None,
            None,
            "keys",
        ),
        ("set.__contains__(L['names'], 'a')", "'a' was in names, now it is not", None, None, "keys"),
        ("not hasattr(L['thing'], 'scale')", "thing.scale was absent, now it is set", None, None, "missing"),
        (
            "___check_type_id(L['xs'], 139889176048448), type=<class 'list'>",
            "the type of xs is no longer list",
            "list",
            None,
            "type",
        ),
        (
            "___check_obj_id(L['f'], 139), type=<class 'function'>",
            "f is another object than before",
            None,
            None,
            "object",
        ),
        ("2 <= L['x'].size()[0] <= 8", "2 <= x.size(0) <= 8 no longer holds", None, None, "relation"),
        (
            "L['y'].size()[0] == L['x'].size()[0]  # duck sizing added this equality because",
            f"y.size(0) == x.size(0) no longer holds ({EQUAL})",
            None,
            None,
            "relation",
        ),
        ("GLOBAL_STATE changed: grad_mode ", "grad mode changed", None, None, "global_state"),
        (
            "GLOBAL_STATE changed: num_threads default_dtype ",
            "the number of threads and the default dtype changed",
            None,
            None,
            "global_state",
        ),
        (
            "___check_torch_function_mode_stack()",
            "the stack of torch function modes is another one",
            None,
            None,
            "global_state",
        ),
        (
            "BACKEND_MATCH failure: torch.compile detected different backend callables. Cached backend: x == 1",
            "compiled before with another backend, mode or options of torch.compile",
            None,
            None,
            "backend",
        ),
        ("L['self'].backend == 'nccl'", "self.backend is no longer 'nccl'", "'nccl'", None, "value"),
        ("something(new)", "something(new) no longer holds", None, None, "other"),
        ("", " no longer holds", None, None, "other"),
    ],
)
def test_a_text_is_what_differs_with_the_values_that_it_has(
    text: str, difference: str, was: str | None, now: str | None, cause: str
) -> None:
    (mismatch,) = read_mismatches([f"0/0: {text}"], ORIGINS)
    (failure,) = mismatch.failures
    assert mismatch.compile_id == "0/0"
    assert (failure.difference, failure.was, failure.now, failure.cause) == (
        difference,
        was,
        now,
        GuardCause(cause),
    )


def test_a_size_that_changed_is_known_as_one() -> None:
    (mismatch,) = read_mismatches(["0/0: tensor 'x' size mismatch at index 1. expected 4, actual 7"], ORIGINS)
    assert mismatch.failures[0].sizes == (SizeChange("x", 1, 4, 7),)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("L['n'] == 2  # return x * n  # ob/net.py:12 in forward", 12),
        (
            "L['n'] == 2  # return x * n  # ob/net.py:12 in forward (HINT: torch.compile considers integers)",
            12,
        ),
        ('L["n"] == 2\nUser stack trace:\n  File "/job/net.py", line 13, in forward\n    return x * n', 13),
        ("L['n'] == 2  # return x * n  # other.py:12 in forward", None),
        ("L['n'] == 2", None),
    ],
    ids=["a comment", "a comment with a hint", "a stack", "a file of two with this end", "nothing"],
)
def test_the_origin_of_a_guard_is_where_the_text_says(text: str, line: int | None) -> None:
    (mismatch,) = read_mismatches([f"0/0: {text}"], ORIGINS)
    born = mismatch.failures[0].born
    assert [place.line for place in born] == ([] if line is None else [line])
    assert all(place == Location("/job/net.py", line or 0, function="forward") for place in born)


def test_a_size_that_became_dynamic_names_the_line_that_read_it() -> None:
    read = (LogFrame("/job/net.py", 9, "forward"),)
    symbol = LoggedSymbol("s0", "7", "L['x'].size()[0]", None, read)
    origins = GuardOrigins((symbol,), ORIGINS.paths, tuple)
    (mismatch,) = read_mismatches(["0/0: tensor 'x' size mismatch at index 0. expected 4, actual 7"], origins)
    assert mismatch.failures[0].born == (Location("/job/net.py", 9, function="forward"),)


def test_the_nearest_entry_comes_first() -> None:
    """torch checks a tensor's dtype before its rank, and its rank before its sizes."""
    reasons = [
        "0/3: tensor 'x' dtype mismatch. expected Int, actual Float",
        "0/2: tensor 'x' rank mismatch. expected 2, actual 1",
        "0/1: tensor 'x' size mismatch at index 0. expected 4, actual 7",
        "0/0: tensor 'x' dtype mismatch. expected Double, actual Float",
    ]
    assert [mismatch.compile_id for mismatch in read_mismatches(reasons, ORIGINS)] == [
        "0/1",
        "0/2",
        "0/3",
        "0/0",
    ]
