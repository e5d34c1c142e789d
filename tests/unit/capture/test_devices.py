"""A CUDA device in a file becomes the CPU: what changes, what stays, and on which lines."""

from __future__ import annotations

import ast

import pytest

from fuselight.capture.calls.devices import redirect_devices


def redirect(source: str) -> tuple[str, list[tuple[int, str]]]:
    """Redirect a source. Returns the new source, and line and subject of each note."""
    tree = ast.parse(source)
    notes = redirect_devices(tree, "model.py")
    subjects = [(n.location.line, n.text.partition(" means ")[0]) for n in notes if n.location is not None]
    assert len(subjects) == len(notes)
    assert {note.kind for note in notes} <= {"device_redirected"}
    return ast.unparse(tree), subjects


@pytest.mark.parametrize(
    ("source", "changed"),
    [
        (
            "device = 'cuda' if 'cuda' in args.device else 'cpu'",
            "device = 'cpu' if 'cuda' in args.device else 'cpu'",
        ),
        (
            "device = 'cpu' if args.device != 'cuda' else 'cuda:0'",
            "device = 'cpu' if args.device != 'cuda' else 'cpu'",
        ),
        ("if x.device.type == 'cuda':\n    x = x.cuda()", "if x.device.type == 'cuda':\n    x = x.cpu()"),
        (
            "if not wait and x.is_cuda:\n    torch.cuda.synchronize()",
            "if not wait and x.is_cuda:\n    torch.cpu.synchronize()",
        ),
        ("KNOWN = ('mps', 'cuda')", "KNOWN = ('mps', 'cpu')"),
        ("for kind in ['cuda', 'cpu']:\n    ask(kind)", "for kind in ['cpu', 'cpu']:\n    ask(kind)"),
        ("KNOWN = {'xpu', 'cuda'}", "KNOWN = {'xpu', 'cpu'}"),
    ],
)
def test_a_device_chosen_by_the_program_has_no_note(source: str, changed: str) -> None:
    """A taken branch still runs here; in a branch that is not taken, the device was the CPU anyway."""
    assert redirect(source) == (changed, [])
    assert redirect(f"{source}\ny = 'cuda'")[1] == [(source.count("\n") + 2, "'cuda'")]


@pytest.mark.parametrize(
    ("source", "changed", "subject"),
    [
        ("x = net.cuda()", "x = net.cpu()", ".cuda()"),
        ("x = net.cuda(0, non_blocking=True).half()", "x = net.cpu().half()", ".cuda()"),
        ("x = y.to('cuda')", "x = y.to('cpu')", "'cuda'"),
        ("x = y.to('cuda:1', torch.half)", "x = y.to('cpu', torch.half)", "'cuda:1'"),
        ("x = torch.ones(2, device='cuda')", "x = torch.ones(2, device='cpu')", "'cuda'"),
        ("d = torch.device('cuda', 0)", "d = torch.device('cpu')", "'cuda'"),
        ("d = device('cuda', index=n)", "d = device('cpu')", "'cuda'"),
        ("d = f'cuda:{rank}'", "d = 'cpu'", "f'cuda:{rank}'"),
        ("torch.set_default_device('cuda')", "torch.set_default_device('cpu')", "'cuda'"),
        ("def f(device='cuda'): pass", "def f(device='cpu'):\n    pass", "'cuda'"),
        ("x = y.pin_memory()", "x = y.cpu()", ".pin_memory()"),
        ("torch.cuda.synchronize()", "torch.cpu.synchronize()", "torch.cuda.synchronize"),
        ("s = torch.cuda.Stream()", "s = torch.cpu.Stream()", "torch.cuda.Stream"),
        ("import torch as t\nt.cuda.stream(s)", "import torch as t\nt.cpu.stream(s)", None),
        ("e = torch.cuda.Event(True)", "e = torch.cpu.Event(True)", "torch.cuda.Event"),
        ("e = torch.Event()", "e = torch.cpu.Event()", "torch.Event"),
        (
            "from torch import nn, Stream",
            "from torch import nn\nfrom torch.cpu import Stream",
            "torch.Stream",
        ),
        (
            "from torch.cuda import get_device_name, Event",
            "from torch.cuda import get_device_name\nfrom torch.cpu import Event",
            "torch.cuda.Event",
        ),
        ("d = 'cuda:' + str(n)", "d = 'cpu'", "'cuda:' + str(n)"),
        ("d = 'cuda:%d' % n", "d = 'cpu'", "'cuda:%d' % n"),
        ("d = 'cuda:{}'.format(n)", "d = 'cpu'", "'cuda:{}'.format(n)"),
        ("with torch.autocast('cuda'): pass", "with torch.autocast('cpu'):\n    pass", "'cuda'"),
        ("torch.cuda.amp.autocast()", "torch.cpu.amp.autocast()", "torch.cuda.amp.autocast"),
        (
            "from torch.cuda.amp import autocast, GradScaler",
            "from torch.cpu.amp import autocast, GradScaler",
            "torch.cuda.amp.GradScaler",
        ),
        (
            "ok = x.cuda().sum() == y.cuda().sum()",
            "ok = x.cpu().sum() == y.cpu().sum()",
            ".cuda()",
        ),
    ],
)
def test_cuda_devices_are_redirected(source: str, changed: str, subject: str | None) -> None:
    now, subjects = redirect(source)
    assert now == changed
    assert len(subjects) == 1
    assert subject is None or subjects[0][1] == subject


@pytest.mark.parametrize(
    "source",
    [
        "device = 'cuda' if torch.cuda.is_available() else 'cpu'",
        "if torch.cuda.is_available():\n    net = net.cuda()",
        "if not torch.cuda.is_available():\n    d = 'cpu'\nelse:\n    d = 'cuda'",
        "ok = device == 'cuda'",
        "ok = device in ('cuda', 'mps')",
        "sizes = {'cuda': 1, 'cpu': 2}",
        "x = table['cuda']",
        "print('cuda is fast')",
        "print(f'cuda:{n} of {m}')",
        '"""cuda"""',
        "properties = torch.cuda.get_device_properties(0)",
        "torch.cuda.empty_cache()",
        "mine.cuda.synchronize()",
        "torch.cuda.set_device(0)",
        "place = torch.cuda.current_device() + 1",
        "d = torch.accelerator.current_accelerator()",
        "e = mine.Event()",
        "from mine import Stream",
        "from .torch import Event",
        "from torch.cuda import get_device_name",
    ],
)
def test_other_uses_of_cuda_stay_unchanged(source: str) -> None:
    now, subjects = redirect(source)
    assert now == ast.unparse(ast.parse(source))
    assert subjects == []


def test_places_are_those_of_the_file() -> None:
    tree = ast.parse("a = 1\nx = make(  'cuda',\n  y).cuda()\n")
    (note,) = redirect_devices(tree, "model.py")
    assert note.location is not None
    assert (note.location.line, note.location.column, note.location.end_line) == (2, 4, 3)
    compile(tree, "model.py", "exec")


def test_code_that_asks_for_the_index_of_the_device_may_use_it_as_the_device() -> None:
    source = (
        "d = torch.cuda.current_device()\nx.to(d)\nones(4, device=torch.cuda.current_device())\n"
        "names[torch.cuda.current_device()]\nwrap(net, device_id=torch.accelerator.current_device_index())\n"
    )
    changed = ast.parse(source)
    assert redirect_devices(changed, "/w/model.py") == []
    assert ast.unparse(changed).splitlines() == [
        "d = torch.cuda.current_device()",
        "x.to('cpu' if type(d) is int else d)",
        "ones(4, device='cpu')",
        "names[torch.cuda.current_device()]",
        "wrap(net, device_id='cpu')",
    ]


def test_a_tensor_of_the_cpu_has_an_index() -> None:
    changed = ast.parse("a = names[x.device.index]\nb = text.index('a')\nx.device.index = 1\n")
    assert redirect_devices(changed, "/w/model.py") == []
    assert ast.unparse(changed).splitlines() == [
        "a = names[x.device.index or 0]",
        "b = text.index('a')",
        "x.device.index = 1",
    ]


def test_numbers_of_devices_become_the_cpu_on_request() -> None:
    source = "x.to(rank)\ny = ones(4, device=args.rank)\nz.to(0, dtype)\n"
    changed = ast.parse(source)
    assert redirect_devices(changed, "/w/model.py", numbers=True) == []
    assert ast.unparse(changed).splitlines() == [
        "x.to('cpu' if type(rank) is int else rank)",
        "y = ones(4, device='cpu' if type(args.rank) is int else args.rank)",
        "z.to('cpu', dtype)",
    ]
    untouched = ast.parse(source)
    redirect_devices(untouched, "/w/model.py")
    assert ast.unparse(untouched) == ast.unparse(ast.parse(source))
