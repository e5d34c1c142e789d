"""A class whose base another file of the project defines."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fuselight_server.source.document import SourceDocument, read_source

BASE = """\
from torch import nn
class Root(nn.Module):
    def forward(self, x, mask): ...
class BaseNet(Root): ...
class Config: ...
"""


def targets(path: Path, text: str) -> dict[str, tuple[str, ...]]:
    return {
        target.name: target.parameters
        for target in read_source(str(path), text).targets
        if target.kind == "module"
    }


@pytest.fixture
def package(tmp_path: Path) -> Path:
    models = tmp_path / "models"
    models.mkdir()
    (models / "__init__.py").write_text("from .base import BaseNet as Net\n")
    (models / "base.py").write_text(BASE)
    return tmp_path


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("train.py", "from models.base import BaseNet\nclass Big(BaseNet): ...\n"),
        ("train.py", "import models.base\nclass Big(models.base.BaseNet): ...\n"),
        ("train.py", "from models import Net\nclass Big(Net): ...\n"),
        ("train.py", "from models import base as b\nclass Big(b.BaseNet): ...\n"),
        ("models/big.py", "from .base import BaseNet\nclass Big(BaseNet): ...\n"),
        ("models/big.py", "from . import Net\nclass Big(Net): ...\n"),
        ("models/big.py", "from models.base import BaseNet\nclass Big(BaseNet): ...\n"),
        ("scripts/run.py", "from models.base import BaseNet\nclass Big(BaseNet): ...\n"),
    ],
)
def test_a_class_with_an_imported_base_is_a_target(package: Path, file: str, text: str) -> None:
    assert targets(package / file, text) == {"Big": ("x", "mask")}


def test_an_imported_name_that_is_not_a_module_is_not_a_target(package: Path) -> None:
    text = "from models.base import Config, Missing\nclass A(Config): ...\nclass B(Missing): ...\n"
    assert targets(package / "train.py", text) == {}


def test_a_variable_of_an_imported_class_is_compiled_by_its_method(package: Path) -> None:
    text = "from models import Net\nnet = Net()\nnet.compile(some_name=1)\n"
    (target,) = read_source(str(package / "train.py"), text).targets
    assert (target.name, target.compiled) == ("net", True)


def test_a_base_that_becomes_a_module_counts_at_the_next_edit(package: Path) -> None:
    document = SourceDocument(
        str(package / "train.py"), "from models.base import BaseNet\nclass Big(BaseNet): ...\n"
    )
    assert [target.name for target in document.reading().targets] == ["Big"]
    base = package / "models/base.py"
    base.write_text(BASE.replace("nn.Module", "object"))
    os.utime(base, ns=(1, 1))
    document.edit((3, 0), (3, 0), "# more\n")
    assert document.reading().targets == ()


def test_files_that_import_each_other_end(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("from b import Net\n")
    (tmp_path / "b.py").write_text("from a import Net\n")
    assert targets(tmp_path / "train.py", "from a import Net\nclass Big(Net): ...\n") == {}


def test_only_small_regular_files_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "huge.py").write_text(BASE + "#" * 1_000_001)
    for name in ("pipe", "huge"):
        assert targets(tmp_path / "train.py", f"from {name} import BaseNet\nclass Big(BaseNet): ...\n") == {}


@pytest.mark.parametrize(
    "base",
    [
        "torch_geometric.nn.MessagePassing",
        "mmengine.model.BaseModule",
        "lightning.LightningModule",
        "timm.layers.Mlp",
    ],
)
def test_base_classes_of_well_known_libraries_are_modules(base: str) -> None:
    module, _, name = base.rpartition(".")
    assert targets(Path("/w/m.py"), f"from {module} import {name}\nclass Big({name}): ...\n") == {"Big": ()}
