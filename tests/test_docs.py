"""The documentation matches the code: generated pages, links between pages, the commands that they name."""

from __future__ import annotations

import argparse
import ast
import dataclasses
import importlib.util
import inspect
import re
import subprocess
import sys
import typing
from pathlib import Path
from types import ModuleType

import attrs
import pytest

from fuselight.measure import steady_state
from fuselight.measure.machine import nvidia_smi
from fuselight.shared import configurations, report
from fuselight.shared.measurement_plans import MeasurePlan
from fuselight.shared.version import TESTED_TORCH, list_tested_torch
from fuselight.tune.knobs import KNOBS
from fuselight_server.cli.command_line import COMMANDS
from fuselight_server.explain.searches.words import bound_words, knob_label

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "tests/README.md"])


def _script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look themselves up there
    spec.loader.exec_module(module)
    return module


def test_the_tested_torch_releases_are_stated_everywhere_and_recorded() -> None:
    for page in (
        ROOT / "README.md",
        ROOT / "docs" / "doctor.md",
        ROOT / "compiler/fuselight/adapters/torch_api/__init__.py",
    ):
        text = re.sub(r"\s+", " ", page.read_text(encoding="utf-8"))
        assert list_tested_torch() in text, page
    recordings = {path.name for path in (ROOT / "tests" / "recordings").glob("torch-*")}
    assert recordings == {f"torch-{major}.{minor}" for major, minor in TESTED_TORCH}


def test_the_report_page_is_the_module() -> None:
    written = (ROOT / "docs" / "report.md").read_text(encoding="utf-8")
    assert written == _script("report_page").page(), "run scripts/report_page.py"


def test_the_page_of_devices_is_the_catalogue() -> None:
    written = (ROOT / "docs" / "devices.md").read_text(encoding="utf-8")
    assert written == _script("devices_page").page(), "run scripts/devices_page.py"


def test_the_table_of_editors_is_what_the_server_decides() -> None:
    script = _script("editors_page")
    assert script.PAGE.read_text(encoding="utf-8") == script.page(), "run scripts/editors_page.py"


def test_the_extension_has_the_fields_of_the_server() -> None:
    script = _script("message_types")
    for output in script.OUTPUTS:
        text = output.path.read_text(encoding="utf-8")
        assert text == script.text_of(output), f"{output.path.name}: run scripts/message_types.py"


class _Row(typing.TypedDict):
    """A row."""

    shownName: str
    """As `a.py`."""
    side: typing.Literal["left", "right"]
    rows: list[_Row]


class _Part(_Row):
    """A part."""

    size: int | None


@attrs.define
class _Params:
    """What is asked for."""

    uri: str
    with_: str | None = None


def test_a_message_is_written_with_its_keys_its_comments_and_those_of_its_base() -> None:
    script, side = _script("message_types"), typing.Literal["left", "right"]
    keys = "/** As `a.py`. */\n  readonly shownName: string;\n  readonly side: Side;\n"
    keys += "  readonly rows: readonly _Row[];\n"
    assert script.interface(_Row, {side: "Side"}) == f"/** A row. */\nexport interface _Row {{\n  {keys}}}\n"
    assert script.interface(_Part, {side: "Side"}) == (
        f"/** A part. */\nexport interface _Part {{\n  {keys}  readonly size: number | null;\n}}\n"
    )


def test_what_a_request_may_leave_out_is_optional() -> None:
    text = _script("message_types").interface(_Params)
    assert "readonly uri: string;" in text
    assert "readonly with?: string | null;" in text


def test_texts_without_a_name_are_refused() -> None:
    script = _script("message_types")
    with pytest.raises(script.UnknownTypeError):
        script.type_of(typing.Literal["left", "right"])


def test_a_field_with_a_default_is_refused_as_the_codec_leaves_it_out() -> None:
    script = _script("message_types")
    kind = dataclasses.make_dataclass("Cell", [("text", str, "")], namespace={"__doc__": "A cell."})
    with pytest.raises(script.UnknownTypeError, match=r"Cell\.text"):
        script.interface(kind)


@pytest.mark.parametrize(
    ("hint", "text"),
    [
        (int | None, "number | null"),
        (tuple[str, ...], "readonly string[]"),
        (tuple[tuple[float | None, int], ...], "readonly (readonly [number | null, number])[]"),
        (dict[str, bool], "Readonly<Record<string, boolean>>"),
        (report.Clock, "Clock"),
    ],
)
def test_types_of_python_have_types_of_typescript(hint: object, text: str) -> None:
    assert _script("message_types").type_of(hint) == text


def test_the_report_page_names_every_field() -> None:
    text = (ROOT / "docs" / "report.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^### (\w+)\n(.*?)(?=^##|\Z)", text, re.MULTILINE | re.DOTALL))
    for name, kind in inspect.getmembers(report, dataclasses.is_dataclass):
        for item in dataclasses.fields(kind):
            assert f"| `{item.name}` |" in sections[name], f"{name}.{item.name} is not in docs/report.md"


def test_the_report_page_names_every_key_of_checks_json() -> None:
    section = (ROOT / "docs" / "report.md").read_text(encoding="utf-8").partition("## The JSON of check")[2]
    source = (ROOT / "server" / "fuselight_server" / "cli" / "formats" / "json.py").read_text(
        encoding="utf-8"
    )
    keys = {
        key.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Dict)
        for key in node.keys
        if isinstance(key, ast.Constant) and isinstance(key.value, str)
    }
    assert len(keys) > 30
    assert sorted(key for key in keys if f"`{key}`" not in section) == []


def test_the_page_of_kernels_names_every_key_of_its_json() -> None:
    section = (
        (ROOT / "docs" / "kernels.md").read_text(encoding="utf-8").partition("## The JSON of kernels")[2]
    )
    source = (ROOT / "server" / "fuselight_server" / "cli" / "formats" / "kernels.py").read_text(
        encoding="utf-8"
    )
    nodes = list(ast.walk(ast.parse(source)))
    keys = {
        key.value
        for node in nodes
        if isinstance(node, ast.Dict)
        for key in node.keys
        if isinstance(key, ast.Constant)
    }
    keys |= {
        node.slice.value
        for node in nodes
        if isinstance(node, ast.Subscript)
        and isinstance(node.slice, ast.Constant)
        and isinstance(node.ctx, ast.Store)
    }
    assert len(keys) > 30
    names = [key for key in keys if isinstance(key, str)]
    assert sorted(name for name in names if f"`{name}`" not in section) == []


def test_the_page_of_measuring_names_configurations_work_and_gaps() -> None:
    text = (ROOT / "docs" / "measuring.md").read_text(encoding="utf-8")
    names = [configurations.EAGER, configurations.WRITTEN, "dynamic", *configurations.MODES]
    names += [work.value for kind in (report.Work, report.GapKind) for work in kind]
    assert [name for name in names if f"`{name}`" not in text] == []
    assert "`backend:NAME`" in text
    assert [flag for flag in configurations._FLAGS if f"+{flag}" not in text] == []


def test_the_page_of_measuring_has_the_numbers_of_the_code() -> None:
    """Each as the page says it, so that neither changes without the other."""
    text = re.sub(r"\s+", " ", (ROOT / "docs" / "measuring.md").read_text(encoding="utf-8"))
    plan = MeasurePlan()
    for words in (
        f"the median of the last {steady_state.WINDOW} calls is within {steady_state.NEAR:.0%}".replace(
            "%", " %"
        ),
        f"**Rounds**: {plan.rounds}, fewer",
        f"`fuselight.bench.seconds` ({plan.seconds:g} by default",
        f"A spread above {steady_state.UNSTEADY:.0%}".replace("%", " %"),
        f"as its share of the time allows, {steady_state._CALLS:,} at the most",
        f"`fuselight.bench.timeLimit` seconds ({plan.limit_seconds:g})",
        f"does not answer within {nvidia_smi._SECONDS:g} seconds",
    ):
        assert words in text


def test_the_page_of_tuning_has_every_knob_and_its_meaning() -> None:
    text = (ROOT / "docs" / "tuning.md").read_text(encoding="utf-8")
    for knob in KNOBS:
        parts = ", ".join(f"`+{part}`" for part in knob.parts)
        row = f"| `{knob.name}` | {knob_label(knob.name)}: {knob.about} | {bound_words(knob.bound)} | "
        assert any(line.startswith(row) and line.endswith(f" | {parts} |") for line in text.splitlines()), row
        if knob.assumes_fixed_modules:
            assert any(line.startswith(row) and "`--fixed-modules`" in line for line in text.splitlines()), (
                row
            )
    assert [numerics.value for numerics in report.Numerics if f"`{numerics.value}`" not in text] == []


def test_each_command_has_a_page_that_tells_of_it_and_a_line_in_the_readme() -> None:
    pages = (ROOT / "docs/README.md").read_text(encoding="utf-8")
    rows = dict(
        re.findall(r"^\| `fuselight (\w+)` \| \[.+?\]\(([\w-]+\.md)[^)]*\).* \|$", pages, re.MULTILINE)
    )
    lines = set(re.findall(r"fuselight (\w+)", (ROOT / "README.md").read_text(encoding="utf-8")))
    assert rows.keys() == COMMANDS.keys()
    assert not COMMANDS.keys() - lines
    for command, page in rows.items():
        assert f"fuselight {command}" in (ROOT / "docs" / page).read_text(encoding="utf-8"), command


@pytest.mark.parametrize("command", COMMANDS)
def test_each_option_is_on_a_page(command: str) -> None:
    parser = argparse.ArgumentParser(add_help=False)
    importlib.import_module(f"fuselight_server.cli.{command}").add_arguments(parser)
    pages = [page for page in PAGES if page.name != "CHANGELOG.md"]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    named = set(re.findall(r"(?<![\w-])--?\w[\w-]*", text))
    options = [action.option_strings for action in parser._actions if action.option_strings]
    assert [names for names in options if not named & {*names}] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(
        r"\]\((?!https?:|command:)([^)#\s]*)(?:#([^)\s]+))?\)", page.read_text(encoding="utf-8")
    )
    missing = [target for target, _ in links if not (page.parent / target).exists()]
    assert not missing
    anchors = [(page.parent / target if target else page, anchor) for target, anchor in links if anchor]
    assert [(at.name, anchor) for at, anchor in anchors if anchor not in _anchors(at)] == []


def _anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and VS Code build them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_make_targets_that_the_pages_name_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = {
        target
        for page in PAGES
        for target in re.findall(r"[`$] ?make ([a-z]+)", page.read_text(encoding="utf-8"))
    }
    assert named <= targets
    scripts = set(re.findall(r"scripts/\w+\.py", (ROOT / "Makefile").read_text(encoding="utf-8")))
    assert not [script for script in scripts if not (ROOT / script).is_file()]


_DEVELOPERS = ("CONTRIBUTING.md", "architecture.md", "internals.md")
"""Pages whose bare names of modules are ours; other pages name files of a user, too."""
_OF_OTHERS = re.compile(
    r"\.|dist/|benchmarks/dynamo/|\d+/\d+$|(?:window|workspace|textDocument|codeAction|codeLens)/"
)
"""What a run or a build writes, files of torch's repository, fractions, and methods of LSP."""
_PLACEHOLDER = re.compile(r"NAME|nnn|\*")


def _tracked_endings() -> set[str]:
    """Every file and folder of the repository, by each ending of its path: `verify/verification.py`."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    endings: set[str] = set()
    for line in listed.stdout.splitlines():
        if not (ROOT / line).exists():
            continue
        parts = line.split("/")
        for stop in range(1, len(parts) + 1):
            endings.update("/".join(parts[start:stop]) for start in range(stop))
    return endings


def _named_paths(page: Path) -> list[str]:
    words = re.findall(r"`([^`\n]+)`", page.read_text(encoding="utf-8"))
    paths = [
        word for word in words if re.fullmatch(r"[\w.*-]+(/[\w.*-]*)+", word) and not _OF_OTHERS.match(word)
    ]
    if page.name in _DEVELOPERS:
        paths += [word for word in words if re.fullmatch(r"\w+\.(py|ts)", word)]
    return paths


def test_files_and_folders_that_the_pages_name_exist() -> None:
    """A folder that was renamed or moved is found here, wherever a page names it."""
    endings = _tracked_endings()
    named = [(page, word) for page in PAGES for word in _named_paths(page)]
    assert len(named) > 150
    missing = [
        f"{page.relative_to(ROOT)}: `{word}`"
        for page, word in named
        if not _PLACEHOLDER.search(word) and word.rstrip("/") not in endings
    ]
    assert not missing, "\n".join(missing)
    patterns = [(page, word) for page, word in named if "*" in word]
    unmatched = [f"{page.relative_to(ROOT)}: `{word}`" for page, word in patterns if not [*ROOT.glob(word)]]
    assert not unmatched, "\n".join(unmatched)


def test_names_of_code_that_the_pages_for_developers_have_exist() -> None:
    """`NAME` of a module, and `Class.member`: a rename is found here, wherever one of these pages has the old name."""
    modules = {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
        for folder in ("compiler", "server", "extension/src", "tests/support")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in {".py", ".ts"}
    }
    missing: list[str] = []
    for page in (page for page in PAGES if page.name in _DEVELOPERS):
        text = re.sub(r"\s+", " ", page.read_text(encoding="utf-8"))
        for name, ending in re.findall(r"`(\w+)` (?:of|in) `([\w/]+\.(?:py|ts))`", text):
            texts = [code for path, code in modules.items() if f"/{path}".endswith(f"/{ending}")]
            if not _PLACEHOLDER.search(ending) and not any(re.search(rf"\b{name}\b", code) for code in texts):
                missing.append(f"{page.name}: `{name}` of `{ending}`")
        for kind, member in re.findall(r"`([A-Z]\w+)\.(\w+)`", text):
            texts = [code for code in modules.values() if f"class {kind}" in code]
            if texts and not any(re.search(rf"^    .*\b{member}\b", code, re.MULTILINE) for code in texts):
                missing.append(f"{page.name}: `{kind}.{member}`")
    assert not missing, "\n".join(missing)


def test_each_promise_of_safety_names_tests_that_exist() -> None:
    rows = [
        line
        for line in (ROOT / "docs" / "safety.md")
        .read_text("utf-8")
        .partition("## Not trusted")[2]
        .splitlines()
        if line.startswith("| ") and not line.startswith("| what")
    ]
    assert len(rows) > 20
    for row in rows:
        tests = re.findall(r"`(tests/[\w/]+\.py)`", row)
        assert tests, row
        missing = [name for name in tests if "def test_" not in (ROOT / name).read_text("utf-8")]
        assert not missing, row
