"""The words of the project: no unfinished marks, no private paths, plain English in what a user reads, nouns as names.

Invariant: each line that breaks a rule is printed as `path:line: what: text`, and the exit code is 1 if there is one.
"""

from __future__ import annotations

import ast
import gc
import hashlib
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from node_tools import CACHE, ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

UNFINISHED = re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b")
PRIVATE = re.compile(r"(?<![\w.$])/(?:home|root|Users|work)/\w")
LOCKS = (".lock", "package-lock.json")

RIDDLES = {
    r"\b(?:is|are|was|were|be|been|being) told\b|\btold (?:of|to the)\b|\btells? of\b": "reported, shown, lists",
    r"\banew\b": "again",
    r"\bas soon as ever\b": "immediately",
    r"\bat hand\b": "available",
    r"\bmend(?:s|ed|ing)?\b": "fix",
    r"\bbeside (?:each other|one another)\b": "in parallel, next to each other",
    r"\bbefore (?:and|or) behind\b": "before and after",
    r"\bbehind (?:it|them|that|this|these|the|a|an|each)\b": "after",
    r"\b(?:take|takes|taking) (?:its|their|a|in) turns?\b": "runs when its turn comes, interleaved",
    r"\btakes turns\b|\btake turns\b": "interleaved",
    r"\bthe run still goes on\b|\bgoes on meanwhile\b|\bwent on meanwhile\b": "still running, was active",
    r"\bhave something to say\b": "have warnings",
    r"\b(?:is|are) passed over\b": "ignored",
    r"\black(?:s|ed)? nothing of\b": "supports every operator",
    r"\bto be seen of\b|\bis seen of\b|\bwhat is seen\b": "details for",
    r"\bnot told apart\b|\btold apart\b": "unattributed, distinguished",
    r"\bis of a newer\b": "was written by a newer version",
    r"\bregisters end first\b": "limited by registers",
    r"\bits words\b": "glossary",
    r"\bleft to eager\b": "runs in eager mode",
    r"\bcame to nothing\b|\bcomes to nothing\b": "failed",
    r"\bwhatever befalls\b|\bbefall(?:s|en)?\b": "happens to",
    r"\bupon which\b|\bwhereupon\b|\bthereupon\b": "then",
    r"\bheld (?:up )?against\b|\bholds? (?:it|them|the \w+) (?:up )?against\b": "compared with",
    r"\bas soon as it is there\b|\bwhat stands (?:here|there)\b": "results, as they are measured",
    r"\bsays? the same\b": "has the same content",
    r"\bone's own\b|\bof (?:ours|theirs) own\b": "user-defined",
    r"\bwhat it is at\b|\bhow far it is\b": "its progress",
    r"\bgo(?:es)? along with\b|\btak(?:e|es|en) along\b": "moves with",
    r"\bnobody says\b|\bsays nothing of\b|\bhas it that\b": "is not set",
    r"\blearnt\b|\bspelt\b|\bburnt\b": "learned (American spelling)",
    r"\b(?:(?<!--allow-)behaviour|colour|licence|artefact|favour|neighbour|programme)s?\b": "American spelling",
    r"\b(?:optimis|recognis|initialis|specialis|organis|normalis|summaris|serialis|customis|minimis|maximis)"
    r"(?:e|es|ed|ing|ation|ations)\b": "American spelling (-ize)",
}
"""Phrases that a reader has to decode, and what to write instead."""
_RIDDLES = [(re.compile(pattern, re.IGNORECASE), better) for pattern, better in RIDDLES.items()]
_ANY_RIDDLE = re.compile("|".join(f"(?:{pattern})" for pattern in RIDDLES), re.IGNORECASE)

VAGUE_NAMES = {
    "one": "the noun of the element, as `row`, `graph`, `finding`",
    "found": "the noun of the result, as `matches`, `breaks`, `report`",
    "made": "the noun of the result, as `report`, `page`, `process`",
    "said": "`message`, `answer`, `text`",
}
"""Names that hide what they hold, and what to write instead. Leading underscores do not count."""
MISSPELLED_PARTS = {
    "librarys": "`library`",
    "learnt": "`learned`",
    "spelt": "`spelled`",
    "behaviour": "`behavior`",
    "colour": "`color`",
    "artefact": "`artifact`",
}
"""Words that no name has among those that it is made of."""
WRITTEN_FIELDS = {
    ("compiler/fuselight/doctor/check.py", "found"),
    ("compiler/fuselight/measure/profile/recording.py", "made"),
    ("server/fuselight_server/explain/pages/page_data.py", "found"),
    ("server/fuselight_server/explain/graphs/page_types.py", "found"),
    ("server/fuselight_server/editor/messages/answers.py", "found"),
}
"""Fields whose names stand in messages or in files that are kept: these stay as they are."""

PAGES = re.compile(
    r"^(?:README|CHANGELOG|CONTRIBUTING|tests/README)\.md$|^docs/.*\.md$|^package\.json$|^(?:compiler|server)/.*\.json$"
)
TYPESCRIPT = re.compile(r"^extension/(?:src|webview)/.*\.ts$")
PYTHON = re.compile(r"^(?:compiler|server|tests|benchmarks|scripts)/.*\.py$")
SAMPLES = re.compile(
    r"^tests/cases/|^tests/editor/host/workspace|^tests/recordings/(?:subject|jobs|editor/train)\.py$|^benchmarks/(?:fix_truth/programs|studies)/"
)
"""Programs as users write them."""
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_NAMED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler)
_QUOTED = re.compile(r"\"(?:[^\"\\\n]|\\.)*\"|`(?:[^`\\]|\\.)*`")
_COMMENT = re.compile(r"(?:^|[ \t])#[ \t](?P<text>.*)", re.MULTILINE)
_GENERATED = ("docs/results/",)


CHECKED = CACHE / "checked-words.txt"
"""Digests of the files without faults of the last run: most of the time goes into parsing what has not changed."""


def committed() -> list[str]:
    """Every file that git tracks, but lock files and this one, which has to name what it looks for."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    return [
        name
        for name in filter(None, listed.split("\0"))
        if not name.endswith(LOCKS) and ROOT / name != Path(__file__) and (ROOT / name).is_file()
    ]


def faults(name: str) -> Iterator[str]:
    """Yield every line of a file that breaks a rule. A program is parsed once: there are 2,000 of them."""
    try:
        text = (ROOT / name).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return  # pictures, and sources in other encodings that tests are about
    if UNFINISHED.search(text) or PRIVATE.search(text):
        for number, line in enumerate(text.splitlines(), 1):
            if UNFINISHED.search(line) or PRIVATE.search(line):
                yield f"{name}:{number}: {line.strip()[:120]}"
    if not name.startswith(_GENERATED):
        yield from _wrong_words(name, text)


def _wrong_words(name: str, text: str) -> Iterator[str]:
    """Yield every phrase of `RIDDLES` that a file shows, and every name that `name_fault` rejects."""
    nodes = list(ast.walk(ast.parse(text))) if PYTHON.search(name) else []
    for number, shown in shown_texts(name, text, nodes):
        for pattern, better in _RIDDLES if _ANY_RIDDLE.search(shown) else ():
            hit = pattern.search(shown)
            if hit is not None:
                line_number = number + shown.count("\n", 0, hit.start())
                yield f"{name}:{line_number}: `{hit[0]}`: write `{better}`"
    for number, identifier in () if SAMPLES.search(name) else bound_names(nodes):
        better = name_fault(identifier, name)
        if better:
            yield f"{name}:{number}: name `{identifier}`: write {better}"


def shown_texts(name: str, text: str, nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    """Yield (line, text) of what a file says: a page's or table's text, or a program's strings and comments."""
    if PAGES.search(name):
        yield 1, text
    elif TYPESCRIPT.search(name):
        text = _without_comments(text)
        for match in _QUOTED.finditer(text):
            yield text.count("\n", 0, match.start()) + 1, match[0]
    elif PYTHON.search(name):
        yield from _strings(nodes)
        yield from _comments(text)


def _without_comments(text: str) -> str:
    """TypeScript without its comments, line numbers kept."""
    return re.sub(
        r"/\*.*?\*/|(?<![:\"'`])//[^\n]*", lambda match: "\n" * match[0].count("\n"), text, flags=re.DOTALL
    )


def _strings(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    """Yield each string of a module: docstrings too, and the texts of an f-string one by one."""
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def _comments(text: str) -> Iterator[tuple[int, str]]:
    """Yield each comment of a Python text: what looks like one in a string has to keep the same rules."""
    for match in _COMMENT.finditer(text):
        yield text.count("\n", 0, match.start("text")) + 1, match["text"]


def name_fault(identifier: str, path: str) -> str:
    """What to write instead of an identifier; empty if it is fine, or part of a format that is kept."""
    whole = identifier.strip("_")
    if (path, identifier) in WRITTEN_FIELDS:
        return ""
    better = VAGUE_NAMES.get(whole, "")
    parts = (MISSPELLED_PARTS.get(word.lower()) for word in _WORD.findall(whole))
    return better or next(filter(None, parts), "")


def bound_names(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    """Yield (line, name) of each name that a program binds: variables, parameters, attributes, imports, definitions."""
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.alias) and node.asname:
            yield node.lineno, node.asname
        elif isinstance(node, _NAMED) and node.name:
            yield node.lineno, node.name


def faults_of_all(names: Iterable[str], checked: Path = CHECKED) -> list[str]:
    """The faults of all files. Those that had none in the last run, by these rules, are not read as programs again."""
    rules = hashlib.sha256(Path(__file__).read_bytes())
    known = set(checked.read_text(encoding="ascii").split()) if checked.is_file() else set()
    wrong: list[str] = []
    right: list[str] = []
    for name in names:
        content = rules.copy()
        content.update(name.encode() + b"\0" + (ROOT / name).read_bytes())
        digest = content.hexdigest()
        of_file = [] if digest in known else list(faults(name))
        wrong += of_file
        if not of_file:
            right.append(digest)
    checked.parent.mkdir(exist_ok=True)
    checked.write_text("\n".join(right), encoding="ascii")
    return wrong


if __name__ == "__main__":
    gc.disable()  # a syntax tree has no cycles, and each search for garbage visits all of it: 40% of the time
    wrong = faults_of_all(committed())
    print("\n".join(wrong) or "no unfinished marks, no private paths, no riddles, no vague names")
    sys.exit(1 if wrong else 0)
