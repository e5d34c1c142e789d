"""`make site`: the documentation as pages for a browser, in `dist/site/`: they can be searched, and need no server.

Invariant: a link that leads nowhere fails the build. What a page links to outside of the documentation is an address of
REPOSITORY, or plain text where none is named.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

from bootstrap import ensure_environment
from node_tools import CACHE, ROOT, Unavailable
from packaged_pages import packaged, with_addresses
from release import Release
from ring_environments import PAGES, ensure_packages

OUT = ROOT / "dist" / "site"
_PAGES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "tests/README.md")
_GROUPS = {
    "Start": (
        "README", "docs/inputs", "docs/libraries", "docs/editor", "docs/editors", "docs/notebooks", "docs/settings",
    ),
    "Findings and fixes": ("docs/findings/index", "docs/fixes", "docs/verification", "docs/live", "docs/forecast"),
    "Right results": ("docs/accuracy", "docs/repro"),
    "Memory": ("docs/memory",),
    "Kernels and times": (
        "docs/kernels", "docs/triton", "docs/devices", "docs/operators", "docs/bench", "docs/measuring", "docs/tuning",
        "docs/replay",
    ),
    "Jobs": ("docs/jobs", "docs/ranks", "docs/caches", "docs/upgrade"),
    "Tests, CI and agents": ("docs/ci", "docs/pytest", "docs/check-again", "docs/sweeps", "docs/suites", "docs/agents"),
    "Limits": ("docs/safety", "docs/limits", "docs/doctor"),
}  # fmt: skip
_RESULTS = "docs/results/"
_NOT_SEARCHED = "CHANGELOG.md"
"""It has nearly every word, so that it would be the first result of each search."""
_NAMED_BY_FILE = re.compile(r"\[[\w./-]+(?:\.md|/)\](?=\((?!https?:)[\w./-]+\.md[#)])")
"""Links that show the name of a file, as pages in a repository do."""
_CONFIGURATION = """\
project = "Fuselight"
author = copyright = "the developers of Fuselight"
extensions = ["myst_parser"]
myst_heading_anchors = 4
myst_enable_extensions = []
html_theme = "furo"
html_title = "Fuselight"
html_static_path = []
html_copy_source = False
html_show_search_summary = False  # it is fetched, which a browser refuses for files
html_show_sphinx = False
suppress_warnings = ["myst.header"]
exclude_patterns = []
"""


def pages_of(root: Path) -> tuple[str, ...]:
    """The pages of the site, relative to the root of the repository."""
    return (*_PAGES, *sorted(path.relative_to(root).as_posix() for path in (root / "docs").rglob("*.md")))


def stage_pages(root: Path, stage: Path, release: Release | None) -> None:
    """Write the pages and their pictures below `stage`."""
    pages = pages_of(root)
    pictures = [path.relative_to(root).as_posix() for path in (root / "docs" / "images").iterdir()]
    inside = frozenset((*pages, *pictures, "docs/findings/index.md"))
    for name in pictures:
        target = stage / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / name, target)
    for name in pages:
        target = stage / name
        target.parent.mkdir(parents=True, exist_ok=True)
        text = _linked((root / name).read_text(encoding="utf-8"))
        if release is not None:
            text = with_addresses(name, release.named(text), *release.addresses(), inside=inside)
        else:
            text = packaged(name, text, inside)
        head = "---\nnosearch: true\n---\n" if name == _NOT_SEARCHED else ""
        target.write_text(head + _titled(text), encoding="utf-8")
    (stage / "docs" / "findings" / "index.md").write_text(_findings(root), encoding="utf-8")
    (stage / "index.md").write_text(_index(root), encoding="utf-8")
    (stage / "conf.py").write_text(_CONFIGURATION, encoding="utf-8")


def _findings(root: Path) -> str:
    names = "\n".join(path.stem for path in sorted((root / "docs" / "findings").glob("*.md")))
    return f"# Findings\n\n```{{toctree}}\n:maxdepth: 1\n\n{names}\n```\n"


def _index(root: Path) -> str:
    listed = {name for names in _GROUPS.values() for name in names}
    names = [name.removesuffix(".md") for name in pages_of(root)]
    rest = [name for name in names if name not in listed and not name.startswith("docs/findings/")]
    results = tuple(name for name in rest if name.startswith(_RESULTS))
    groups = {**_GROUPS, "Results": results, "More": tuple(name for name in rest if name not in results)}
    trees = "\n\n".join(
        f"```{{toctree}}\n:caption: {title}\n:hidden:\n:maxdepth: 1\n\n" + "\n".join(entries) + "\n```"
        for title, entries in groups.items()
    )
    start = (root / "README.md").read_text(encoding="utf-8").partition("\n## ")[0]
    text = (root / "docs" / "README.md").read_text(encoding="utf-8")
    questions = with_addresses("docs/README.md", text.partition("\n")[2], "", "")  # from docs/ to the root
    begin = "[Install it, and take the two-minute tour](README.md)."
    return f"{start}\n{begin}\n{_titled(_linked(questions))}\n{trees}\n"


def _titled(text: str) -> str:
    """Links show the title of their page or section in place of the name of its file."""
    return _NAMED_BY_FILE.sub("[]", text)


def _linked(text: str) -> str:
    """Links to folders lead to a page that lists what is in them."""
    return re.sub(r"\]\(((?:docs/)?findings)\)", r"](\1/index.md)", text)


def build(release: Release | None = None) -> Path:
    """Build the site; returns its folder. Raises Unavailable."""
    stage = CACHE / "site-pages"
    shutil.rmtree(stage, ignore_errors=True)
    stage.mkdir(parents=True)
    stage_pages(ROOT, stage, release)
    shutil.rmtree(OUT, ignore_errors=True)
    python = ensure_packages(PAGES, ensure_environment(torch=False))
    command = [str(python), "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", str(stage), str(OUT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Unavailable(f"the site could not be built:\n{done.stderr[-4000:]}")
    return OUT


def main() -> None:
    """Command line: `documentation.py [REPOSITORY VERSION]`."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("repository", nargs="?", default="", help="where links out of the documentation lead")
    parser.add_argument("version", nargs="?", default="", help="of the release; its tag is linked to")
    options = parser.parse_args()
    try:
        release = Release.of(options.repository, options.version) if options.repository else None
        folder = build(release)
    except Unavailable as why:
        sys.exit(str(why))
    pages = list(folder.rglob("*.html"))
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"{len(pages)} pages, {size / 1e6:.1f} MB: open {(folder / 'index.html').relative_to(ROOT)}")


if __name__ == "__main__":
    main()
