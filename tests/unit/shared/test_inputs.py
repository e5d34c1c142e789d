"""Directives: the values that they create. A wrong directive is an error on its exact columns, never a traceback."""

# ruff: noqa: PT017 - a property holds of the error, should there be one

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuselight.shared.inputs import (
    DTYPES,
    DirectiveError,
    Evaluator,
    TensorSpec,
    UserCallError,
    describe_call,
    parse_directive,
    split_options,
)
from fuselight.shared.inputs.corrections import tensor_lookalikes
from fuselight.shared.inputs.describe import device_option


def arguments(text: str, **names: Any) -> tuple[list[Any], dict[str, Any]]:
    directive = parse_directive(text)
    evaluator = Evaluator(directive, names, lambda spec: spec)
    return evaluator.arguments(directive.call.args, tuple(directive.call.keywords))


def error(text: str, **names: Any) -> tuple[str, str]:
    """The message, and the part of the text that the range covers."""
    with pytest.raises(DirectiveError) as raised:
        arguments(text, **names)
    directive_error = raised.value
    return directive_error.message, text.encode()[directive_error.start : directive_error.end].decode()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("f32[4, 128]", TensorSpec("float32", (4, 128))),
        ("i64[8] % 100", TensorSpec("int64", (8,), 100)),
        ("bf16[]", TensorSpec("bfloat16", ())),
        ("f32[()]", TensorSpec("float32", ())),
        ("bool[2]", TensorSpec("bool", (2,))),
        ("f32[n, n * 2]", TensorSpec("float32", (3, 6))),
        ("[f32[], None]", [TensorSpec("float32", ()), None]),
        ("f32[].shape.count(1)", 0),
        ("{'a': (1, -2.5), 'b': {1, 2}}", {"a": (1, -2.5), "b": {1, 2}}),
        ("'f32[]'", "f32[]"),
        ("bool()", False),
        ("len('abc') + n", 6),
        ("items[1:]", [2, 3]),
        ("float('inf')", float("inf")),
    ],
)
def test_values(text: str, value: object) -> None:
    assert arguments(f"f({text})", n=3, items=[1, 2, 3]) == ([value], {})


@pytest.mark.parametrize("short", sorted(DTYPES))
def test_every_dtype_makes_a_tensor(short: str) -> None:
    assert arguments(f"f({short}[2])") == ([TensorSpec(DTYPES[short], (2,))], {})
    assert arguments(f"f({short}[])") == ([TensorSpec(DTYPES[short], ())], {})


def test_stars_spread() -> None:
    assert arguments("f(*xs, k=1, **more)", xs=(1, 2), more={"m": 3}) == ([1, 2], {"k": 1, "m": 3})


@pytest.mark.parametrize(
    ("text", "part", "word"),
    [
        ("", "", "expected a call"),
        ("Net", "Net", "expected a call"),
        ("f32[4]", "f32[4]", "expected a call"),
        ("f32[]", "f32[]", "expected a call"),
        ("f(lambda: 1)", "lambda: 1", "a lambda"),
        ("f(é, i64[3] % 0)", "0", "1 or more"),
        ("f(f32[3] % 5)", "f32[3] % 5", "bounds integers"),
        ("f(f32[-1])", "-1", "whole number"),
        ("f(f32[1.5])", "1.5", "whole number"),
        ("f(f32[1:])", "1:", "not slices"),
        ("f('é', Q)", "Q", "no name `Q`"),
        ("f(f32)", "f32", "needs a shape"),
        ("f(f32[n])", "n", "not 'three'"),
        ("f(**n)", "n", "takes a dict"),
        ("f(1 < 2)", "1 < 2", "a comparison"),
        ("f(f32[2] > 0)", "f32[2] > 0", "`i64[8] % 32` are integers below 32"),
        ("step", "step", "as `step(f32[4, 8])`"),
        ("Net", "Net", "as `Net()(f32[4, 8])`"),
        ("(f32[2,3], None)", "(f32[2,3], None)", "as `step(f32[2, 3], None)`"),
        ("f(f32[2]), f(f32[3])", "f(f32[2]), f(f32[3])", "a `# fuselight:` line for each"),
        ("f(f32[0..3])", "0..3", "invalid syntax"),
        ("f(x := 1)", "x := 1", "an assignment"),
        ("f(f'{1}')", "f'{1}'", "an f-string"),
    ],
)
def test_errors_are_on_their_columns(text: str, part: str, word: str) -> None:
    message, covered = error(text, n="three")
    assert word in message
    assert covered == part


@pytest.mark.parametrize(
    ("text", "part", "spelled"),
    [
        # Integers below a number
        ("f(i64[8]<32)", "i64[8]<32", "i64[8] % 32"),
        ("f(i64[8] <= 31)", "i64[8] <= 31", "i64[8] % 32"),
        ("f(i64[8] <= n)", "i64[8] <= n", "i64[8] % (n + 1)"),
        ("f(i64[8]:32)", "i64[8]:32", "i64[8] % 32"),
        ("f(i64[8] in range(32))", "i64[8] in range(32)", "i64[8] % 32"),
        ("f(i64[8] 32, 1)", "i64[8] 32", "i64[8] % 32"),
        ("f(i64[8]{32})", "i64[8]{32}", "i64[8] % 32"),
        ("f(i64[8; 0:32])", "i64[8; 0:32]", "i64[8] % 32"),
        ("f(i64[8, 2; :32])", "i64[8, 2; :32]", "i64[8, 2] % 32"),
        ("f(i32[n, 5:9], 1)", "i32[n, 5:9]", "i32[n] % 4 + 5"),
        ("f(bf16[8; 0:2])", "bf16[8; 0:2]", "bf16[8].uniform_(0, 2)"),
        ("f(i64[8] mod n)", "i64[8] mod n", "i64[8] % n"),
        # Shapes
        ("f(f32[2 3])", "f32[2 3]", "f32[2, 3]"),
        ("f('é', f32[2x3])", "f32[2x3]", "f32[2, 3]"),
        ("f(f32[2;3])", "f32[2;3]", "f32[2, 3]"),
        ("f(f32[2:3])", "f32[2:3]", "f32[2, 3]"),
        ("f(f32[[2, 3]])", "f32[[2, 3]]", "f32[2, 3]"),
        ("f(f32<2,3>)", "f32<2,3>", "f32[2, 3]"),
        ("f(f32{2,3})", "f32{2,3}", "f32[2, 3]"),
        ("f(f32[batch=2, n])", "f32[batch=2, n]", "f32[2, n]"),
        # Dtypes
        ("f(float32[2, 3])", "float32[2, 3]", "f32[2, 3]"),
        ("f(torch.float32[2, 3])", "torch.float32[2, 3]", "f32[2, 3]"),
        ("f(float[2])", "float[2]", "f32[2]"),
        ("f(long[n])", "long[n]", "i64[n]"),
        ("f(F32[2])", "F32[2]", "f32[2]"),
        ("f(f31[2])", "f31[2]", "f32[2]"),
        ("f(g32[2])", "g32[2]", "f32[2]"),
        ("f(Tensor(2, 3))", "Tensor(2, 3)", "f32[2, 3]"),
        ("f(tensor([2, 3]))", "tensor([2, 3])", "f32[2, 3]"),
        ("f(f32(2, 3))", "f32(2, 3)", "f32[2, 3]"),
        # Brackets and commas
        ("f(f32[2,3]", "(", "f(f32[2,3])"),
        ("f(f32[2,3)", ")", "])"),
        ("f(i64[2,3) % 4", ")", "]"),
        ("f(f32[2]; f32[3])", ";", ","),
        # Arguments and options
        ("f(x: f32[2])", "x: f32[2]", "x=f32[2]"),
        ("f(1, x f32[2])", "x f32[2]", "x=f32[2]"),
        ("f(f32[2] = x)", "f32[2] = x", "x=f32[2]"),
        ("f(f32[2] requires_grad)", "f32[2] requires_grad", "f32[2], no_grad=False"),
        ("f(f32[2]@cpu)", "f32[2]@cpu", 'device="cpu"'),
        ("f(f32[2]) cuda", None, 'f(f32[2], device="cuda")'),
        ("f(f32[2]) train=True", None, "f(f32[2], train=True)"),
        ("f(cpu)", "cpu", '"cpu"'),
        ("f({mask: f32[2]})", "mask", '"mask"'),
        ("f(true)", "true", "True"),
        ("f(f32[2], training)", "training", "training=True"),
        # The call
        ("f f32[2,3]", None, "f(f32[2,3])"),
        ("f: f32[2,3]", None, "f(f32[2,3])"),
        ("Net() f32[2,3]", None, "Net()(f32[2,3])"),
        ("f[f32[2,3]]", None, "f(f32[2,3])"),
        ("y = f(f32[2,3])", None, "f(f32[2,3])"),
        # Two faults
        ("f(f32[2x3], i64[8] < 32)", "f32[2x3]", "f32[2, 3]"),
        ("f(f32[2 3]", "f32[2 3]", "f32[2, 3]"),
    ],
)
def test_a_wrong_part_has_the_nearest_right_spelling(text: str, part: str | None, spelled: str) -> None:
    message, covered = error(text, n=3, f=None, Net=None)
    assert f"`{spelled}`" in message
    assert covered == (text if part is None else part)


@pytest.mark.parametrize(
    ("text", "part", "message"),
    [
        ("f(f32[2]))", ")", "`)` closes nothing: leave it out"),
        ("f(f32[2] f32[3])", " ", "a comma is missing between `f32[2]` and `f32[3]`"),
        ("f(f32[2] train=True)", " ", "a comma is missing between `f32[2]` and `train=True`"),
        ("f(f32[BATCH])", "BATCH", "the file has no name `BATCH`: write a number, or define `BATCH`"),
        ("f(widht)", "widht", "the file has no name `widht`: did you mean `width`?"),
        ("f(unknown)", "unknown", "the file has no name `unknown`"),
    ],
)
def test_what_is_wrong_is_named(text: str, part: str, message: str) -> None:
    assert error(text, width=3) == (message, part)


@pytest.mark.parametrize(
    ("text", "lookalikes"),
    [
        ("f([2, 3])", [("[2, 3]", "f32[2, 3]")]),
        ("f(x=(2, 3), y=[f32[2]])", [("(2, 3)", "f32[2, 3]")]),
        ("f('i64[2x3]')", [("'i64[2x3]'", "i64[2, 3]")]),
        ("f('[8]', 'text', [], 3)", [("'[8]'", "f32[8]")]),
        ("f(", []),
    ],
)
def test_what_may_be_meant_as_a_tensor(text: str, lookalikes: list[tuple[str, str]]) -> None:
    assert list(tensor_lookalikes(text)) == lookalikes


def test_a_user_exception_is_separate() -> None:
    with pytest.raises(UserCallError) as raised:
        arguments("f(1, broken(2))", broken=lambda _: 1 / 0)
    assert isinstance(raised.value.__cause__, ZeroDivisionError)
    assert (raised.value.start, raised.value.end) == (5, 14)


def test_options_are_separated_from_arguments() -> None:
    directive = parse_directive("f(1, train=True, device='cpu', scale=2)")
    options, rest = split_options(directive)
    assert (options.train, options.device, [keyword.arg for keyword in rest]) == (True, "cpu", ["scale"])


def test_a_parameter_of_the_callee_wins_over_an_option() -> None:
    options, rest = split_options(parse_directive("f(1, train=True)"), ("x", "train"))
    assert not options.train
    assert [keyword.arg for keyword in rest] == ["train"]


@pytest.mark.parametrize("text", ["f(train=1)", "f(device=3)", "f(fake=x)", "f(train=True, no_grad=True)"])
def test_options_of_a_wrong_kind(text: str) -> None:
    with pytest.raises(DirectiveError):
        split_options(parse_directive(text))


def test_callees_with_equal_text_share_a_key() -> None:
    keys = {parse_directive(text).callee_key for text in ("Net(dim=4)(f32[1])", "Net( dim = 4 )(f32[2])")}
    assert len(keys) == 1
    assert parse_directive("Net(dim=5)(f32[1])").callee_key not in keys


@given(st.text())
def test_any_text_parses_or_is_an_error_inside_it(text: str) -> None:
    try:
        parse_directive(text)
    except DirectiveError as result:
        assert 0 <= result.start <= result.end <= len(text.encode("utf-8", "surrogatepass"))
        assert result.message


@given(st.text(alphabet="fi(32)[6,4] %*=:'\"{}.é𝄞_x\\#-", max_size=60))
def test_texts_close_to_directives_parse_or_are_errors_inside_them(text: str) -> None:
    try:
        arguments(text)
    except DirectiveError as result:
        assert 0 <= result.start <= result.end <= len(text.encode("utf-8", "surrogatepass"))
    except UserCallError as result:
        assert 0 <= result.start <= result.end <= len(text.encode("utf-8", "surrogatepass"))


LITERALS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=5), inner, max_size=3)
        | st.tuples(inner, inner)
    ),
    max_leaves=8,
)


@given(LITERALS)
def test_descriptions_round_trip(value: object) -> None:
    text = describe_call("f", [value], {}, limit=10_000)
    assert arguments(text) == ([value], {})


class Tensor:
    dtype = "torch.float32"
    shape = (4, 8)


def test_tensors_are_described_by_shape_and_other_objects_by_type() -> None:
    assert describe_call("f", [[Tensor(), object()]], {}) == "f([f32[4, 8], <object>])"
    with pytest.raises(DirectiveError):
        parse_directive(describe_call("f", [object()], {}))


@dataclass(frozen=True)
class StridedTensor:
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    device: str = "cpu"
    dtype = "torch.float32"

    def stride(self) -> tuple[int, ...]:
        return self.strides

    def is_contiguous(self) -> bool:
        return False


@pytest.mark.parametrize(
    ("tensor", "text"),
    [
        (StridedTensor((4, 8), (1, 4)), "f32[8, 4].permute(1, 0)"),
        (StridedTensor((2, 3, 5), (15, 1, 3)), "f32[2, 5, 3].permute(0, 2, 1)"),
        (StridedTensor((2, 3, 4, 5), (60, 1, 15, 3)), "f32[2, 4, 5, 3].permute(0, 3, 1, 2)"),
        (StridedTensor((4, 8), (16, 1)), "f32[56].as_strided([4, 8], [16, 1])"),
        (StridedTensor((4, 8), (0, 1)), "f32[8].as_strided([4, 8], [0, 1])"),
        (StridedTensor((0, 8), (1, 0)), "f32[0, 8]"),
    ],
)
def test_strides_are_described_in_exact_calls_alone(tensor: StridedTensor, text: str) -> None:
    assert describe_call("f", [tensor], {}, exact=True) == f"f({text})"
    assert describe_call("f", [tensor], {}) == f"f(f32[{', '.join(map(str, tensor.shape))}])"
    parse_directive(f"f({text})")


def test_one_device_of_all_tensors_is_an_option() -> None:
    first, second = StridedTensor((2,), (2,), "cuda:0"), StridedTensor((2,), (2,))
    assert device_option([first, 3, [first, {"x": first}]]) == 'device="cuda:0"'
    assert device_option([first, (second,)]) is None
    assert device_option([second]) is None
    assert device_option([]) is None


def test_descriptions_are_bounded() -> None:
    assert len(describe_call("f", ["x" * 70] * 60, {}, limit=100)) == 100
    assert describe_call("f", ["x" * 5000], {}) == "f(<str>)"
