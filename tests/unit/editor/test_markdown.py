"""Text in Markdown is shown literally and never acts as markup."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuselight_server.editor.presenters.markdown import (
    code_block,
    code_span,
    link,
    name_cell,
    plain,
)

ACTIVE = "\\`*_{}[]()<>#+-!|~&"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("[run](command:x)", r"\[run\]\(command:x\)"),
        ("![x](https://a/b.png)", r"\!\[x\]\(https://a/b.png\)"),
        ("<img src=x>", r"\<img src=x\>"),
        ("keep `f(x)` here", "keep `f(x)` here"),
        ("`a` [b](c) `d`", r"`a` \[b\]\(c\) `d`"),
        ("an ` alone [b](c)", r"an \` alone \[b\]\(c\)"),
        ("``a` [b](command:c) `d``", r"\`\`a` [b](command:c) `d\`\`"),
        (r"a\`b`[c](d)", r"a\\`b`\[c\]\(d\)"),
        ("1. one\n# two", "1\\. one  \n\\# two"),
        ("a\r\n1. one\r# two", "a  \n1\\. one  \n\\# two"),
        ("`a\r![x](https://a/b.png)`", "\\`a  \n\\!\\[x\\]\\(https://a/b.png\\)\\`"),
    ],
)
def test_text_is_shown_as_it_is(text: str, shown: str) -> None:
    assert plain(text) == shown


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("extern_kernels.mm", r"extern\_kernels.mm"),
        ("a" * 40, "a" * 40),
        (
            "triton_per_fused__to_copy_add_div_mul_pow_12",
            "triton\\_per\\_fused\\_\\_to\\_copy\\_a\u2026v\\_mul\\_pow\\_12",
        ),
        ("op | <b>", r"op / \<b\>"),
    ],
)
def test_a_name_in_a_table_is_short_enough_to_be_seen_with_its_number(name: str, shown: str) -> None:
    assert name_cell(name) == shown


@given(st.text(alphabet=ACTIVE + "ab1. \n\r:/"))
def test_no_mark_is_active_outside_of_code(text: str) -> None:
    """Read as CommonMark does: a backslash escapes a mark, a run of backticks opens code that the next such ends."""
    shown = plain(text)
    at = 0
    while at < len(shown):
        if shown[at] == "\\":
            assert shown[at + 1] in ACTIVE + "."
            at += 2
        elif shown[at] == "`":
            match = re.match(r"(`+)[^`]+\1(?!`)", shown[at:])
            assert match is not None, shown
            assert not {"\n", "\r"} & set(match[0]), shown
            at += match.end()
        else:
            assert shown[at] not in ACTIVE, shown
            at += 1


@given(st.text(alphabet="`ab \r"))
def test_a_fence_is_longer_than_what_it_holds(text: str) -> None:
    for name in (code_span(text), code_block(text, "python")):
        fence = re.match("`+", name)
        assert fence is not None
        inside = name[fence.end() : -fence.end()]
        assert name.endswith(fence[0])
        assert "\r" not in name
        assert all(len(run) < fence.end() for run in re.findall("`+", inside))


def test_a_link_without_an_address_is_its_text() -> None:
    assert link("FL101", "file:///a b.md") == "[FL101](<file:///a b.md>)"
    assert link("[x](y)", None) == r"\[x\]\(y\)"
