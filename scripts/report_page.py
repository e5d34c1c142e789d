"""Write docs/report.md from the docstrings of `fuselight.report`, so that the schema is stated once.

`tests/test_docs.py` fails while the page is older than the module.
"""

from __future__ import annotations

import ast
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "compiler" / "fuselight" / "report"
PARTS = ("place", "failure", "capture", "kernels", "operators", "device", "resources", "measured")
PAGE = ROOT / "docs" / "report.md"

INTRODUCTION = """\
# The Report

<!-- Written by scripts/report_page.py from compiler/fuselight/report/: change that, then run the script. -->

{module}

## Reading one

* It is JSON: a dataclass is an object with the field names below, a tuple is a list, an enum is its value.
* A field that is not there has the default given here; readers ignore fields that they do not
  know. So an older reader can read a newer report of the same `schema`, and a newer reader an older report. This page
  describes schema {schema}.
* `fuselight run` keeps its last report in the workspace's `.fuselight/` folder. It holds paths and source lines of
  yours: treat it like the source.
* `fuselight check --format json` prints [findings](#the-json-of-check), which are made from a report.

## The whole
"""


CHECK = """\
## The JSON of check

`fuselight check --format json` prints one object: `schema` (1; within it no key is renamed or taken away), `findings`,
`targets` and `problems`. Lines and columns are 1-based and count characters, unlike those of a report; the end column
is the one after the last character. What is not known is null.

| in `findings` | |
|---|---|
| `path`, `line`, `column`, `end_line`, `end_column` | the place, on your own lines |
| `code` | torch's `GB....` or one of ours, [`FL...`](findings) |
| `severity` | `error`, `warning`, `information` or `hint` |
| `title`, `message` | one line, and the whole explanation |
| `target`, `tier`, `inputs` | what was run, how far (see [Tier](#tier)) and with which inputs |
| `count` | how often the same cause was met on this line |
| `related` | other places, each with a `message`: the calls that led there, the earlier compile, ... |
| `cost`, `hints` | what it costs, and what to do: lists of sentences |
| `gb_ids` | every id of torch's that is part of it |
| `link` | the page of the code |
| `torch` | the version that said so |

| in `targets` | |
|---|---|
| `path`, `name`, `line`, `kind`, `tier` | what was run; the name is `__main__` for a file's own main block |
| `rung`, `calls` | where the inputs came from ([inputs.md](inputs.md)), and the calls that were made |
| `graphs`, `breaks`, `operators`, `recompilations` | as the lens counts them: a graph once, however often compiled |
| `python`, `torch` | the versions of the interpreter that ran it |
| `seconds` | by phase |

A problem has `stage`, `what` could not be determined, `why`, and the `target` it was met in.
"""


@dataclass(frozen=True)
class Member:
    """A field of a dataclass or a value of an enum."""

    name: str
    annotation: str
    default: str
    text: str


def page() -> str:
    """The text of docs/report.md."""
    module = ast.parse((SOURCE / "__init__.py").read_text(encoding="utf-8"))
    parts_of_it = [ast.parse((SOURCE / f"{name}.py").read_text(encoding="utf-8")) for name in PARTS]
    classes = [
        node
        for source in (*parts_of_it[:1], module, *parts_of_it[1:])
        for node in source.body
        if isinstance(node, ast.ClassDef)
    ]
    # The root of the tree first, then its parts in the order in which the module builds them up.
    classes.sort(key=lambda node: node.name != "Report")
    parts = [
        INTRODUCTION.format(module=_paragraphs(ast.get_docstring(module)), schema=_constant(module, "SCHEMA"))
    ]
    for position, node in enumerate(classes):
        if position == 1:
            parts.append("## Its parts\n")
        parts.append(_section(node))
    parts.append(CHECK)
    return "\n".join(parts)


def _section(node: ast.ClassDef) -> str:
    members = _members(node)
    lines = [f"### {node.name}", "", _paragraphs(ast.get_docstring(node)), ""]
    if _is_enum(node):
        lines += ["| value | |", "|---|---|"]
        lines += [f"| `{member.name}` | {member.text} |" for member in members]
    else:
        lines += ["| field | type | default | |", "|---|---|---|---|"]
        lines += [
            f"| `{member.name}` | `{member.annotation}` | {member.default} | {member.text} |"
            for member in members
        ]
    return "\n".join([*lines, ""])


def _members(node: ast.ClassDef) -> list[Member]:
    members = []
    for position, statement in enumerate(node.body):
        text = _text_after(node.body, position)
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            default = f"`{_default(statement.value)}`" if statement.value is not None else ""
            # A bar would end the table's cell.
            annotation = ast.unparse(statement.annotation).replace(" | None", "?")
            members.append(Member(statement.target.id, annotation, default, text))
        elif isinstance(statement, ast.Assign) and _is_enum(node):
            members.append(Member(str(ast.literal_eval(statement.value)), "", "", text))
    return members


def _default(value: ast.expr) -> str:
    text = ast.unparse(value)
    return "{}" if text == "field(default_factory=dict)" else text


def _text_after(body: list[ast.stmt], position: int) -> str:
    following = body[position + 1] if position + 1 < len(body) else None
    if (
        isinstance(following, ast.Expr)
        and isinstance(following.value, ast.Constant)
        and isinstance(following.value.value, str)
    ):
        return " ".join(following.value.value.split()).replace("|", "\\|")
    return ""


def _is_enum(node: ast.ClassDef) -> bool:
    return any(ast.unparse(base) == "enum.Enum" for base in node.bases)


def _constant(module: ast.Module, name: str) -> str:
    for statement in module.body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == name:
            return ast.unparse(statement.value)
    raise LookupError(f"{SOURCE} has no {name}")


def _paragraphs(text: str | None) -> str:
    return "\n\n".join(" ".join(part.split()) for part in (text or "").split("\n\n"))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")
    sys.exit(0)
