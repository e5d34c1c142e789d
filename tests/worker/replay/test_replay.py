"""The backend `fuselight`: a tuned result is replayed where it holds, and nothing else changes a program."""

from __future__ import annotations

import contextlib
import importlib
import json
import logging
import os
import pickle
import re
import subprocess
import sys
import textwrap
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch._dynamo.utils import counters

import fuselight
from fuselight.measure.artifacts import save_artifacts
from fuselight.measure.compile_configuration import configured
from fuselight.replay import backend
from fuselight.replay.arguments import TunedOptionsError
from fuselight.replay.graph_key import tuned_graph
from fuselight.replay.preparation import prepared_inductor
from fuselight.shared import tuned_file
from fuselight.shared.configurations import parse_configuration
from fuselight.shared.devices import find
from fuselight.shared.foreign_files import signature
from fuselight.shared.report import Numerics, Preparation, TunedResult, Work
from fuselight.shared.tuned_file import artifacts_name
from tests.support.prepared import program_interpreter
from tests.support.replays import (
    MODEL,
    NAME,
    OPTIONS,
    Chosen,
    choosing,
    kept,
    model_and_input,
    result_of,
    run,
    tuned_result,
)

pytestmark = pytest.mark.torch
ROOT = Path(__file__).parents[3]

FREEZES = """
import torch

class Frozen(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(8, 8, bias=False)
        self.line = torch.nn.Linear(8, 4, bias=False)

    def forward(self, x):
        return self.line(self.first(x))

def made():
    torch.manual_seed(0)
    return Frozen(), torch.randn(3, 8)
"""
"""Without generated kernels, also frozen, which would make one for a bias: no C++ is compiled."""


@pytest.fixture(scope="module")
def result() -> TunedResult:
    return tuned_result()


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Chosen]:
    yield from choosing(monkeypatch, tmp_path)


@pytest.fixture
def frozen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TunedResult:
    """A result with `freezing`, and the artifacts of its compile in the test's folder."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "search"))
    torch._dynamo.reset()
    model, x = model_and_input(FREEZES)
    name = "default+freezing=True"
    with configured(parse_configuration(name), find("cpu")) as backends, torch.no_grad():
        compiled = torch.compile(model)
        compiled(x)
        artifacts = save_artifacts(backends, lambda: compiled(x), str(tmp_path))
    torch._dynamo.reset()
    return replace(result_of(backends, "freezes.py", "Frozen", name), artifacts=artifacts)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel `fuselight-runtime` and nothing else."""
    pytest.importorskip("hatchling", reason="nothing here builds a wheel")
    path, folder = tmp_path_factory.mktemp("wheel"), tmp_path_factory.mktemp("installed")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(path)]
    subprocess.run(build, cwd=ROOT / "compiler", check=True, capture_output=True)
    (wheel,) = path.glob("*.whl")
    assert wheel.name.startswith("fuselight_runtime-")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    metadata = next(folder.glob("*.dist-info/METADATA")).read_text(encoding="utf-8")
    assert "Requires-Dist" not in metadata
    return folder


@pytest.mark.corpora  # a release runs it; the others here replay in their own process
def test_the_runtimes_wheel_replays_in_a_fresh_process(
    result: TunedResult, frozen: TunedResult, installed: Path, tmp_path: Path
) -> None:
    """Only torch and the wheel can be imported; the options reach Inductor, and nothing is timed.

    A model of another checkpoint than the tuned one freezes its own weights, although the artifacts are those of other
    weights: torch's cache has code, and no weights.
    """
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "freezes.py").write_text(FREEZES)
    kept(tmp_path, result, frozen)
    program = textwrap.dedent("""
        import json, os, sys, warnings
        warnings.simplefilter("ignore")
        root, installed = sys.argv[1:]
        ours = [os.path.join(root, name) for name in ("compiler", "server")]
        sys.path[:] = [one for one in sys.path if one not in (root, *ours)]
        import torch
        import torch._inductor.compile_fx as compile_fx
        import freezes
        from model import made
        from torch._inductor.utils import run_and_get_code

        seen = []
        real = compile_fx.compile_fx_inner
        def inner(*args, **named):
            config = torch._inductor.config
            seen.append({name: getattr(config, name) for name in ("epilogue_fusion", "max_fusion_size")})
            return real(*args, **named)
        compile_fx.compile_fx_inner = inner
        model, x = made()
        with torch.no_grad():
            expected = model(x)
            compiled = torch.compile(model, backend="fuselight")
            import fuselight
            from tests.support.counted_timings import counting_timings
            with counting_timings() as timed:
                found = compiled(x)
            options = list(seen)
            print("freezes", file=sys.stderr)
            other, y = freezes.made()
            other.line.weight.add_(1)
            run = torch.compile(other, backend="fuselight")
            results, (code,) = run_and_get_code(run, y)
            close = [torch.allclose(results, other(y), atol=1e-5)]
            other.line.weight.mul_(2)
            close.append(torch.allclose(run(y), other(y), atol=1e-5))
        (inputs,) = (line for line in code.splitlines() if line.strip().endswith("= args"))
        of_us = [name for name in sys.modules if name.partition(".")[0].startswith("fuselight")]
        heavy = ("fuselight.measure", "fuselight.worker", "fuselight.capture", "fuselight_server")
        print(json.dumps({"seen": options, "timed": timed, "equal": torch.allclose(found, expected), "close": close,
                          "inputs": inputs.strip(),
                          "measuring": [name for name in of_us if name.startswith(heavy)],
                          "installed": fuselight.__file__.startswith(installed)}))
    """)
    environment = {
        **os.environ, "PYTHONPATH": str(installed),
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor"),
    }  # fmt: skip
    done = subprocess.run(
        [program_interpreter(), "-c", program, str(ROOT), str(installed)],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    before, _, after = done.stderr.partition("freezes\n")
    assert "fuselight:" not in before
    (line,) = (line for line in after.splitlines() if "fuselight" in line)
    assert "weights have changed" in line
    answer = json.loads(done.stdout)
    assert re.fullmatch(r"\(?\w+,?\)? = args", answer.pop("inputs")), "the weights are no inputs"
    assert answer == {
        "seen": [OPTIONS], "timed": [], "equal": True, "close": [True, True], "measuring": [], "installed": True,
    }  # fmt: skip


def test_saved_artifacts_are_of_the_compile_that_a_replay_makes(
    result: TunedResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend, "_state", backend.ReplayState())
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "search"))
    model, x = model_and_input()
    torch._dynamo.reset()
    with configured(parse_configuration(NAME), find("cpu")) as backends, torch.no_grad():
        compiled = torch.compile(model)
        expected = compiled(x)
        name = save_artifacts(backends, lambda: compiled(x), str(tmp_path))
    path = kept(tmp_path, replace(result, artifacts=name))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "program"))
    torch._dynamo.reset()
    counters.clear()
    with torch.no_grad():
        value = torch.compile(model, backend=backend.replay, options={"file": str(path)})(x)
    torch.testing.assert_close(value, expected)
    assert counters["inductor"]["fxgraph_cache_miss"] == 0
    assert counters["aot_autograd"]["autograd_cache_hit"] == 1
    torch._dynamo.reset()


def test_both_wheels_register_the_backend() -> None:
    entry = 'fuselight = "fuselight.replay.backend:replay"'
    for file in ("pyproject.toml", "compiler/pyproject.toml"):
        section = (ROOT / file).read_text(encoding="utf-8").partition("torch_dynamo_backends]")[2]
        assert entry in section.partition("\n[")[0]


def test_a_result_that_holds_is_replayed(result: TunedResult, chosen: Chosen, tmp_path: Path) -> None:
    preparation = Preparation(channels_last=True)
    kept(tmp_path, replace(result, preparation=preparation))
    run()
    assert chosen.calls == [(preparation, None, OPTIONS)]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"torch": "2.5.0"}, "tuned for torch 2.5.0, this is"),
        ({"device": "NVIDIA H100", "capability": "9.0"}, "tuned for device NVIDIA H100, this is"),
        ({"triton": "2.0"}, "tuned for Triton 2.0"),
        ({"work": Work.INFERENCE}, "tuned for inference, this call records gradients"),
        ({"work": Work.TRAINING_STEP}, "tuned for training step, this call records no gradients"),
        ({"graphs": ()}, "the code or the shapes have changed"),
        ({"options": {"b2b_gemm_pass": True}}, "Unexpected optimization option b2b_gemm_pass"),
        ({"preparation": Preparation(attention="quick")}, "no attention 'quick'"),
    ],
)
def test_what_does_not_hold_compiles_as_the_default_and_says_so_once(
    result: TunedResult, chosen: Chosen, caplog: pytest.LogCaptureFixture, changes: dict[str, Any], words: str
) -> None:
    kept(Path(), replace(result, **changes))
    with caplog.at_level(logging.WARNING, "fuselight"):
        run(grad=changes.get("work") is Work.INFERENCE, times=2)
    assert chosen.calls == [(Preparation(), None, {})] * 2
    (message,) = [record.getMessage() for record in caplog.records]
    assert words in message
    assert "ompiling as torch.compile's default does" in message
    assert "`fuselight tune model.py --target Net" in message
    assert "\n" not in message


@pytest.mark.usefixtures("chosen")
def test_what_cannot_be_compiled_here_compiles_as_the_default(
    result: TunedResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: Any) -> Any:
        raise RuntimeError("No working C++ compiler found\nin the image.")

    def prepared(preparation: Preparation, mode: str | None, options: Any, **named: Any) -> Any:
        return refuse if options else prepared_inductor(preparation, mode, options, **named)

    monkeypatch.setattr(backend, "prepared_inductor", prepared)
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
    options = {"cpp_wrapper": True}
    path = kept(tmp_path, replace(result, options=options, configuration="default+a=1", optimizer=True))
    model, x = model_and_input()
    with torch.no_grad():
        value = torch.compile(model, backend=backend.replay)(x)
        torch.testing.assert_close(value, model(x))
    (message,) = [record.getMessage() for record in caplog.records if record.name == "fuselight"]
    assert f"the configuration `default+a=1` of `{path}` (model.py Net) cannot be compiled here" in message
    assert "RuntimeError: No working C++ compiler found" in message
    assert message.endswith("Tune again on this machine: `fuselight tune model.py --target Net`")
    assert "\n" not in message


def test_an_error_that_the_default_has_too_reaches_the_user(
    result: TunedResult, chosen: Chosen, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kept(Path(), result)

    def failing(_: Preparation, __: str | None, options: Any, **___: Any) -> Callable[..., Any]:
        def compile_graph(gm: torch.fx.GraphModule, _inputs: Any) -> Any:
            gm.graph.erase_node(gm.graph.find_nodes(op="output")[0])  # a compile changes the graph
            raise AssertionError("tuned" if options else "default")

        return compile_graph

    monkeypatch.setattr(backend, "prepared_inductor", failing)
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="AssertionError: default"):
        run()
    assert "fuselight:" not in caplog.text
    assert chosen.calls == []


@pytest.mark.parametrize("kind", [KeyboardInterrupt, torch._dynamo.exc.SkipFrame])
@pytest.mark.usefixtures("chosen")
def test_an_interrupt_and_a_request_to_dynamo_are_no_failures(
    result: TunedResult, monkeypatch: pytest.MonkeyPatch, kind: type[BaseException]
) -> None:
    kept(Path(), result)
    compiled: list[Any] = []

    def raising(_: Preparation, __: str | None, options: Any, **___: Any) -> Callable[..., Any]:
        def compile_graph(*_: Any) -> Any:
            compiled.append(options)
            raise kind("stop")

        return compile_graph

    monkeypatch.setattr(backend, "prepared_inductor", raising)
    with contextlib.suppress(kind):
        run()
    assert compiled == [OPTIONS]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "there is no fuselight-tuned.json"),
        ("{", "is damaged"),
        ('{"format": 99, "results": []}', "newer version"),
        ('{"format": 1, "results": []}', "has no results"),
        ("[]", "is not a tuned file"),
        ("[" * 100_000, "is nested too deeply"),
    ],
)
def test_a_file_that_cannot_be_used_costs_a_warning(
    chosen: Chosen, tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str | None, words: str
) -> None:
    if text is not None:
        (tmp_path / tuned_file.NAME).write_text(text)
    run(mode="reduce-overhead")
    assert chosen.calls == [(Preparation(), "reduce-overhead", {})]
    assert words in caplog.text


def test_the_option_comes_before_the_variable_and_that_before_the_folders(
    result: TunedResult, chosen: Chosen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept(tmp_path, replace(result, options={"max_fusion_size": 1}))
    for folder, size in (("variable", 2), ("option", 3)):
        (tmp_path / folder).mkdir()
        kept(tmp_path / folder, replace(result, options={"max_fusion_size": size}))
    (tmp_path / "below").mkdir()
    (tmp_path / "pyproject.toml").touch()
    monkeypatch.chdir(tmp_path / "below")
    run()
    monkeypatch.setenv("FUSELIGHT_TUNED", str(tmp_path / "variable" / tuned_file.NAME))
    run()
    run({"file": str(tmp_path / "option")})
    assert [options["max_fusion_size"] for _, _, options in chosen.calls] == [1, 2, 3]


def test_a_file_that_was_tuned_again_is_read_again(
    result: TunedResult, chosen: Chosen, tmp_path: Path
) -> None:
    kept(tmp_path, result)
    run()
    kept(tmp_path, replace(result, options={"max_fusion_size": 123456}))
    run()
    assert chosen.calls[1][2] == {"max_fusion_size": 123456}


def test_training_and_inference_of_one_graph_have_results_of_their_own(
    result: TunedResult, chosen: Chosen, tmp_path: Path
) -> None:
    keys: list[Any] = []

    def read(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        keys.append(tuned_graph(gm, inputs))
        return gm.forward

    model, x = model_and_input()
    torch.compile(model, backend=read)(x)
    training = replace(result, work=Work.TRAINING_STEP, graphs=tuple(keys), options={"max_fusion_size": 5})
    kept(tmp_path, result, training)
    run(grad=True)
    run()
    assert [options.get("max_fusion_size") for _, _, options in chosen.calls] == [5, 7]


@pytest.mark.parametrize("case", [(None, 7), ("exact", 7), ("tf32", 2), ("reduced", 3), (Numerics.TF32, 2)])
def test_the_arithmetic_changes_only_as_the_program_allows(
    result: TunedResult, chosen: Chosen, tmp_path: Path, caplog: pytest.LogCaptureFixture,
    case: tuple[object, int],
) -> None:  # fmt: skip
    allowed, size = case

    def lower(precision: str, size: int) -> TunedResult:
        return replace(
            result, options={"max_fusion_size": size}, preparation=Preparation(precision=precision),
            numerics=Numerics.TF32 if precision == "tf32" else Numerics.REDUCED, when="2026-06-01T00:00:00Z",
        )  # fmt: skip

    kept(tmp_path, result, lower("tf32", 2), lower("bf16", 3))
    run(None if allowed is None else {"numerics": allowed})
    assert chosen.calls[0][2]["max_fusion_size"] == size
    assert "fuselight:" not in caplog.text


@pytest.mark.parametrize(
    "case",
    [
        (None, 3, "the result of model.py Net changes the arithmetic (bf16), as its search was allowed to"),
        (
            "tf32",
            None,
            "was tuned with the numerics `reduced`, which the option `numerics` excludes. Set it to",
        ),
        (
            "fast",
            None,
            "default does: the option `numerics` is `fast`, and can be `exact`, `tf32`, `reduced`",
        ),
    ],
)
def test_a_result_with_other_arithmetic_is_reported(
    result: TunedResult, chosen: Chosen, caplog: pytest.LogCaptureFixture,
    case: tuple[str | None, int | None, str],
) -> None:  # fmt: skip
    allowed, size, words = case
    preparation = Preparation(precision="bf16")
    options = {"max_fusion_size": 3}
    kept(Path(), replace(result, preparation=preparation, options=options, numerics=Numerics.REDUCED))
    run(None if allowed is None else {"numerics": allowed}, times=2)
    assert chosen.calls[0][2].get("max_fusion_size") == size
    (message,) = [record.getMessage() for record in caplog.records if record.name == "fuselight"]
    assert words in message


def test_what_the_backend_cannot_do_is_said(
    result: TunedResult, chosen: Chosen, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The graph holds: the fixes are in the source, and its sizes are those of `dynamic`."""
    kept(
        tmp_path,
        replace(result, dynamic=True, optimizer=True, fixes=("Use torch.where",), fixed_modules=True),
    )
    run()
    assert "skip_guard_on_all_nn_modules_unsafe" in caplog.text
    assert "Unless the program has it already: optimizer.step = torch.compile(optimizer.step)" in caplog.text
    assert "dynamic" not in caplog.text
    assert "Use torch.where" not in caplog.text
    assert chosen.calls[0][2] == OPTIONS


@pytest.mark.usefixtures("chosen")
def test_kernels_that_were_not_tuned_are_reported(
    result: TunedResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    kept(tmp_path, replace(result, kernels={"triton": {"of another kernel": {"XBLOCK": 64}}}))
    heuristics = importlib.import_module("torch._inductor.runtime.triton_heuristics")
    monkeypatch.setattr(heuristics.CachingAutotuner, "_dynamic_scale_rblock", lambda _: None)

    def compile_kernels(*_: Any, compiling: Any, **__: Any) -> Callable[..., Any]:
        configurations = [SimpleNamespace(kwargs={}, num_warps=4, num_stages=1) for _ in range(2)]
        with compiling():
            for used in (configurations, configurations, configurations[:1]):
                kernel = SimpleNamespace(launchers=[SimpleNamespace(config=namespace) for namespace in used])
                heuristics.CachingAutotuner._dynamic_scale_rblock(kernel)
        return lambda gm, _inputs: gm.forward

    monkeypatch.setattr(backend, "prepared_inductor", compile_kernels)
    run(times=2)
    (message,) = [record.getMessage() for record in caplog.records if record.name == "fuselight"]
    assert message.startswith(
        "fuselight: the tuned launch configurations are for none of the generated kernels"
    )
    assert message.endswith("Tune again: `fuselight tune model.py --target Net`")


def test_a_program_that_skips_guards_is_not_asked_to(
    result: TunedResult, chosen: Chosen, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kept(tmp_path, replace(result, fixed_modules=True))
    run({"guard_filter_fn": torch.compiler.skip_guard_on_all_nn_modules_unsafe})
    assert "fuselight:" not in caplog.text
    assert chosen.calls[0][2] == OPTIONS
    run()
    assert "skip_guard_on_all_nn_modules_unsafe" in caplog.text


class _Runs:
    """What is unpickled runs."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.marker,))


def test_artifacts_that_the_user_has_not_saved_run_nothing(
    result: TunedResult, chosen: Chosen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    """Also not under the name of artifacts of the user's that were replaced, or that another user has signed."""
    loaded: list[bytes] = []
    monkeypatch.setattr(torch.compiler, "load_cache_artifacts", loaded.append)
    hostile = pickle.dumps(_Runs(tmp_path / "ran"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "theirs"))
    names = ["cache.artifacts", artifacts_name(signature(hostile, create=True))]
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "mine"))
    names.append(artifacts_name(signature(b"own", create=True)))
    for name in names:
        (tmp_path / name).write_bytes(hostile)
        backend._state = backend.ReplayState()
        caplog.clear()
        kept(tmp_path, replace(result, artifacts=name))
        run()
        assert "because you did not save it" in caplog.text
    (tmp_path / names[-1]).write_bytes(b"own")
    backend._state = backend.ReplayState()
    run()
    assert loaded == [b"own"]
    assert not (tmp_path / "ran").exists()
    (tmp_path / names[-1]).unlink()
    for make in (os.mkfifo, lambda path: path.symlink_to("/dev/zero")):
        make(tmp_path / names[-1])
        backend._state = backend.ReplayState()
        run()
        (tmp_path / names[-1]).unlink()
    assert loaded == [b"own"]
    assert {str(options) for _, _, options in chosen.calls} == {str(OPTIONS)}


def _hostile(path: Path) -> str:
    text = path.read_text(encoding="utf-8").replace('"max_fusion_size": 8', '"cpp.cxx": ["./program"]')
    path.write_text(text, encoding="utf-8")
    return text


def test_a_tuned_file_runs_no_program(
    result: TunedResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The backend and the plain arguments obey alike, with one line that names the option and the file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(backend, "_state", backend.ReplayState())
    monkeypatch.delenv("FUSELIGHT_TUNED", raising=False)
    (tmp_path / "program").write_text(f"#!/bin/sh\ntouch {tmp_path / 'ran'}\n", encoding="utf-8")
    (tmp_path / "program").chmod(0o755)
    path = kept(tmp_path, replace(result, options={"max_fusion_size": 8}))
    assert "cpp.cxx" in _hostile(path)
    run()
    (message,) = [record.getMessage() for record in caplog.records if record.name == "fuselight"]
    assert f"`{path}` has the option `cpp.cxx`, which a search cannot set" in message
    model, _ = model_and_input()
    with pytest.raises(TunedOptionsError, match=r"has the option `cpp\.cxx`"):
        fuselight.tuned_options(model)
    with pytest.raises(TunedOptionsError, match=r"has the option `cpp\.cxx`"):
        fuselight.tuned_options(model, file=str(path))
    assert not (tmp_path / "ran").exists()


def test_only_files_of_the_project_and_the_user_are_taken(
    result: TunedResult, chosen: Chosen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    """A file above the project is not looked at; one that others could have put there is, if the user names it."""
    project = tmp_path / "project"
    (project / "src").mkdir(parents=True)
    (project / "pyproject.toml").touch()
    kept(tmp_path, result)
    monkeypatch.chdir(project / "src")
    run()
    assert "there is no fuselight-tuned.json" in caplog.text
    path = project / tuned_file.NAME
    kinds: tuple[tuple[Callable[[], None], str], ...] = (
        (lambda: path.symlink_to(tmp_path / tuned_file.NAME), "it is a link"),
        (lambda: os.mkfifo(path), "not a regular file"),
        (lambda: path.symlink_to("/dev/zero"), "it is a link"),
    )
    for make, words in kinds:
        make()
        backend._state = backend.ReplayState()
        caplog.clear()
        run()
        assert f"`{path}` cannot be read: {words}" in caplog.text
        path.unlink()
    kept(project, result)
    project.chmod(0o777)
    caplog.clear()
    run()
    assert "every user can write to its folder" in caplog.text
    assert [options for _, _, options in chosen.calls] == [{}] * 5
    run({"file": str(path)})
    assert chosen.calls[-1][2] == OPTIONS


def test_damaged_artifacts_cost_a_warning(
    result: TunedResult, chosen: Chosen, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kept(tmp_path, replace(result, artifacts="cache.bin"))
    run()
    assert "cache.bin` was not loaded" in caplog.text
    (tmp_path / "cache.bin").write_bytes(b"damaged")
    backend._state = backend.ReplayState()
    caplog.clear()
    run()
    assert "cache.bin` was not loaded" in caplog.text
    assert [options for _, _, options in chosen.calls] == [OPTIONS] * 2
