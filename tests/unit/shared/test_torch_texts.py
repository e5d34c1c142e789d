"""torch's texts, parsed: reasons of graph breaks, and guard sources as user code."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuselight.shared.torch_texts import (
    in_user_words,
    membership,
    read_reasons,
    split_guard,
    without_internal_names,
)

CHAIN = """\
Failed to trace builtin operator
  Explanation: Dynamo does not know how to trace `print`
    with these arguments
  Hint: Avoid calling it.
  Hint: Or report it
    to PyTorch.

  Developer debug context: builtin print

 For more details about this graph break, please visit: https://example.org/gb/gb0059.html

*** While handling this graph break, another graph break occurred: ***

graph break in loop
  Explanation: cannot resume in a loop

  Developer debug context: none"""


def test_a_chain_is_split_with_the_cause_first() -> None:
    cause, consequence = read_reasons(CHAIN)
    assert cause.title == "Failed to trace builtin operator"
    assert cause.explanation == "Dynamo does not know how to trace `print`\nwith these arguments"
    assert cause.hints == ("Avoid calling it.", "Or report it\nto PyTorch.")
    assert (cause.context, cause.gb_id) == ("builtin print", "GB0059")
    assert (consequence.title, consequence.context, consequence.gb_id) == (
        "graph break in loop",
        "none",
        None,
    )


def test_a_plain_message_is_a_title() -> None:
    (only,) = read_reasons("something went wrong\n\nfrom user code:\n  File x")
    assert only.title == "something went wrong"


@settings(deadline=None)
@given(st.text())
def test_any_message_is_read(message: str) -> None:
    assert read_reasons(message)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("L['x']", "x"),
        ("G['FLAG']", "FLAG"),
        ("L['self'].scale", "self.scale"),
        ("L['self']._modules['l']._parameters['weight']", "self.l.weight"),
        ("L['self']._modules['layers']._modules['0']._buffers['mask']", "self.layers[0].mask"),
        ("L['self']._modules['rot'].__dict__['_buffers']['cos']", "self.rot.cos"),
        ("dict.__getitem__(L['self']._modules['rot']._buffers, 'cos')", "self.rot.cos"),
        ("L['x'].size()[0]", "x.size(0)"),
        ("L['x'].stride()[1] == L['y'].size()[0]", "x.stride(1) == y.size(0)"),
        ("L['cfg']['k']", "cfg['k']"),
        ("G['__builtins_dict___0']['len']", "len"),
        ("G['__import_torch_dot_nn_dot_functional'].relu", "torch.nn.functional.relu"),
        ("L['f'].__closure__[0].cell_contents", "closure variable 0 of f"),
        ("L['f'].__closure__[0].cell_contents['a'].b", "(closure variable 0 of f)['a'].b"),
        (
            "L['m'].hooks[list(dict.keys(L['m'].hooks))[0]].__closure__[1].cell_contents == 2",
            "closure variable 1 of m.hooks[list(m.hooks)[0]] == 2",
        ),
        ("L['f'].__defaults__[1]", "default 1 of f"),
        ("L['f'].__defaults__[0].size", "(default 0 of f).size"),
        ("list(dict.keys(L['d']))[0]", "list(d)[0]"),
        ("___as_tensor(L['self'].settings['decay']).item() == 0.8", "self.settings['decay'] == 0.8"),
        ("", ""),
    ],
)
def test_a_guard_source_is_shown_as_user_code(source: str, words: str) -> None:
    assert in_user_words(source) == words


@settings(deadline=None)
@given(st.text())
def test_any_source_is_answered(source: str) -> None:
    in_user_words(source)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "___check_metadata_140066788678912_c0/0 no longer holds",
            "the metadata that w.__tensor_flatten__() returns changed",
        ),
        ("___check_opaque_guard_fn_140066788678912_c0/0 no longer holds", "what torch checks of w changed"),
        ("__dtensor_spec_140066788678912 no longer holds", "what torch checks of w changed"),
        ("___check_fake_script_type(L['w'], 1402) no longer holds", "what torch checks of w changed"),
        (
            "torch._functorch.aot_autograd.utils.top_saved_tensors_hooks ids == None",
            "what torch checks of w changed",
        ),
        ("self.__private was 1, now 2", None),
        (
            "___stack0 was 0.3, now 0.7",
            None,
        ),  # a value that crosses a break, which a finding names by its line
        ("type(a).__name__ was 'A', now 'B'", None),
        ("the value of `___stack0[1]` was 3, now 4", None),  # the finding names it
    ],
)
def test_no_name_that_only_torch_knows_is_shown(text: str, words: str | None) -> None:
    assert without_internal_names(text, "w") == (text if words is None else words)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("___tuple_iterator_len(L['a'])", "the number of items left in a"),
        ("___tuple_iterator_getitem(L['a'], 1)", "a[1]"),
        ("___odict_getitem(L['a'], 'k')", "a['k']"),
        ("___normalize_range_iter(L['a'])", "a"),
        ("___normalize_count_iter(L['a'])", "a"),
        ("2 * torch.sym_float(L['a']) / 3", "2 * float(a) / 3"),
        ("___key_to_id(L['a'])", "the keys of a"),
        ("___dataclass_fields(L['a'])", "the fields of a"),
        ("___namedtuple_fields(L['a'])", "the fields of a"),
        ("___from_numpy(L['a'])", "a"),
        ("dict.__getitem__(L['a'], list(dict.keys(L['a']))[0])", "a[list(a)[0]]"),
        ("dict(type(L['a']).__dict__)['value']", "a.value"),
        ("type(L['a']).__mro__[1].__dict__['value']", "a.value"),
        ("type(L['a']).value", "a.value"),
        ("type(L['a']).__name__", "type(a).__name__"),
    ],
)
def test_functions_of_guards_are_in_words(source: str, words: str) -> None:
    assert in_user_words(source) == words


@pytest.mark.parametrize(
    ("guard", "member"),
    [
        ("___dict_contains('a', L['c'])", ("'a'", "c", False)),
        ("not ___dict_contains(('b h -> h b', 5), G['_shapes'])", ("('b h -> h b', 5)", "_shapes", True)),
        ("not ___dict_contains('a, b', L['c'])", ("'a, b'", "c", True)),
        ("not ___dict_contains('), L[', L['self'].seen)", ("'), L['", "self.seen", True)),
        ("___dict_contains((1, (2, 'x')), L['d'][('k', 0)])", ("(1, (2, 'x'))", "d[('k', 0)]", False)),
        ("not ___dict_contains(<Kind.RED: (1, 2)>, L['c'])", ("<Kind.RED: (1, 2)>", "c", True)),
        ("not ___dict_contains((<Kind.RED: 1>, 2), L['c'])", ("(<Kind.RED: 1>, 2)", "c", True)),
        ("set.__contains__(L['c'], ('a', 1))", ("('a', 1)", "c", False)),
        ("not frozenset.__contains__(L['d'][1, 2], 'x, y')", ("'x, y'", "d[1, 2]", True)),
        ("L['c'] == ('a', 1)", None),
    ],
)
def test_a_key_is_read_as_python_writes_it(guard: str, member: tuple[str, str, bool] | None) -> None:
    assert membership(guard) == member


@pytest.mark.parametrize(
    "comment", ["", "# if 'a' in d:  # m.py:3 in forward", "# it's  # m.py:3 in f", "# a\n# b"]
)
@pytest.mark.parametrize(
    "code",
    [
        "L['n'] == 4",
        "L['d']['a # b'] == 4",
        'L["it\'s # 1"] is None',
        "not ___dict_contains('  # m.py:9 in g', L['d'])",
        "___check_type_id(L['d']['x # y'], 93), type=<class 'int'>",
        "L['d'][b'\\n # c'] == 'd\\' # e'",
        "___dict_contains(<Node #3>, L['d'])",
        "L['a'] == 1 or \\\n L['b # c'] == 2",
        "tensor 'L['x # y']' rank mismatch. expected 1, actual 2",
        "L['\U0001f600 # b'] == '\u00e4'",
    ],
)
def test_a_guard_ends_where_its_comment_starts(code: str, comment: str) -> None:
    assert split_guard(f"{code}  {comment}") == (code, comment)


def test_a_guard_with_a_key_that_is_no_python_ends_at_the_first_mark() -> None:
    assert split_guard("___dict_contains(<It's 5>, L['d'])  # if a:") == (
        "___dict_contains(<It's 5>, L['d'])",
        "# if a:",
    )
