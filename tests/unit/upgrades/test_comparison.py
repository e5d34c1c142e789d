"""What makes findings, functions and kernels of two versions of torch the same, and what a failed run leaves open."""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fuselight.shared.report import (
    Accuracy,
    CallErrors,
    Compile,
    Culprit,
    Deprecation,
    Device,
    Failure,
    Frame,
    FusedOperator,
    GeneratedGraph,
    Graph,
    Kernel,
    KernelKind,
    Location,
    Outcome,
    Phase,
    ReleaseCall,
    ReleaseOutputs,
    Report,
    Tier,
)
from fuselight_server.base.finding import Finding, SourceLine
from fuselight_server.explain.findings import Thresholds
from fuselight_server.jobs.comparison.model import ChangeVerdict, FindingState
from fuselight_server.upgrades.comparison import compare_target
from fuselight_server.upgrades.lines import compare_lines
from fuselight_server.upgrades.model import (
    ComparedRuns,
    RegressionKind,
    SideReports,
    TargetComparison,
    TargetState,
)
from fuselight_server.upgrades.numerics import result_change
from fuselight_server.upgrades.paths import InstalledPaths, differing_packages, installed_packages
from fuselight_server.upgrades.results import RunsFolder
from fuselight_server.upgrades.rows import reworded_rows, state_row, target_rows
from tests.support.reports import FILE, H100, VERSIONS, at, broken, report

OLD = replace(VERSIONS, torch="2.11.0")
NEW = replace(VERSIONS, torch="2.14.1")
LINES = {number: f"line_{number}(x)" for number in range(1, 60)}
RAISED = Failure(Culprit.USER, "exception", "boom", exception="ValueError", stack=(at(22),))


def compare(before: Report | SideReports, after: Report | SideReports) -> TargetComparison:
    sides = []
    for given, versions in ((before, OLD), (after, NEW)):
        side = SideReports(given) if isinstance(given, Report) else given
        kernels = None if side.kernels is None else replace(side.kernels, versions=versions)
        sides.append(SideReports(replace(side.capture, versions=versions), kernels, side.outputs))
    return compare_target(
        ComparedRuns(FILE, "Net", *sides),
        thresholds=Thresholds(),
        read_line=lambda path, line: LINES.get(line) if path == FILE else None,
        without_ignored=_all,
    )


def _all(given: Iterable[Finding]) -> Iterable[Finding]:
    return given


def states(target: TargetComparison) -> list[tuple[str, str, int]]:
    return [(item.state.value, item.finding.code, item.finding.span.line) for item in target.findings]


def line(number: int) -> Location:
    return at(number, function="Net.forward")


def test_a_finding_of_both_versions_is_the_same_and_others_are_new_or_fixed() -> None:
    before = report(breaks=(broken(line(21)), broken(line(23), gb="GB0059")))
    after = report(breaks=(broken(line(21)), broken(line(25), gb="GB0059", explanation="Another call.")))
    target = compare(before, replace(after, breaks=(after.breaks[0], broken(line(25), gb="GB0010"))))
    assert states(target) == [("new", "GB0010", 25), ("fixed", "GB0059", 23), ("same", "GB0170", 21)]
    assert list(target.regressions()) == [RegressionKind.FINDINGS]


def test_a_cause_that_torch_renamed_or_reworded_is_the_same_finding() -> None:
    before = report(breaks=(broken(line(21), gb="GB0059", reason="Old words", types=("Old type",)),))
    after = report(breaks=(broken(line(21), gb="GB0312", reason="New words", types=("New type",)),))
    target = compare(before, after)
    assert states(target) == [("same", "GB0312", 21)]
    assert not list(target.regressions())
    assert [
        row.startswith("/project/model.py:21: `GB0059` is now `GB0312`") for row in reworded_rows(target, str)
    ] == [True]


def test_the_same_cause_on_another_line_of_the_function_has_moved() -> None:
    target = compare(report(breaks=(broken(line(21)),)), report(breaks=(broken(line(24)),)))
    assert states(target) == [("moved", "GB0170", 24)]
    assert not list(target.regressions())


def test_what_a_failed_run_did_not_reach_is_neither_fixed_nor_new() -> None:
    whole, failed = report(breaks=(broken(line(21)),)), report(failures=(RAISED,))
    lost = compare(whole, failed)
    assert lost.state is TargetState.ONLY_BEFORE
    assert states(lost) == [("new", "FL401", 22)]
    assert [change.finding.code for change in lost.uncompared] == ["GB0170"]
    assert list(lost.regressions()) == [RegressionKind.FAILURES]
    assert state_row(lost, (OLD, NEW)) == "only torch 2.11.0 can run it; 1 finding of that side not compared"

    won = compare(failed, whole)
    assert won.state is TargetState.ONLY_AFTER
    assert states(won) == [("fixed", "FL401", 22)]
    assert not list(won.regressions())

    both = compare(failed, failed)
    assert both.state is TargetState.NEITHER
    assert states(both) == [("same", "FL401", 22)]
    assert not list(both.regressions())
    assert "so nothing else was compared: ValueError: boom" in state_row(both, (OLD, NEW))


@pytest.mark.parametrize(
    ("message", "advice"),
    [
        ("module 'torch.nn' has no attribute 'Gone'", "`torch.nn.Gone` is not in torch 2.14.1"),
        ("cannot import name 'gone' from 'torch.utils' (/x/torch/utils.py)", "`torch.utils.gone` is not in"),
        ("No module named 'torch.gone'", "`torch.gone` is not in torch 2.14.1"),
        ("'Tensor' object has no attribute 'gone'", "`Tensor.gone` is not in torch 2.14.1"),
        ("step() got an unexpected keyword argument 'foo'", "`step` takes no `foo` here"),
    ],
)
def test_a_failure_of_the_later_version_says_what_to_do(message: str, advice: str) -> None:
    target = compare(report(), report(failures=(replace(RAISED, message=message),)))
    (change,) = target.findings_in(FindingState.NEW)
    known = "The target runs with torch 2.11.0, and fails with torch 2.14.1. "
    assert f"{known}{advice}" in change.finding.message


def test_a_failure_of_the_users_own_code_gets_no_advice_of_torch() -> None:
    target = compare(
        report(), report(failures=(replace(RAISED, message="'Net' object has no attribute 'gone'"),))
    )
    (change,) = target.findings_in(FindingState.NEW)
    assert change.finding.message.endswith("and fails with torch 2.14.1.")


def compiled(*frames: tuple[str, int, int | None, int]) -> Report:
    """Function, line, line where it resumes, operators."""
    return report(
        frames=tuple(Frame(name, at(first), resumes_at=resumed) for name, first, resumed, _ in frames),
        compiles=tuple(
            Compile(f"{index}/0", index, Outcome.COMPILED, graph=Graph(operators=count))
            for index, (*_, count) in enumerate(frames)
        ),
    )


def test_graphs_are_compared_by_function_and_line() -> None:
    before = compiled(("Net.forward", 20, None, 4), ("Net.forward", 20, 23, 2), ("helper", 40, None, 1))
    after = compiled(("Net.forward", 20, None, 6), ("helper", 40, None, 1))
    target = compare(before, after)
    rows = list(target_rows(target, ChangeVerdict.CHANGE, str))
    assert rows == [
        "graphs of Net.forward (/project/model.py:20): 1 graph of 4 operators -> 1 graph of 6 operators",
        "compiled only before: the rest of Net.forward (/project/model.py:23): 1 graph of 2 operators",
    ]
    assert not list(target.regressions())


def kernel(name: str, *lines: int, us: float | None = 2.0) -> Kernel:
    operators = tuple(FusedOperator("aten.add", stack=(at(number),)) for number in lines)
    return Kernel(name, KernelKind.TRITON, 0, operators=operators, estimate_us=us)


def generated(*kernels: Kernel, device: Device = H100) -> SideReports:
    base = compiled(("Net.forward", 20, None, 4))
    graph = GeneratedGraph("0/0", Phase.INFERENCE, kernels=kernels)
    return SideReports(base, replace(base, tier=Tier.KERNELS, generated=(graph,), target_device=device))


def test_kernels_are_compared_by_line_and_by_what_they_are_fused_with() -> None:
    before = generated(kernel("triton_poi_fused_add_0", 21, 22), kernel("triton_poi_fused_mul_1", 23))
    after = generated(
        kernel("triton_poi_fused_add_0", 21),
        kernel("triton_poi_fused_add_1", 22),
        kernel("triton_poi_fused_mul_2", 23),
    )
    target = compare(before, after)
    assert [change.place for change in target.lines] == [SourceLine(FILE, 21), SourceLine(FILE, 22)]
    assert all(change.is_fused_differently for change in target.lines)
    assert list(target.regressions()) == [RegressionKind.KERNELS]
    assert [(finding.code, finding.span.line) for finding in target.own] == [("FL932", 20)]
    rows = list(target_rows(target, ChangeVerdict.CHANGE, str))
    assert rows == [
        "kernels of /project/model.py:21: 1 -> 1; ~1 µs -> ~2 µs; before fused with line 22; now alone",
        "kernels of /project/model.py:22: 1 -> 1; ~1 µs -> ~2 µs; before fused with line 21; now alone",
    ]


def test_a_counter_in_the_name_of_a_kernel_is_no_difference() -> None:
    before = generated(kernel("triton_poi_fused_add_0", 21))
    after = generated(kernel("triton_poi_fused_add_3", 21))
    assert compare(before, after).is_same


def test_kernels_for_two_devices_are_not_compared_by_line() -> None:
    before = generated(kernel("triton_poi_fused_add_0", 21, us=2.0))
    after = generated(kernel("triton_poi_fused_add_0", 21, us=9.0), device=replace(H100, key="b200"))
    target = compare(before, after)
    assert not target.lines
    assert "they are for h100-sxm and b200" in target.notes[0]


def test_generation_that_fails_with_one_version_is_a_new_failure_and_no_lost_kernel() -> None:
    before = generated(kernel("triton_poi_fused_add_0", 21))
    lowering = Failure(Culprit.COMPILER, "backend", "no lowering", stack=(at(21),))
    broken_side = SideReports(
        before.capture, replace(before.capture, tier=Tier.KERNELS, failures=(lowering,))
    )
    target = compare(before, broken_side)
    assert states(target) == [("new", "FL402", 21)]
    assert list(target.regressions()) == [RegressionKind.FAILURES]
    assert not target.lines
    assert target.functions[0].kernels is ChangeVerdict.SAME


RIGHT, WRONG, NOT = (
    Accuracy(passed=True),
    Accuracy(passed=False, why="output differs"),
    Accuracy(None, "it is random"),
)


def with_results(**parts: Any) -> TargetComparison:
    """Both sides ran, and the later one compared a call."""
    call = ReleaseCall(
        **{"call": 0, "text": "Net()(f32[4])", "eager": RIGHT, "is_eager_equal": False, **parts}
    )
    outputs = ReleaseOutputs(), ReleaseOutputs((call,))
    return compare(*(SideReports(report(), outputs=(report(outputs=given),)) for given in outputs))


@pytest.mark.parametrize(
    ("parts", "change", "words"),
    [
        ({"is_eager_equal": True, "is_compiled_equal": True}, "equal", ""),
        ({"is_eager_equal": True, "is_compiled_equal": False}, "within rounding", ""),
        (
            {"eager": WRONG, "float64": WRONG},
            "eager changed",
            "eager results changed also in float64, so this is no rounding",
        ),
        ({"eager": WRONG, "float64": RIGHT}, "eager changed", "eager results changed by more than rounding"),
        (
            {"compiled_before": RIGHT, "compiled_after": WRONG},
            "compiled changed",
            "compiled results differ from eager's with torch 2.14.1, not with 2.11.0",
        ),
        ({"compiled_before": WRONG, "compiled_after": RIGHT}, "compiled fixed", ""),
        ({"compiled_before": WRONG, "compiled_after": WRONG}, "compiled differs with both", ""),
        ({"compiled_before": RIGHT, "compiled_after": None}, "within rounding", ""),
        ({"eager": NOT}, "not compared", ""),
    ],
)
def test_results_say_who_moved(parts: dict[str, Any], change: str, words: str) -> None:
    target = with_results(**parts)
    (call,) = target.calls
    assert result_change(call).value == change
    assert [(finding.code, finding.title) for finding in target.own] == ([("FL931", words)] if words else [])
    assert list(target.regressions()) == ([RegressionKind.NUMERICS] if words else [])
    assert target.is_same == (
        change in {"equal", "within rounding", "compiled differs with both", "not compared"}
    )
    rows = [
        *target_rows(target, ChangeVerdict.IMPROVEMENT, str),
        *target_rows(target, ChangeVerdict.CHANGE, str),
    ]
    assert len(rows) == (change in {"compiled fixed", "compiled differs with both", "not compared"})


def test_the_errors_of_both_sides_are_in_the_message() -> None:
    errors = CallErrors(1e-7, 2e-7, 3e-3, None)
    (finding,) = with_results(eager=WRONG, errors=errors).own
    assert finding.message.endswith("error from float64: eager 1e-07 -> 0.003")


def test_only_a_new_deprecation_is_a_finding_on_its_line() -> None:
    old, new = (Deprecation(text, "FutureWarning", at(number)) for text, number in (("old", 12), ("new", 13)))
    sides = [
        SideReports(report(), outputs=(report(outputs=ReleaseOutputs(deprecations=given)),))
        for given in ((old,), (old, new))
    ]
    target = compare(*sides)
    assert [(item.code, item.span.line, item.message) for item in target.own] == [
        ("FL933", 13, "FutureWarning: new")
    ]
    assert not list(target.regressions())


@pytest.mark.parametrize(
    "failure",
    [
        Failure(Culprit.USER, "timeout", "killed after 120 s", stack=(at(22),)),
        Failure(Culprit.USER, "memory", "needs 9 GB", stack=(at(22),)),
        replace(RAISED, message="No module named 'einops'", exception="ModuleNotFoundError"),
        Failure(Culprit.USER, "inputs", "expected a call", stack=(at(22),), directive_line=22),
    ],
    ids=["time", "memory", "package", "directive"],
)
def test_what_says_nothing_about_torch_is_no_regression(failure: Failure) -> None:
    for target in (
        compare(report(), report(failures=(failure,))),
        compare(report(failures=(failure,)), report()),
    ):
        assert target.is_undecided
        assert not target.is_same
        assert not list(target.regressions())
        assert state_row(target, (OLD, NEW)).startswith(
            "not compared, as one version did not get to the end: "
        )
    both = compare(report(failures=(failure,)), report(failures=(failure,)))
    assert both.is_undecided
    assert not list(both.regressions())
    reason = state_row(both, (OLD, NEW)).partition("so nothing else was compared: ")[2]
    assert reason


@pytest.mark.parametrize(
    ("path", "common"),
    [
        ("/a/lib/python3.11/site-packages/lib/x.py", "site-packages/lib/x.py"),
        ("/b/lib/python3.12/site-packages/lib/x.py", "site-packages/lib/x.py"),
        ("/usr/lib/python3/dist-packages/lib/x.py", "site-packages/lib/x.py"),
        ("/usr/lib/python3.11/contextlib.py", "lib/python/contextlib.py"),
        ("/opt/shared/lib/x.py", "site-packages/lib/x.py"),
        ("/opt/sharedlib/x.py", "site-packages/sharedlib/x.py"),
        ("/project/model.py", "/project/model.py"),
    ],
)
def test_installed_files_have_a_common_path(path: str, common: str) -> None:
    assert InstalledPaths(frozenset({"/opt", "/opt/shared"})).common(path) == common


def test_lines_of_torch_and_of_packages_of_two_versions_are_not_compared() -> None:
    packages = "/env/lib/python3.11/site-packages"
    lines = {name: at(7, path=f"{packages}/{name}/layers.py") for name in ("torch", "lib", "same")}

    def side(moved: int) -> SideReports:
        operators = [
            FusedOperator("aten.add", stack=(replace(place, line=moved),)) for place in lines.values()
        ]
        own = FusedOperator("aten.mul", stack=(at(21),))
        return generated(Kernel("k_0", KernelKind.TRITON, 0, operators=(own, *operators), estimate_us=4.0))

    changes = compare_lines(side(7), side(9), {"lib"})
    assert [(change.place.path.rpartition("packages/")[2], change.place.line) for change in changes] == [
        (FILE, 21), ("same/layers.py", 7), ("same/layers.py", 9),
    ]  # fmt: skip
    assert [change.place.path for change in compare_lines(side(7), side(9), {"lib", "same"})] == []


def test_the_packages_that_differ_are_those_that_a_target_used(tmp_path: Path) -> None:
    folders = []
    for side, version in (("old", "5.17.0"), ("new", "5.23.0")):
        folder = tmp_path / side
        for name in (f"transformers-{version}", f"other-{version}", "same_lib-1.0", f"torch-{version}"):
            (folder / f"{name}.dist-info").mkdir(parents=True)
        (folder / "transformers").mkdir()
        folders.append([str(folder), "/missing"])
    used = {"transformers", "same_lib", "torch", "unknown"}
    assert differing_packages(used, *installed_packages(*folders).versions) == {
        "transformers": ("5.17.0", "5.23.0")
    }
    paths = InstalledPaths(frozenset({"/opt/shared"}))
    assert paths.package("/x/lib/python3.11/site-packages/transformers/models/a.py") == "transformers"
    assert paths.package("/x/lib/python3.11/site-packages/six.py") == "six"
    assert paths.package("/opt/shared/transformers/models/a.py") == "transformers"
    assert paths.package("/project/model.py") is None


def test_a_package_has_the_names_that_are_imported(tmp_path: Path) -> None:
    files = {
        "pillow-11.0.dist-info/top_level.txt": "PIL\n",
        "scikit_learn-1.7.dist-info/RECORD": "sklearn/__init__.py,sha256=x,1\nscikit_learn-1.7.dist-info/RECORD,,\n",
        "six-1.17.dist-info/RECORD": "six.py,sha256=x,1\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    versions = installed_packages([str(tmp_path)], []).versions[0]
    assert versions == {
        "pillow": "11.0",
        "pil": "11.0",
        "scikit_learn": "1.7",
        "sklearn": "1.7",
        "six": "1.17",
    }


@pytest.mark.parametrize("says_names", [True, False])
def test_the_distributions_of_a_namespace_have_versions_of_their_own(
    tmp_path: Path, *, says_names: bool
) -> None:
    files = {
        "google_auth": ("google/auth/jwt.py", "google/auth/__init__.py"),
        "protobuf": ("google/protobuf/__init__.py", "google/_upb/message.py"),
        "google_cloud_storage": ("google/cloud/storage/blob.py", "google/cloud/version.py"),
        "google_cloud_core": ("google/cloud/client/__init__.py",),
        "nvidia_cublas": ("nvidia/__init__.py", "nvidia/cublas/__init__.py"),
        "nvidia_nccl": ("nvidia/__init__.py", "nvidia/nccl/__init__.py"),
        "backports.tarfile": ("backports/__init__.py", "backports/tarfile/__main__.py"),
    }

    def installed(side: str, **versions: str) -> list[str]:
        for name, version in versions.items():
            paths = files[name.replace("__", ".")]
            folder = tmp_path / side / f"{name.replace('__', '.')}-{version}.dist-info"
            folder.mkdir(parents=True)
            (folder / "RECORD").write_text("".join(f"{path},sha256=x,1\n" for path in paths))
            if says_names:
                (folder / "top_level.txt").write_text(paths[0].partition("/")[0] + "\n")
        return [str(tmp_path / side)]

    alike = {
        "google_auth": "2.1",
        "google_cloud_core": "2.5",
        "nvidia_nccl": "2.27",
        "backports__tarfile": "1.2",
    }
    before = installed("old", **alike, protobuf="5.0", google_cloud_storage="3.1", nvidia_cublas="12.8")
    after = installed("new", **alike, protobuf="6.0", google_cloud_storage="3.4", nvidia_cublas="12.9")
    both = installed_packages(before, after)
    paths = InstalledPaths(namespaces=both.namespaces)
    used = {str(paths.package(f"/x/site-packages/{path}")) for name in files for path in files[name]}
    assert {"google.auth", "google.cloud.client", "nvidia.nccl", "backports"} <= used
    assert differing_packages(used, *both.versions) == {
        "google.protobuf": ("5.0", "6.0"),
        "google._upb": ("5.0", "6.0"),
        "google.cloud.storage": ("3.1", "3.4"),
        "google.cloud.version": ("3.1", "3.4"),
        "nvidia.cublas": ("12.8", "12.9"),
    }


def test_a_namespace_of_which_each_side_has_one_distribution_is_not_one_package(tmp_path: Path) -> None:
    for side, name, version in (("old", "google_auth", "2.1"), ("new", "protobuf", "6.0")):
        folder = tmp_path / side / f"{name}-{version}.dist-info"
        folder.mkdir(parents=True)
        (folder / "RECORD").write_text(f"google/{name}/x.py,sha256=x,1\n")
    both = installed_packages([str(tmp_path / "old")], [str(tmp_path / "new")])
    used = {"google", "google.google_auth", "google.protobuf"}
    assert differing_packages(used, *both.versions) == {}


def test_runs_are_kept_whole_or_not_at_all(tmp_path: Path) -> None:
    folder = RunsFolder(tmp_path / "out")
    folder.prepare()
    side = generated(kernel("triton_poi_fused_add_0", 21))
    runs = ComparedRuns(FILE, "Net", SideReports(report(breaks=(broken(line(21)),))), side)
    folder.save("a1", runs)
    assert folder.load("a1") == runs
    assert folder.load("b2") is None
    (file,) = (tmp_path / "out" / "targets").iterdir()
    whole = file.read_bytes()
    for damaged in (
        whole[:-20],
        whole[:12] + bytes([whole[12] ^ 255]) * 9 + whole[21:],
        gzip.compress(b"[]"),
    ):
        file.write_bytes(damaged)
        assert folder.load("a1") is None
