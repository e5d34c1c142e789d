"""Devices in code that launches Triton kernels: what is changed in its tree, and in which modules."""

from __future__ import annotations

import ast
import importlib
import sys
from pathlib import Path

import pytest

from fuselight.capture.calls.devices import redirect_devices
from fuselight.capture.calls.kernel_devices import libraries_of_kernels_on_cpu, redirect_library


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x.device.type == 'cuda'", "x.device.type == 'cpu'"),
        ("'cpu' != x.device.type", "'cuda' != x.device.type"),
        ("q.device.type in ('cuda', 'xpu')", "q.device.type in ('cpu', 'xpu')"),
        ("device.type == 'cuda'", "device.type == 'cuda'"),
        ("name == 'cuda'", "name == 'cuda'"),
        ("torch.empty(3, device='cuda:1')", "torch.empty(3, device='cpu')"),
        ("def f(x, n=1, device='cuda'): pass", "def f(x, n=1, device='cpu'):\n    pass"),
        ("def f(*, device='cuda', n): pass", "def f(*, device='cpu', n):\n    pass"),
        ("x.to('cuda', dtype)", "x.to('cpu', dtype)"),
        ("torch.empty(3, device='cuda:' + str(at))", "torch.empty(3, device='cpu')"),
        ("torch.empty(3, device=f'cuda:{at}')", "torch.empty(3, device='cpu')"),
        ("x.to('cuda:%d' % at)", "x.to('cpu')"),
        ("torch.device('cuda:{}'.format(at))", "torch.device('cpu')"),
        ("this_device = 'cuda:' + str(at)", "this_device = 'cpu'"),
        ("DEVICE = 'cuda'", "DEVICE = 'cpu'"),
        ("torch.empty(3, device=name + str(at))", "torch.empty(3, device=name + str(at))"),
        ("print(f'cuda:{at}', x.to(f'{at}:cuda'))", "print(f'cuda:{at}', x.to(f'{at}:cuda'))"),
        ("x.cuda(0)", "x.cpu()"),
        ("custom_op('a::b', device_types='cuda')", "custom_op('a::b', device_types='cpu')"),
        ("names = {'cuda': 1}", "names = {'cuda': 1}"),
        ("backend = 'cuda'", "backend = 'cuda'"),
    ],
)
def test_only_a_device_of_tensors_is_changed_in_a_library(before: str, after: str) -> None:
    tree = ast.parse(before)
    redirect_library(tree)
    assert ast.unparse(tree) == after


@pytest.mark.parametrize(
    ("head", "answer"),
    [("import triton.language as tl", "cpu"), ("from triton import jit", "cpu"), ("import math", "cuda")],
)
def test_own_code_with_kernels_believes_that_tensors_are_on_a_gpu(head: str, answer: str) -> None:
    tree = ast.parse(f"{head}\nassert x.device.type == 'cuda'\ny = f(device='cuda')")
    notes = redirect_devices(tree, "own.py")
    redirect_devices(tree, "own.py")  # a tree is compiled again for edited text
    assert ast.unparse(tree).splitlines()[1:] == [
        f"assert x.device.type == '{answer}'",
        "y = f(device='cpu')",
    ]
    assert [note.location and note.location.line for note in notes] == [3]


def test_modules_of_libraries_that_import_triton_make_tensors_on_the_cpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "def where(device='cuda'): return device\ndef late():\n    import {}\n"
    for name, imported in (("made_kernels", "triton.language"), ("made_others", "json")):
        (tmp_path / f"{name}.py").write_text(text.format(imported), encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    devices: dict[str, list[str]] = {}
    for name in ("made_kernels", "made_others", "made_kernels"):
        with libraries_of_kernels_on_cpu():
            devices.setdefault(name, []).append(importlib.import_module(name).where())
        del sys.modules[name]
    assert devices == {
        "made_kernels": ["cpu", "cpu"],
        "made_others": ["cuda"],
    }  # with and without its bytecode
    assert importlib.import_module("made_kernels").where() == "cuda"
    del sys.modules["made_kernels"]
