"""Write docs/report.md from the docstrings of `fuselight.shared.report`, so that the schema is stated once.

`tests/test_docs.py` fails while the page is older than the module.
"""

from __future__ import annotations

import ast
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "compiler" / "fuselight" / "shared" / "report"
PARTS = (
    "place",
    "failure",
    "capture",
    "facts",
    "forecast",
    "cures",
    "reads",
    "imports",
    "kernels",
    "launches",
    "device",
    "resources",
    "own_kernels",
    "measured",
    "tuned",
    "verification",
    "release_outputs",
    "results",
    "memory",
    "reproduction",
    "shadow",
    "world",
)
PAGE = ROOT / "docs" / "report.md"

INTRODUCTION = """\
# The Report

<!-- Written by scripts/report_page.py from compiler/fuselight/shared/report/: change that, then run the script. -->

{module}

## How to read a report

* A report is JSON: a dataclass is an object with the field names below, a tuple is a list, an enum is its value.
* A missing field has the default given here, and readers ignore unknown fields. An older reader can therefore read a
  newer report of the same `schema`, and a newer reader an older report. This page describes schema {schema}.
* Integers are of at most 128 bits. A `LineNumber` is one from 0 to 10,000,000, and `Microseconds` are a float from 1e-6
  to 1e15. A report with any other is damaged.
* `fuselight run` stores its last report in the workspace's `.fuselight/` folder. A report contains paths and lines of
  your source: treat it like the source.
* `fuselight check --format json` prints [findings](#the-json-of-check), which are derived from a report.

## The top level
"""


CHECK = """\
## The JSON of check

`fuselight check --format json` prints one object: `schema` (1; no key of a schema is renamed or removed),
`change` (with `--changed-since`: `since`, and as `findings_elsewhere` the number of those not listed; else null),
`fix_first`, `findings`, `targets` and `problems`. Lines and columns are 1-based and count characters, unlike those of a
report; the end column is the one after the last character. Unknown values are null.

| in `fix_first` | null if no line costs anything ([the rules](editor.md#what-to-fix-first)) |
|---|---|
| `path`, `line`, `codes` | the line to fix first, and the codes of its findings |
| `title`, `gain` | `Fix line 38 of layers.py first: ...`, and what that gains |
| `target`, `target_path` | the target whose run has the counts that follow, and its file |
| `eager`, `limited` | functions that run in eager mode because of it, or reached the recompile limit |
| `breaks`, `graphs` | breaks on the line, and graphs of the broken function |
| `recompilations`, `seconds` | recompilations that the line causes, and their seconds |
| `eager_us` | measured time of the line in eager mode in one call, microseconds; null if no kept benchmark has it |
| `fix` | the command that verifies the known fixes; null if none is known |
| `verified` | from `fuselight fix`, the fix of the line that has passed; null if none has, and from `check` |

| in `findings` | |
|---|---|
| `path`, `line`, `column`, `end_line`, `end_column` | the location, in your code |
| `cell` | of a notebook: the number of the code cell; lines are those of the cell |
| `code` | torch's `GB....` or Fuselight's [`FL...`](findings) |
| `severity` | `error`, `warning`, `information` or `hint` |
| `title`, `message` | one line, and the full explanation |
| `target`, `tier`, `inputs` | the target, the [tier](#tier) and the inputs of the run |
| `count` | how often the same cause occurred on this line |
| `related` | other locations, each with a `message`: the calls that lead there, the earlier compile, ... |
| `also_at` | other locations with the same cause, each with its `cost` ([editor.md](editor.md#one-cause-one-entry)) |
| `cost`, `hints` | lists of sentences: what it costs, and what to do |
| `remedies` | what to do and what is known of each, the best first ([fixes.md](fixes.md#one-list-of-remedies)) |
| `gb_ids` | all of torch's ids that the finding covers |
| `link` | the page of the code |
| `torch` | the version that reported it |

| in `targets` | |
|---|---|
| `path`, `name`, `line`, `kind`, `tier` | the target; `name` is `__main__` for the file's `__main__` block |
| `rung`, `calls` | the source of the inputs ([inputs.md](inputs.md)), and the calls |
| `graphs`, `breaks`, `operators`, `recompilations` | the counts of the lens: a recompiled graph counts once |
| `python`, `torch` | the versions of the interpreter that ran it |
| `seconds` | seconds by phase |
| `unchanged_since` | when the report was made, if nothing has changed since (ISO 8601, UTC); else null |
| `facts` | with `--facts`: the values of expressions, one entry for each file |
| `accuracy` | with `--accuracy`: the comparison of the results with eager mode ([accuracy.md](accuracy.md#elsewhere)) |
| `world` | with ranks ([ranks.md](ranks.md)): null for a target without them, else its ranks |

| in `world` | |
|---|---|
| `size`, `mesh`, `ran` | the number of ranks, the sizes of the mesh by name, and the ranks that ran |
| `seconds` | the duration of each rank |
| `link` | `bytes_per_second` and `latency_us` of the estimates |
| `groups` | equal ranks: `ranks`, the counts, `failures`, `collective_count`, `collectives` (up to 2,000) |
| `collectives` | each with the fields of a [Collective](#collective), and `estimate_us` |

| in `facts` | |
|---|---|
| `path` | the file |
| `expressions` | each with location, `text`, whether it is an `assigned` name, `values`, and how many `omitted` |
| `values` | each with `kind`, `value`, `device`, `strides`, `requires_grad` ([TracedValue](#tracedvalue)) and `count` |
| `conditions` | those with a side that was never traced, each with its location, `text` and `always`: its value |
| `untraced` | first and last lines of code that was never traced |

A problem has the `stage`, `what` could not be determined, `why`, and the `target` in which it occurred.
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
