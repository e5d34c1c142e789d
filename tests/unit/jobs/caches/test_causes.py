"""Planted causes of misses and bypasses in recorded starts: each is named, and nothing else is."""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from fuselight_server.jobs.caches.def_lines import shown_function, shown_place
from fuselight_server.jobs.caches.findings import cache_findings
from fuselight_server.jobs.caches.model import CacheCause, CacheResult, CacheSummary, CauseKind
from fuselight_server.jobs.caches.summary import summarize
from fuselight_server.jobs.trace_log.model import (
    AttemptState,
    CacheName,
    CacheState,
    CompileAttempt,
    CompileId,
    LogFrame,
    LoggedCompile,
    LoggedJob,
)
from fuselight_server.jobs.trace_log.reader import read_jobs

RECORDINGS = Path(__file__).parents[3] / "recordings"
RELEASES = sorted((RECORDINGS / "caches").glob("torch-*"))

AOT, FX = CacheName.AOTAUTOGRAD, CacheName.FX_GRAPH
CHANGED, BYPASS = CauseKind.KEY_CHANGED, CauseKind.BYPASS
CAUSES = {
    "inductor_option": "torch._inductor.config.max_fusion_size: 48 -> 24",
    "environment": (
        "environment variable TORCHINDUCTOR_MAX_AUTOTUNE: unset -> 1; "
        "torch._inductor.config.max_autotune: False -> True"
    ),
    "matmul_precision": (
        "precision of float32 matrix multiplications (torch.set_float32_matmul_precision): ieee -> tf32"
    ),
    "deterministic": "deterministic algorithms (torch.use_deterministic_algorithms): False -> True",
    "input_size": "input 2 `x`: size 4x8 -> 6x8",
    "input_stride": "input 2 `x`: stride (8, 1) -> (1, 4)",
    "input_dtype": (
        "input 0 `self.up.weight`: float32 -> float64; input 1 `self.up.bias`: float32 -> float64; "
        "input 2 `x`: float32 -> float64"
    ),
    "edited_line": "the graph has new operators in train.py:{line}: `h = torch.relu(self.up(x)) + 1`",
    "swapped_lines": "the graph differs in train.py:{line}: `return h.sum(-1)` -> `return h.amax(-1)`",
    "constant": "the graph differs in train.py:{line}: `h * 0.5` -> `h * 0.25`",
    "threads": "number of threads (torch.get_num_threads): 2 -> 1",
    "tag": "cache key tag (TORCH_COMPILE_CACHE_KEY_TAG): empty -> blue",
    "custom_pass": "torch._inductor.config.post_grad_custom_post_pass: tidy 1 -> tidy 2",
    "default_dtype": "default dtype (torch.set_default_dtype): torch.float32 -> torch.bfloat16",
    "dynamo_setting": (
        "torch._dynamo.config.assume_static_by_default: True -> False; the graph differs in train.py:{line}: "
        "`h * 0.5` -> `l_self_gain.item(); h * item`; input 2 `s77`: absent -> a dynamic size; and 2 more"
    ),
    "gradients": "gradients (torch.set_grad_enabled): False -> True",
    "autocast_around": "autocast around the compiled call, cpu: absent -> torch.bfloat16",
    "cuda_graphs": (
        "torch._inductor.config.max_fusion_size: 48 -> 64; "
        "torch._inductor.config.triton.cudagraphs: False -> True"
    ),
}
"""What a start differs in from the base start, in the words of both of its caches."""
LINES = {
    "edited_line": "torch.relu(self.up(x)) + 1",
    "swapped_lines": "h.amax(-1)",
    "constant": "h * self.gain",
    "dynamo_setting": "h * self.gain",
}
"""The line of the program that a cause names."""
BYPASSES = {
    "autocast_inside": ("autocast is entered inside the compiled function", "with torch.autocast", "miss"),
    "autograd_function": ("an autograd.Function is inside the compiled function", "Cubed.apply(h)", "miss"),
    "unknown_function": ("`__main__.folded` is called in the graph", "folded(h)", "miss"),
    "pass_without_uuid": ("the custom pass on the post grad graph has no `uuid()`", None, "bypass"),
    "freezing": ("freezing is on", None, "bypass"),
    "caches_off": ("the FX graph cache is switched off", None, "bypass"),
}
"""Why AOTAutograd's cache is bypassed, the line with the cause, and what the FX graph cache does where it can."""
CACHED = {("torch-2.14", "autocast_inside"), ("torch-2.15", "autocast_inside")}
"""What a release caches that others do not."""
STORED_AT_ONCE = {"torch-2.15"}
"""Releases whose AOTAutograd stores a graph for gradients without waiting for its backward."""
FORWARD = ("forward_alone", "forward_alone_again")
HITS = ("same", "comment", "renamed", "rank_5")


@functools.cache
def starts() -> ModuleType:
    spec = importlib.util.spec_from_file_location("cache_starts", RECORDINGS / "cache_starts.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@functools.cache
def job_of(release: Path, name: str) -> LoggedJob:
    (job,) = read_jobs([str(release / f"{name}.log.gz")])
    return job


def program(name: str) -> list[str]:
    return str(starts().program_of(name)).split("\n")


def line_with(name: str, text: str) -> int:
    (number,) = [number for number, line in enumerate(program(name), 1) if text in line]
    return number


def compared(release: Path, name: str) -> CacheSummary:
    source = program(name)

    def read_line(path: str, line: int) -> str | None:
        return source[line - 1] if path.endswith("train.py") and 0 < line <= len(source) else None

    return summarize(job_of(release, name), job_of(release, "base"), read_line=read_line)


def cause(rows: tuple[CacheResult, ...], cache: CacheName) -> CacheCause:
    """The cause of the first lookup in a cache, the forward's."""
    return next(row.causes[0] for row in rows if row.cache is cache)


def test_every_recorded_start_is_tested() -> None:
    others = {"base", "another_folder", "functorch_setting", "autocast_unrecorded", *FORWARD}
    assert {*CAUSES, *BYPASSES, *HITS, *others} == set(starts().STARTS)
    for release in RELEASES:
        assert {path.name.removesuffix(".log.gz") for path in release.glob("*.gz")} == set(starts().STARTS)
    assert RELEASES


@pytest.mark.parametrize("name", CAUSES)
@pytest.mark.parametrize("release", RELEASES, ids=lambda release: str(release.name))
def test_the_planted_cause_is_named_and_no_other(release: Path, name: str) -> None:
    rows = compared(release, name).results
    line = line_with(name, LINES[name]) if name in LINES else None
    for cache in (AOT, FX):
        actual = cause(rows, cache)
        assert (actual.kind, actual.text) == (CHANGED, CAUSES[name].format(line=line))
        assert (actual.location.line if actual.location else None) == line
    for finding in cache_findings(compared(release, name), inputs=name):
        assert (finding.code, finding.span.path) == ("FL921", "/job/train.py")
    assert all(row.lost_seconds for row in rows)


@pytest.mark.parametrize(
    ("release", "name"),
    [
        pytest.param(release, name, id=f"{release.name}-{name}")
        for release in RELEASES
        for name in BYPASSES
        if (release.name, name) not in CACHED
    ],
)
def test_the_cause_of_a_bypass_is_on_its_line(release: Path, name: str) -> None:
    words, line, _ = BYPASSES[name]
    rows = compared(release, name).results
    actual = cause(rows, AOT)
    assert actual.kind is BYPASS
    assert actual.text.startswith(words)
    assert actual.cure is not None
    assert actual.torch_reason
    assert (actual.location.line if actual.location else None) == (line_with(name, line) if line else None)
    findings = [row for row in cache_findings(compared(release, name), inputs=name) if row.code == "FL922"]
    assert findings[0].span.line == (line_with(name, line) if line else line_with(name, "def forward(self"))


def test_a_release_that_caches_autocast_has_a_changed_graph_instead() -> None:
    for folder, name in CACHED:
        rows = compared(RECORDINGS / "caches" / folder, name).results
        assert cause(rows, AOT).kind is CHANGED
        assert "_enter_autocast" in cause(rows, AOT).text


def test_where_only_aotautograd_is_bypassed_inductors_code_is_still_cached() -> None:
    for name, (_, _, state) in BYPASSES.items():
        (fx, *_) = [row for row in compared(RELEASES[0], name).results if row.cache is FX]
        expected = {CacheState.BYPASS} if state == "bypass" else {CacheState.MISS, CacheState.HIT}
        assert fx.state in expected, name


@pytest.mark.parametrize("name", HITS)
def test_what_is_no_part_of_a_key_is_no_cause(name: str) -> None:
    summary = compared(RELEASES[0], name)
    assert {row.state for row in summary.results} == {CacheState.HIT}
    assert summary.lost == ()
    assert cache_findings(summary, inputs=name) == []


def test_a_setting_of_aotautograd_is_a_miss_of_its_cache_alone() -> None:
    rows = compared(RELEASES[0], "functorch_setting").results
    assert {row.cache: row.state for row in rows} == {AOT: CacheState.MISS, FX: CacheState.HIT}
    actual = cause(rows, AOT)
    assert actual.text == "torch._functorch.config.treat_parameters_as_free_to_save: True -> False"


def test_another_cache_folder_is_named_where_the_keys_are_equal() -> None:
    for row in compared(RELEASES[0], "another_folder").results:
        (actual,) = row.causes
        assert actual.kind is CauseKind.SAME_KEY
        assert "TORCHINDUCTOR_CACHE_DIR: /job/cache_base -> /job/cache_another_folder" in actual.text


@pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.name)
def test_an_entry_that_waits_for_a_backward_is_no_changed_key(release: Path) -> None:
    summary = summarize(job_of(release, "forward_alone_again"), job_of(release, "forward_alone"))
    assert {row.state for row in summary.results if row.cache is FX} == {CacheState.HIT}
    if release.name in STORED_AT_ONCE:
        assert {row.state for row in summary.results} == {CacheState.HIT}
        assert not cache_findings(summary, inputs="")
        return
    actual = cause(summary.results, AOT)
    assert (actual.kind, "no backward ran" in actual.text) == (CauseKind.NO_BACKWARD, True)
    (finding,) = cache_findings(summary, inputs="")
    assert finding.title == "`forward` was compiled again: its cache entry waits for a backward"


def test_a_key_whose_components_are_not_recorded_says_how_to_record_them() -> None:
    summary = compared(RELEASES[0], "autocast_unrecorded")
    assert cause(summary.results, FX).text == "what torch makes of the same operators changed"
    assert "TORCH_LOGS=+torch._functorch._aot_autograd.autograd_cache" in summary.notes[0]


def test_caches_that_are_switched_off_are_said_to_be() -> None:
    (disabled,) = [row for row in compared(RELEASES[0], "caches_off").results if row.cache is FX]
    assert disabled.causes[0].kind is CauseKind.DISABLED
    assert disabled.causes[0].text.startswith("`torch._inductor.config.fx_graph_cache = False`")
    assert disabled.lost_seconds


def compile_of(frames: list[LogFrame]) -> LoggedCompile:
    number = CompileId(0, 0)
    return LoggedCompile(number, (CompileAttempt(number, 0, AttemptState.FINISHED, tuple(frames)),))


def test_a_library_s_function_is_shown_on_the_call_that_led_there() -> None:
    frames = [
        LogFrame("/job/train.py", 7, "main"),
        LogFrame("/venv/site-packages/timm/layers.py", 3, "call"),
        LogFrame("/venv/site-packages/torch/_dynamo/external_utils.py", 68, "inner"),
    ]
    wrapped = compile_of(frames)
    place = shown_place(wrapped, None)
    assert place is not None
    assert (place.path, place.line, shown_function(wrapped)) == ("/job/train.py", 7, None)
    of_timm = compile_of(frames[:2])
    assert (shown_place(of_timm, None), shown_function(of_timm)) == (place, "call")
    alone = compile_of(frames[1:2])
    assert shown_place(alone, None) == frames[1].location, "no other line is known"
