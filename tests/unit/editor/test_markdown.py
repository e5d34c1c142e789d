"""Text in Markdown is shown literally and never acts as markup."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from fuselight_server.base.markdown import as_text, code_block, code_span, link, name_cell, plain

ACTIVE = "\\`*_{}[]()<>#+-=!|~&;:"
READER = MarkdownIt("commonmark").enable(["table", "strikethrough"])


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("[run](command:x)", r"\[run](command:x)"),
        ("![x](https://a/b.png)", r"!\[x](https://a/b.png)"),
        ("[x]: command:y", r"\[x]: command:y"),
        ("<img src=x>", r"\<img src=x>"),
        ("1 < 2 and 3 <4", "1 < 2 and 3 <4"),
        ("keep `f(x)` here", "keep `f(x)` here"),
        ("`a` [b](c) `d`", r"`a` \[b](c) `d`"),
        ("an ` alone [b](c)", r"an \` alone \[b](c)"),
        ("``a` [b](command:c) `d``", r"\`\`a` [b](command:c) `d\`\`"),
        (r"a\`b`[c](d)", r"a\\`b`\[c](d)"),
        ("1. one\n# two", "1\\. one  \n\\# two"),
        ("a\r\n1) one\r# two", "a  \n1\\) one  \n\\# two"),
        ("a\n===", "a  \n\\==="),
        ("data-dependent (e.g. f32[4, 16]): x_y + 2*n", r"data-dependent (e.g. `f32[4, 16]`): x_y + 2\*n"),
        ("__main__; a._hidden, x_", "`__main__`; `a._hidden`, `x_`"),
        ("torch._dynamo.mark(x, 0) of f()._y, at a_b.", "`torch._dynamo.mark(x, 0)` of f().`_y`, at a_b."),
        ("f(x: list[dict[str, int]])[0], a.b[1](2)", r"f(x: `list[dict[str, int]]`)\[0], `a.b[1]`(2)"),
        ("~41 µs of ~50 µs, x~y~", r"~41 µs of ~50 µs, x\~y\~"),
        ("a & b &lt; c", r"a & b \&lt; c"),
        ("look here!", r"look here\!"),
        ("`a\r![x](https://a/b.png)`", "\\`a  \n!\\[x](https://a/b.png)\\`"),
    ],
)
def test_text_is_shown_as_it_is(text: str, shown: str) -> None:
    assert plain(text) == shown


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("extern_kernels.mm", "extern_kernels.mm"),
        ("a" * 40, "a" * 40),
        (
            "triton_per_fused__to_copy_add_div_mul_pow_12",
            "triton_per_fused__to_copy_a\u2026v_mul_pow_12",
        ),
        ("op | <b>", r"op / \<b>"),
    ],
)
def test_a_name_in_a_table_is_short_enough_to_be_seen_with_its_number(name: str, shown: str) -> None:
    assert name_cell(name) == shown


def tokens(markdown: str) -> list[Token]:
    """All tokens of a text, those within its paragraphs included."""
    return [part for token in READER.parse(markdown) for part in (token, *(token.children or ()))]


@given(st.text(alphabet=ACTIVE + "ab1. \n\r/"))
@example("~1 (~2 b~)")
@example("\\1_")
@example("a\n--|--\nb|c")
def test_text_never_acts_as_markup(text: str) -> None:
    """A reader of CommonMark, with tables and struck out text, sees lines of text and of code."""
    shown = tokens(plain(text))
    blocks = {"paragraph_open", "paragraph_close", "inline", "code_block"}
    assert {token.type for token in shown} <= {
        *blocks,
        "text",
        "text_special",
        "code_inline",
        "hardbreak",
        "softbreak",
    }
    seen = "".join(token.content for token in shown if token.type in {"text", "code_inline", "code_block"})
    assert re.sub(r"[\s`]", "", seen) == re.sub(r"[\s`]", "", text)


@given(st.text(alphabet="[]()\\`!ab_ "))
def test_a_link_has_one_address(text: str) -> None:
    shown = tokens(f"see {link(text, 'https://a/b')}(b)")
    opened = [token.attrGet("href") for token in shown if token.type == "link_open"]
    assert opened == ["https://a/b"]


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
    assert link("[x](y)", None) == r"\[x](y)"


@given(st.text(alphabet=ACTIVE + "ab1. \n/"))
def test_a_client_without_markdown_gets_the_text(text: str) -> None:
    assert re.sub(r"[\s`]", "", as_text(plain(text))) == re.sub(r"[\s`]", "", text)


def test_our_markup_is_gone_in_plain_text() -> None:
    table = f"| time | kernel |\n| ---: | :--- |\n| ~41 µs | {name_cell('a*b_')} |"
    head = f"**{plain('a_b* (x)')}** {link('GB[1]', 'https://a/b')}  \n*capture: {code_span('__main__')}*"
    shown = f"{head}\n\n{table}\n\n---\n\n"
    assert as_text(shown + code_block("y = **x\n`[a](<b>)", "python")) == (
        "a_b* (x) GB[1]\ncapture: __main__\n\n| time | kernel |\n| ~41 µs | a*b_ |\n\n---\n\ny = **x\n`[a](<b>)"
    )


ADDRESSES = (
    *("www.e.com", "WWW.e.com", "http://e.com/a", "https://e", "ftp://e.com", "HtTpS://e.com", "x-a+b://e"),
    *("mailto:a@e.com", "xmpp:a@e.com", "a.b+c@e-f.co.uk", "a_b@e.com", "ssh://u@e.com/p?q=1#_x_"),
)
MARKUP = ("<img src=x>", "<command:e>", "<a href=x>", "&lt;", "![x](y)", "_", "`<b>", "/[a](b)", "*a*", "~~")


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize("after", MARKUP)
@pytest.mark.parametrize("before", ["", "(", "a ", "*", "\n"])
def test_an_address_with_a_mark_is_code_and_takes_in_no_escape(address: str, after: str, before: str) -> None:
    shown = plain(f"{before}{address}{after}")
    outside = re.sub(r"(?<!\\)(`+)(.+?)(?<!`)\1(?!`)", "", shown)
    assert address not in outside
    assert not re.search(r"(?<!\\)[<\[]", outside), shown
    assert address in as_text(shown)
