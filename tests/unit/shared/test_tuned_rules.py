"""What a tuned file may say: everything that a search writes, and nothing that runs, reads or writes anything."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fuselight.shared import tuned_file
from fuselight.shared.configurations import parse_configuration
from fuselight.shared.report import Numerics, Preparation, TunedResult, Work
from fuselight.shared.tuned_code import compile_code, restartable
from fuselight.shared.tuned_file import TunedFile, TunedFileError, parse, render
from fuselight.shared.tuned_rules import refused_option, refused_values
from fuselight.tune.knobs import KNOBS, configuration_of
from tests.support.lsp_client import ROOT

RESULT = TunedResult("net.py", "Net", Work.INFERENCE, Numerics.EXACT, "cpu")
LAUNCH = {
    "XBLOCK": 128, "R0_BLOCK": 8, "num_warps": 4, "num_stages": 1, "configs_hash": "ff4b", "found_by_coordesc": True,
    "time_taken_ms": 12, "triton_cache_hash": "7C3ADO", "extra_options": None,
}  # fmt: skip


@pytest.mark.parametrize("knob", KNOBS, ids=lambda knob: knob.name)
def test_whatever_the_catalog_sets_can_be_kept(knob: Any) -> None:
    options = restartable(parse_configuration(configuration_of([knob])).options)
    assert [refused_option(name, value) for name, value in options.items()] == [""] * len(options)


def test_the_results_of_the_published_searches_can_be_kept() -> None:
    file = parse((ROOT / "docs" / "results" / "fuselight-tuned.json").read_text(encoding="utf-8"))
    assert len(file.results) > 10
    assert parse(render(file)) == file


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cpp.cxx", ["/opt/run"]),
        ("cuda.cuda_cxx", "/opt/nvcc"),
        ("cuda.cutlass_dir", "/opt"),
        ("cpp.march", "native -fplugin=/opt/a.so"),
        ("aot_inductor.output_path", "/etc/cron.d/a"),
        ("aot_inductor.custom_op_libs", ["/opt/a.so"]),
        ("autoheuristic_log_path", "/opt/log"),
        ("post_grad_custom_post_pass", "os.system"),
        ("pre_grad_fusion_options", {"a": {}}),
        ("inductor_choices_class", "a.B"),
        ("run_jit_post_compile_hook", True),
        ("lookup_table.table", {}),
        ("global_cache_dir", "/opt"),
        ("fx_graph_remote_cache", True),
        ("trace.enabled", True),
        ("trace.upload_tar", "a"),
        ("worker_log_path", "/opt/a"),
        ("cpu_backend", "halide"),
        ("compile_threads", 10**6),
        ("guard_filter_fn", "a"),
        ("an_option_of_tomorrow", True),
        ("CPP.CXX", "a"),
        ("cpp.threads", "1"),
        ("cpp.threads", True),
        ("cpp.threads", 10**9),
        ("cpp.simdlen", -1),
        ("triton.cudagraphs", 1),
        ("triton.cudagraphs", "True"),
        ("max_fusion_size", 8.5),
        ("max_fusion_size", -1),
        ("max_fusion_size", [8]),
        ("max_autotune_gemm_backends", "ATEN,/opt/a"),
        ("max_autotune_gemm_backends", ["ATEN"]),
    ],
)
def test_an_option_that_no_search_sets_is_refused_by_name(name: str, value: Any) -> None:
    text = render(TunedFile((RESULT, replace(RESULT, target="Other", options={name: value}))))
    with pytest.raises(TunedFileError) as raised:
        parse(text, "/srv/fuselight-tuned.json")
    message = str(raised.value)
    assert f"the option `{name}`" in message
    assert message.startswith("`/srv/fuselight-tuned.json` has ")
    assert "\n" not in message


@pytest.mark.parametrize(
    ("kernels", "is_allowed"),
    [
        ({"triton": {"a1": LAUNCH}}, True),
        (
            {"algorithms": {"mm": "triton_mm BLOCK_K=64"}, "padding": {"a": True}, "fusion": {"b": False}},
            True,
        ),
        ({"multi_kernel": {"c": 1}}, True),
        ({"triton": {"a1": {**LAUNCH, "XBLOCK": "__import__('os').system('true')"}}}, False),
        ({"triton": {"a1": {**LAUNCH, "XBLOCK, y=exit()": 1}}}, False),
        ({"triton": {"a1": {**LAUNCH, "num_warps": [4]}}}, False),
        ({"triton": {"a1": {**LAUNCH, "configs_hash": "../../a"}}}, False),
        ({"triton": {"a1": {**LAUNCH, "extra_options": {"llc": "x"}}}}, False),
        ({"triton": {"a1": "XBLOCK"}}, False),
        ({"algorithms": {"mm": {"a": 1}}}, False),
        ({"padding": {"a": "yes"}}, False),
        ({"multi_kernel": {"c": -1}}, False),
    ],
)
def test_a_launch_configuration_is_numbers(kernels: dict[str, dict[str, Any]], is_allowed: bool) -> None:  # noqa: FBT001
    assert (not list(refused_values(replace(RESULT, kernels=kernels)))) is is_allowed


@pytest.mark.parametrize(
    "result",
    [
        replace(RESULT, preparation=Preparation(attention="math)\nimport os")),
        replace(RESULT, preparation=Preparation(precision="../a")),
        replace(RESULT, artifacts="../a.artifacts"),
        replace(RESULT, blocks=("layers.0", "a'); exit('")),
    ],
)
def test_a_text_that_would_become_code_or_a_path_is_refused(result: TunedResult) -> None:
    assert len(list(refused_values(result))) == 1


def test_code_for_a_result_has_no_line_of_the_file() -> None:
    code = compile_code(replace(RESULT, configuration="default\nimport os", fixes=("a\nexit()\u202e",)))
    assert r"default\nimport os" in code
    assert r"a\nexit()\u202e" in code
    assert not any(line.startswith(("import os", "exit")) for line in code.splitlines())


def test_a_tuned_file_that_is_no_file_of_the_users_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / tuned_file.NAME
    os.mkfifo(path)
    with pytest.raises(TunedFileError, match="not a regular file"):
        tuned_file.read(path)
    path.unlink()
    (tmp_path / "real.json").write_text(render(TunedFile((RESULT,))), encoding="utf-8")
    path.symlink_to("real.json")
    with pytest.raises(TunedFileError, match="is a link"):
        tuned_file.read(path)
    assert tuned_file.read(path, is_named=True) == TunedFile((RESULT,))
    with pytest.raises(TunedFileError, match="is a link"):
        tuned_file.keep(path, [RESULT])
    assert path.is_symlink()
    path.unlink()
    with path.open("wb") as file:
        file.truncate(2**33)
    with pytest.raises(TunedFileError, match="larger than"):
        tuned_file.read(path)


def test_a_file_that_anybody_could_have_put_there_must_be_named(tmp_path: Path) -> None:
    path = tmp_path / tuned_file.NAME
    path.write_text(render(TunedFile((RESULT,))), encoding="utf-8")
    tmp_path.chmod(0o777)
    with pytest.raises(
        TunedFileError, match=r"every user can write to its folder\. If you trust it, name it"
    ):
        tuned_file.read(path)
    tmp_path.chmod(0o700)
    assert tuned_file.read(path) == TunedFile((RESULT,))


def test_a_refused_result_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / tuned_file.NAME
    tuned_file.keep(path, [RESULT])
    before = json.loads(path.read_text(encoding="utf-8"))
    with pytest.raises(TunedFileError, match=r"cannot hold the result: it has the option `cpp\.cxx`"):
        tuned_file.keep(path, [replace(RESULT, options={"cpp.cxx": "a"})])
    assert json.loads(path.read_text(encoding="utf-8")) == before
