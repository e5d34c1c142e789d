"""Configurations by name: names round-trip, and errors are named."""

from __future__ import annotations

import ast
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuselight.shared.configurations import (
    EAGER,
    MODES,
    WRITTEN,
    Configuration,
    ConfigurationError,
    names_in,
    parse_configuration,
)
from fuselight.shared.report import Preparation

names = st.from_regex(r"[a-z_]{1,8}(\.[a-z_]{1,8})?", fullmatch=True)
values: st.SearchStrategy[Any] = st.one_of(
    st.integers(), st.booleans(), st.none(), st.from_regex(r"[A-Za-z_]{1,10}", fullmatch=True)
).filter(lambda value: not isinstance(value, str) or value.lower() not in {"true", "false", "none"})
compiled = st.builds(
    Configuration,
    st.just(""),
    mode=st.sampled_from(MODES),
    dynamic=st.sampled_from([None, True, False]),
    fullgraph=st.booleans(),
    options=st.dictionaries(names, values, max_size=3),
)


def _written(configuration: Configuration) -> str:
    """A configuration as a user writes it."""
    dynamic = {None: [], True: ["dynamic"], False: ["static"]}[configuration.dynamic]
    options = [f"{key}={value}" for key, value in configuration.options.items()]
    head = configuration.mode if configuration.backend is None else f"backend:{configuration.backend}"
    return "+".join([str(head), *dynamic, *(["fullgraph"] if configuration.fullgraph else []), *options])


def _same(configuration: Configuration, wanted: Configuration) -> bool:
    fields = ("eager", "written", "mode", "backend", "dynamic", "fullgraph", "options")
    return all(getattr(configuration, name) == getattr(wanted, name) for name in fields)


@given(compiled)
def test_written_configurations_round_trip(other_configuration: Configuration) -> None:
    configuration = parse_configuration(_written(other_configuration))
    assert _same(configuration, other_configuration)
    assert configuration.name == _written(other_configuration)
    assert parse_configuration(configuration.name) == configuration


@given(compiled, st.from_regex(r"[a-z_]{1,12}", fullmatch=True))
def test_any_backend_is_read(configuration: Configuration, backend: str) -> None:
    wanted = Configuration(
        "",
        backend=backend,
        dynamic=configuration.dynamic,
        fullgraph=configuration.fullgraph,
        options=configuration.options,
    )
    assert _same(parse_configuration(_written(wanted)), wanted)


@given(compiled, st.text(" \t", max_size=3))
def test_blanks_do_not_count(configuration: Configuration, blank: str) -> None:
    text = _written(configuration)
    spaced = blank + text.replace("+", f"{blank}+{blank}") + blank
    assert _same(parse_configuration(spaced), configuration)


@given(st.text("defaultmxuyngrhc+=-:,. 01[]{}()'\"", max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        configurations = [parse_configuration(name) for name in names_in(text)]
    except ConfigurationError:
        return
    assert [parse_configuration(configuration.name) for configuration in configurations] == configurations


def test_plain_names_parse_to_configurations() -> None:
    assert parse_configuration(EAGER) == Configuration(EAGER, eager=True)
    assert parse_configuration(WRITTEN) == Configuration(WRITTEN, written=True)
    for mode in MODES:
        assert parse_configuration(mode) == Configuration(mode, mode=mode)


def test_dynamic_is_short_for_the_default_mode() -> None:
    short, long = parse_configuration("dynamic+fullgraph"), parse_configuration("default+dynamic+fullgraph")
    assert _same(short, long)
    assert short.name == "dynamic+fullgraph"


def test_options_are_pythons_literals_else_text() -> None:
    text = "default+a=1+b=true+c=None+d=0.5+e=aten,triton+f=[1, 2]+g='x'+h="
    wanted = {
        "a": 1, "b": True, "c": None, "d": 0.5, "e": "aten,triton", "f": [1, 2], "g": "x", "h": "",
    }  # fmt: skip
    options = parse_configuration(text).options
    assert options == wanted
    assert [type(value) for value in options.values()] == [type(value) for value in wanted.values()]
    assert ast.literal_eval(repr(options)) == options


@pytest.mark.parametrize("text", ["{[]: 1}", "[1", "(" * 300, "1 2"])
def test_a_value_that_is_not_a_literal_is_text(text: str) -> None:
    assert parse_configuration(f"default+a={text}").options == {"a": text}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("defualt", ["'defualt'", "did you mean 'default'?"]),
        ("max-autotun", ["did you mean 'max-autotune'?"]),
        ("reduce_overhead", ["did you mean 'reduce-overhead'?"]),
        ("Eager", ["did you mean 'eager'?"]),
        ("tensorrt", ["there are eager, written, dynamic, default", "backend:NAME"]),
        ("", ["no configuration ''"]),
        ("backend:", ["'backend:'"]),
        ("default+attention=fast", ["'fast'", "flash, efficient, cudnn, math"]),
        ("default+fulgraph", ["'fulgraph'", "dynamic, static, fullgraph", "OPTION=VALUE"]),
        ("default+", ["''", "OPTION=VALUE"]),
        ("default+=1", ["'=1'", "OPTION=VALUE"]),
        ("eager+dynamic", ["'eager'", "nothing can be added"]),
        ("written+a=1", ["'written'", "nothing can be added"]),
    ],
)
def test_errors_are_named(text: str, words: list[str]) -> None:
    with pytest.raises(ConfigurationError) as raised:
        parse_configuration(text)
    assert all(word in str(raised.value) for word in words), str(raised.value)


@pytest.mark.slow
@given(st.lists(compiled, max_size=5))
def test_a_list_is_split_at_its_commas(asked: list[Configuration]) -> None:
    written = [_written(configuration) for configuration in asked]
    assert names_in(", ".join(written)) == tuple(written)


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ('"ATEN,TRITON"', "ATEN,TRITON"),
        ("'ATEN,TRITON'", "ATEN,TRITON"),
        ("['a', 'b']", ["a", "b"]),
        ("(1, 2)", (1, 2)),
        ("{'a': [1, 2], 'b': 3}", {"a": [1, 2], "b": 3}),
        ("'a+b,c'", "a+b,c"),
        ("'[',", "["),
    ],
)
def test_a_value_in_quotes_or_brackets_is_not_split(value: str, read: Any) -> None:
    names = names_in(f"eager,max-autotune+backends={value},default")
    assert (names[0], names[-1], len(names)) == ("eager", "default", 3)
    configuration = parse_configuration(names[1])
    assert configuration.options == {"backends": read}
    assert parse_configuration(configuration.name) == configuration


def test_blank_parts_of_a_list_are_none() -> None:
    assert names_in(",default,, eager ") == ("default", "eager")


@pytest.mark.parametrize(("text", "opening"), [("default+a='x,eager", "'"), ("default+a=[1,2,eager", "[")])
def test_an_incomplete_list_says_what_is_missing(text: str, opening: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        names_in(text)
    assert str(raised.value).startswith(f"{opening!r} is not closed in ")


def test_changes_without_an_argument_of_torch_compile() -> None:
    configuration = parse_configuration(
        "default+channels_last+tf32+attention=flash+blocks+optimizer+fixes+fixed_modules+longest=8+max_autotune=True"
    )
    assert configuration.preparation == Preparation(channels_last=True, attention="flash", precision="tf32")
    assert (
        configuration.blocks,
        configuration.optimizer,
        configuration.fixes,
        configuration.fixed_modules,
    ) == (True, True, True, True)
    assert configuration.longest == 8
    assert configuration.options == {"max_autotune": True}


@pytest.mark.parametrize("number", ["0", "-1", "all", "1.5", ""])
def test_the_number_of_the_longest_multiplications_is_at_least_one(number: str) -> None:
    with pytest.raises(ConfigurationError, match="longest=8, for example"):
        parse_configuration(f"default+longest={number}")


@pytest.mark.parametrize(
    "text",
    [
        "max-autotune+longest=8",
        "max-autotune-no-cudagraphs+longest=1",
        "default+max_autotune=True+longest=8",
        "default+longest=8+max-autotune-gemm=True",
    ],
)
def test_the_longest_multiplications_are_named_where_some_are_timed(text: str) -> None:
    assert parse_configuration(text).longest


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("default+longest=8", "add max_autotune_gemm=True"),
        ("reduce-overhead+longest=8+max_autotune_gemm=False", "add max_autotune_gemm=True"),
        ("backend:cudagraphs+longest=8", "'cudagraphs' is another backend"),
    ],
)
def test_longest_without_effect_says_so(text: str, words: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        parse_configuration(text)
    assert words in str(raised.value)
    assert text in str(raised.value)
