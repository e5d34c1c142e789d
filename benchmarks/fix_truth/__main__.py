"""Runs programs made to fool the fixes before and after each offered fix, and compares what their probes observe.

    python -m benchmarks.fix_truth [--set own|blind] [--programs A,B] [--out FILE]

A program is a file `programs/SET/NAME.py`, or a folder `NAME/` with `main.py` and the files that it imports. Beside its
`# fuselight:` directives it has functions `probe_*()`, which build what they need, call the target on other inputs and
return everything observable. The first word of a probe's docstring names its family of cases: size, gradients, mode,
dtype, extreme, half, nonfinite, empty, state, hooks, output, strides, row, number, type, transform or other.

Each offer is judged by its class (docs/verification.md), in eager mode and compiled: `exact` bit for bit, with types,
flags and strides (compiled: rounding); `equal` with rounding; `changes` may differ as it says. A difference in a family
that the title of the offer excepts is admitted. Nothing of the product's own verification is used for that. What was
judged before is taken from `--out`, if neither the program nor the version of Fuselight changed.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
for _part in (".", "compiler", "server"):
    sys.path.insert(0, str(ROOT / _part))

from benchmarks.fix_truth.observation import difference  # noqa: E402 - the path is set above
from benchmarks.fix_truth.offers import OTHER, Offer, Offered, main_file, offered  # noqa: E402

PROGRAMS = Path(__file__).parent / "programs"
_BATCH = 12
"""Programs of one worker."""
_TEXT = ("printed", "logged", "stderr", "warned")
_GRAD_FN = re.compile(r", grad_fn=<\w+>")
_NAMED = 2
"""Length of the observation of a text."""
_RUNNER = Path(__file__).parent / "probe_runner.py"


class Probes:
    """The process that runs probes."""

    def __init__(self, folder: Path) -> None:
        """Start it. `folder`: for its results."""
        self._folder = folder
        with (folder / "log.txt").open("wb") as log:  # torch prints a traceback of each failing trace
            self._process = subprocess.Popen(
                [sys.executable, str(_RUNNER)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self._number = 0

    def observe(self, folder: Path, main: Path, *, compiled: bool) -> dict[str, Any]:
        """The observations of each probe of a text; empty if the process died."""
        self._number += 1
        out = self._folder / f"{self._number}.json"
        job = {"folder": str(folder), "main": str(main), "compiled": compiled, "out": str(out)}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        while (line := self._process.stdout.readline()) and line != "done\n":
            pass
        if not out.exists():
            return {}
        data: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
        return data

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def differences(old: dict[str, Any], new: dict[str, Any], offer: Offer, *, compiled: bool) -> list[str]:
    """What differs between two observations of one probe that the class of the offer does not admit."""
    changes = offer.changes if offer.fix_class == "changes" else ""
    raised = old["raised"], new["raised"]
    if compiled and all(raised):  # Dynamo wraps exceptions of its own run of the code
        return []
    has_named = old["result"] != new["result"] and (
        _names(offer, _exception(old), _exception(new)) or (_may_raise(changes) and _is_text(old, new))
    )
    if raised[0] != raised[1]:
        admitted = _may_raise(changes) or has_named or _names(offer, *raised)
        return [] if admitted else [f"raised {raised[0] or 'nothing'}, raises {raised[1] or 'nothing'}"]
    if has_named:
        return []
    if compiled:
        old, new = ({**entry, "result": _without_exceptions(entry["result"])} for entry in (old, new))
    rounding = compiled or offer.fix_class != "exact"
    values = "random" not in changes and "skipped layer" not in changes
    strides = offer.fix_class == "exact" and not compiled
    texts = [difference(old["result"], new["result"], rounding=rounding, strides=strides, values=values)]
    shown = any(word in changes for word in ("print", "log", "warn", "effect", "time"))
    if shown and compiled and old["family"] in {"output", "state"}:  # which may be what the program has shown
        return []
    is_reordered = compiled and "order of what is printed" in changes
    if compiled and ("grad_fn" in changes or is_reordered):
        old, new = ({**seen, "printed": _GRAD_FN.sub("", seen["printed"])} for seen in (old, new))
    if is_reordered:
        old, new = ({**seen, "printed": sorted(seen["printed"].splitlines())} for seen in (old, new))
    if is_reordered or not (shown and (compiled or "in compiled calls" not in changes)):
        names = ("printed",) if is_reordered else ("printed", "logged") if compiled else _TEXT
        texts += [
            f"{name} {old[name]!r:.60}, now {new[name]!r:.60}" for name in names if old[name] != new[name]
        ]
    return [text for text in texts if text]


def _without_exceptions(value: Any) -> Any:
    """An observation in which each name of an exception, which a probe has caught, is the same."""
    if isinstance(value, (list, tuple)):
        if len(value) == _NAMED and value[0] == "str" and str(value[1]).endswith("Error'"):
            return ["str", "'Error'"]
        return [_without_exceptions(result) for result in value]
    return value


def _may_raise(changes: str) -> bool:
    return "rais" in changes or "fail" in changes


def _is_text(*seen: dict[str, Any]) -> bool:
    """Whether a probe returned a text, which may be the message of an exception that it caught."""
    return any(entry["result"][0] == "str" for entry in seen)


def _exception(seen: dict[str, Any]) -> str:
    """The name of the exception that a probe raised, or that it caught and returned; empty if there is none."""
    text = str(seen["result"][1]).strip("'\"") if _is_text(seen) else ""
    return seen["raised"] or (text if text.endswith("Error") else "")


def _names(offer: Offer, old: str, new: str) -> bool:
    """Whether the title says what becomes of an exception: `ValueError becomes TypeError`, or is no longer raised."""
    return any(
        old == was and (new == now or (now == OTHER and new not in {"", old})) for was, now in offer.raises
    )


def judge(program: Path, copy: Path, offered_choices: Offered, probes: Probes) -> dict[str, Any]:
    """Run the probes of each offer, and compare."""
    main = main_file(copy)
    result: dict[str, Any] = {
        "program": program.stem,
        "set": program.parent.name,
        "refused": offered_choices.refused,
    }
    result["failures"], result["offers"] = offered_choices.failures, []
    if not offered_choices.offers:
        return result
    old = {compiled: probes.observe(copy.parent, main, compiled=compiled) for compiled in (False, True)}
    again = probes.observe(copy.parent, main, compiled=False)
    result["unstable"] = sorted(name for name in old[False] if old[False][name] != again.get(name))
    result["raising"] = sorted(
        f"{name}: {value['raised']}" for name, value in old[False].items() if value["raised"]
    )
    result["probes"] = len(old[False])
    for offer in offered_choices.offers:
        broken, admitted = _broken(offer, copy, old, probes, unstable=result["unstable"])
        result["offers"].append({**offer.as_data(), "broken": broken, "admitted": admitted})
    return result


def _broken(
    offer: Offer, copy: Path, old: dict[bool, dict[str, Any]], probes: Probes, *, unstable: list[str]
) -> tuple[list[str], list[str]]:
    """The probes that an offer breaks, and those whose difference its title excepts."""
    main = main_file(copy)
    before = {path: Path(path).read_text(encoding="utf-8") for path in offer.texts}
    for path, text in offer.texts.items():
        Path(path).write_text(text, encoding="utf-8")
    try:
        new = {compiled: probes.observe(copy.parent, main, compiled=compiled) for compiled in (False, True)}
    finally:
        for path, text in before.items():
            Path(path).write_text(text, encoding="utf-8")
    broken: list[str] = []
    admitted: list[str] = []
    for compiled in (False, True):
        mode = "compiled" if compiled else "eager"
        if not old[compiled] or not new[compiled]:
            broken.append(f"{mode}: the process died, so that nothing was compared")
        for name, value in new[compiled].items():
            if name in unstable or name not in old[compiled]:
                continue
            why = differences(old[compiled][name], value, offer, compiled=compiled)
            if why and compiled:  # a compiled call may also do what eager mode did
                why = differences(old[False][name], value, offer, compiled=True) and why
            family = old[compiled][name]["family"]
            if why:
                (admitted if _is_excepted(family, offer) else broken).append(
                    f"{mode} {name} ({family}): {why[0]}"
                )
    return broken, admitted


_FAMILIES = {
    "unused gradients": ("gradients",),
    "frozen": ("gradients",),
    "second gradients": ("gradients",),
    "kind": ("state",),
    "memory": ("output", "state"),
    "extreme": ("extreme", "dtype"),
}
"""Families of probes for what a title excepts, where the names differ: an overflow of float16 may be either."""

_LIMITS = (
    ("one selected row", "row"),
    ("must be a finite number", "number"),
    ("must be finite numbers", "number"),
    ("as doubles", "number"),
    ("is rounded first", "half"),
    ("takes only", "type"),
    ("fails under torch.func", "transform"),
)
"""What a title says after `but`, and the family of probes that it excepts."""


def _is_excepted(family: str, offer: Offer) -> bool:
    if any(words in offer.words and family == name for words, name in _LIMITS):
        return True
    if family == "strides" and family in offer.changes:
        return True
    if family == "half" and "half-precision" in offer.changes:
        return True
    if family == "extreme" and "order of additions" in offer.changes:
        return True
    return any(family in _FAMILIES.get(text, (text,)) for text in offer.excepted)


def version() -> str:
    """What decides about offers: the sources of the product."""
    digest = hashlib.sha256()
    for part in ("server/fuselight_server/fixes", "compiler/fuselight", "benchmarks/fix_truth"):
        for path in sorted((ROOT / part).rglob("*.py")):
            if "programs" not in path.parts:
                digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _digest(program: Path) -> str:
    files = sorted(program.rglob("*.py")) if program.is_dir() else [program]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]


def programs_of(name: str | None, chosen: set[str]) -> list[Path]:
    """The programs of a set, or of all."""
    folders = [PROGRAMS / name] if name else sorted(path for path in PROGRAMS.iterdir() if path.is_dir())
    paths = [
        path
        for folder in folders
        for path in sorted(folder.iterdir())
        if path.suffix == ".py" or (path / "main.py").exists()
    ]
    return [path for path in paths if not chosen or path.stem in chosen]


def run(programs: list[Path], out: Path | None) -> list[dict[str, Any]]:
    """Judge programs; those that `out` has are not judged again."""
    known: dict[tuple[str, ...], dict[str, Any]] = {}
    if out is not None and out.exists():
        for line in out.read_text(encoding="utf-8").splitlines():
            data = json.loads(line)
            known[data["set"], data["program"], data["digest"], data["version"]] = data
    current = version()
    results = {
        program: known.get((program.parent.name, program.stem, _digest(program), current))
        for program in programs
    }
    left = [key for key, result in results.items() if result is None]
    for result in filter(None, results.values()):
        show(result)
    if not left:
        return [result for result in results.values() if result is not None]
    with tempfile.TemporaryDirectory(prefix="fuselight-truth-", ignore_cleanup_errors=True) as name:
        folder = Path(name).resolve()
        (folder / "observed").mkdir()
        probes = Probes(folder / "observed")
        try:
            for first in range(0, len(left), _BATCH):
                _run_batch(left[first : first + _BATCH], folder / str(first), probes, results, out=out)
        finally:
            probes.close()
    return [result for result in results.values() if result is not None]


def _run_batch(
    programs: list[Path],
    folder: Path,
    probes: Probes,
    results: dict[Path, dict[str, Any] | None],
    *,
    out: Path | None,
) -> None:
    """Judge some programs with one worker, and keep each result as soon as it is known."""
    current = version()
    copies: dict[Path, tuple[Path, Path]] = {}
    for program in programs:
        copy = folder / f"{program.parent.name}-{program.stem}" / program.name
        copy.parent.mkdir(parents=True)
        (copy.parent / "pyproject.toml").touch()
        (shutil.copytree if program.is_dir() else shutil.copy)(program, copy)
        copies[main_file(copy)] = program, copy

    def done(main: Path, offered_choices: Offered) -> None:
        program, copy = copies[main]
        result = {
            **judge(program, copy, offered_choices, probes),
            "digest": _digest(program),
            "version": current,
        }
        results[program] = result
        show(result)
        if out is not None:
            with out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(result) + "\n")

    asyncio.run(offered(list(copies), folder / "records", done))


def show(result: dict[str, Any]) -> None:
    """Print a program with its offers."""
    name = f"{result['set']}/{result['program']}"
    if not result["offers"]:
        why = "; ".join((*result["failures"], *result["refused"])) or "no remedy"
        print(f"{name}: no offer: {why:.300}", flush=True)
    for offer in result["offers"]:
        verdict = "BROKEN" if offer["broken"] else "kept"
        print(
            f"{name}: {verdict}: {offer['title']} ({offer['kind']}, {offer['fix_class']}): {offer['words']}",
            flush=True,
        )
        for line in offer["broken"]:
            print(f"    {line}", flush=True)
        for line in offer["admitted"]:
            print(f"    excepted: {line}", flush=True)
    for name in result.get("unstable", ()):
        print(f"    {name} differs from itself", flush=True)


def print_table(results: list[dict[str, Any]]) -> int:
    """Print the totals; returns how many offers break their class."""
    print("\n| set | programs | without an offer | offers | exact | equal | changes | break their class |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    total = 0
    for name in sorted({result["set"] for result in results}):
        of_set = [result for result in results if result["set"] == name]
        offers = [offer for entry in of_set for offer in entry["offers"]]
        broken = sum(bool(offer["broken"]) for offer in offers)
        classes = [
            sum(offer["fix_class"] == kind for offer in offers) for kind in ("exact", "equal", "changes")
        ]
        without = sum(not entry["offers"] for entry in of_set)
        print(
            f"| {name} | {len(of_set)} | {without} | {len(offers)} | {' | '.join(map(str, classes))} | {broken} |"
        )
        total += broken
    return total


def main() -> int:
    """Judge, print, and answer with 1 if an offer breaks its class."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--set", choices=("own", "blind"))
    parser.add_argument("--programs", default="", help="names, with commas")
    parser.add_argument("--out", type=Path, help="file of results (JSON lines), which is continued")
    options = parser.parse_args()
    chosen = {part for part in options.programs.split(",") if part}
    programs = programs_of(options.set, chosen)
    if not programs:
        parser.error("no such program")
    return 1 if print_table(run(programs, options.out)) else 0


if __name__ == "__main__":
    sys.exit(main())
