"""Which targets a fix is verified for: those that may run a changed definition, by its name."""

from __future__ import annotations

import pytest

from fuselight_server.fixes.verification.reach import may_run

TEXT = """\
import torch


def peak(x):
    return x.max().item()


class Base(torch.nn.Module):
    def scale(self, x):
        return x / peak(x)


class Child(Base):
    pass


@torch.compile
def other(x):
    return x + 1


@register
def hook(x):
    return x
"""


@pytest.mark.parametrize(
    ("target", "change", "reached"),
    [
        ("Child", (".item()", ".detach()"), True),
        ("Base.scale", (".item()", ".detach()"), True),
        ("other", (".item()", ".detach()"), False),
        ("other", ("x + 1", "x + 2"), True),
        ("Child", ("x + 1", "x + 2"), False),
        ("Child", ("    return x\n", "    return x * 2\n"), True),
        (
            "other",
            ("import torch\n", "import torch\ntorch._dynamo.config.capture_scalar_outputs = True\n"),
            True,
        ),
    ],
)
def test_a_target_is_reached_by_names(target: str, change: tuple[str, str], *, reached: bool) -> None:
    assert may_run(target, {"m.py": TEXT}, {"m.py": TEXT.replace(*change)}) is reached


def test_a_name_leads_into_another_file() -> None:
    texts = {"m.py": "from h import f\n\n\ndef g(x):\n    return f(x)\n", "h.py": TEXT.replace("peak(", "f(")}
    changed = {"h.py": texts["h.py"].replace(".item()", ".detach()")}
    assert may_run("g", texts, changed)
