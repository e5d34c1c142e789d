"""Directives that fit the first layers: read from the source, in files that are never run."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from fuselight_server.source.document import read_source
from fuselight_server.source.edits import insert_inputs_stub, shape_columns

HEAD = "import torch\nfrom torch import nn\n"
CONFIG = """
from dataclasses import dataclass

@dataclass
class Sizes:
    width: int = 24
    kinds: int = 50
    block_size: int = 8
    image_size: int = 64

@dataclass
class Needy:
    kinds: int
    ratio: float
    name: str = "a"
"""


def directive(text: str, target: str = "Net", path: str = "/w/nets/net.py") -> str:
    reading = read_source(path, text)
    (static_target,) = [static_target for static_target in reading.targets if static_target.name == target]
    return insert_inputs_stub(text, static_target)[0].new_text.strip().removeprefix("# fuselight: ")


def net(init: str, forward: str, parameters: str = "", inputs: str = "x") -> str:
    """A file with a module `Net`."""
    lines = [f"class Net(nn.Module):\n    def __init__(self{parameters}):\n        super().__init__()"]
    lines.append(textwrap.indent(textwrap.dedent(init).strip(), " " * 8))
    lines.append(f"    def forward(self, {inputs}):")
    lines.append(textwrap.indent(textwrap.dedent(forward).strip(), " " * 8))
    return HEAD + "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("init", "forward", "inputs"),
    [
        ("self.a = nn.Conv2d(3, 8, 3)", "return self.a(x)", "f32[2, 3, 32, 32]"),
        ("self.a = nn.Conv2d(1, 8, 3)", "return self.a(x / 255)", "f32[2, 1, 28, 28]"),
        (
            "self.a = nn.Conv2d(in_channels=4, out_channels=8, kernel_size=64)",
            "return self.a(x)",
            "f32[2, 4, 128, 128]",
        ),
        ("self.a = torch.nn.Conv1d(5, 8, 3)", "return self.a(x)", "f32[2, 5, 32]"),
        ("self.a = nn.Conv3d(3, 8, 3)", "return self.a(x)", "f32[2, 3, 8, 32, 32]"),
        ("self.a = nn.Linear(12, 4)", "return torch.relu(self.a(x))", "f32[2, 12]"),
        ("self.a = nn.Linear(3 * 7, 4)", "b, t, c = x.shape\nreturn self.a(x)", "f32[2, 16, 21]"),
        ("self.a = nn.Linear(28 * 28, 4)", "return self.a(x.view(-1, 784))", "f32[2, 784]"),
        (
            "self.a = nn.Linear(48, 4)",
            "b, c, h, w = x.size()\nreturn self.a(x.flatten(1))",
            "f32[2, 48, 1, 1]",
        ),
        ("self.a = nn.Embedding(90, 4)", "return self.a(x)", "i64[2, 16] % 90"),
        ("self.a = nn.LSTM(10, 4, batch_first=True)", "y, _ = self.a(x)\nreturn y", "f32[2, 16, 10]"),
        ("self.a = nn.LayerNorm([40])", "return self.a(x)", "f32[2, 16, 40]"),
        ("self.a = nn.BatchNorm2d(6)", "return self.a(x)", "f32[2, 6, 32, 32]"),
        (
            "self.a = nn.TransformerEncoder(nn.TransformerEncoderLayer(36, 4), 2)",
            "return self.a(x)",
            "f32[2, 16, 36]",
        ),
        (
            "self.a = nn.Sequential(nn.Dropout(0.1), nn.Flatten(), nn.Linear(30, 2))",
            "return self.a(x)",
            "f32[2, 30]",
        ),
        (
            "self.a = nn.ModuleList([nn.Linear(9, 9) for _ in range(3)])",
            "for a in self.a:\n    x = a(x)\nreturn x",
            "f32[2, 9]",
        ),
        (
            "width = 5\nself.a = nn.Linear(width * 2, 4)",
            "x = x.float()\nx = self.drop(x)\nreturn x",
            "f32[2, 8]",
        ),
        ("self.a = nn.Linear(width(), 4)", "return self.a(x)", "f32[2, 8]"),
    ],
)
def test_the_first_layer_decides(init: str, forward: str, inputs: str) -> None:
    assert directive(net(init, forward)) == f"Net()({inputs})"


def test_each_input_goes_its_own_way() -> None:
    text = (
        net(
            "self.words = nn.Embedding(70, 8)\nself.image = nn.Conv2d(3, 8, 3)\nself.head = nn.Linear(8, 2)",
            "a = self.encode(image)\nreturn self.head(self.words(ids).mean(1) + a), mask",
            inputs="ids, image, *, mask",
        )
        + "    def encode(self, picture):\n        return self.image(picture).mean((2, 3))\n"
    )
    assert directive(text) == "Net()(i64[2, 16] % 70, f32[2, 3, 32, 32], mask=f32[2, 8])"


def test_sizes_are_those_of_the_constructor_that_is_written() -> None:
    text = net("self.a = nn.Linear(dim, 4)", "return self.a(x)", ", dim, out=3")
    assert directive(text) == "Net(8)(f32[2, 8])"
    text = net("self.a = nn.Linear(dim, 4)", "return self.a(x)", ", dim=20")
    assert directive(text) == "Net()(f32[2, 20])"


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        (", sizes: Sizes", "Net(Sizes())"),
        (', sizes: "Sizes"', "Net(Sizes())"),
        (", config", "Net(Sizes())"),
        (", sizes: Sizes = Sizes()", "Net()"),
    ],
)
def test_a_configuration_gives_the_sizes(parameters: str, text: str) -> None:
    name = "config" if "config" in parameters else "sizes"
    init = f"self.a = nn.Embedding({name}.kinds, {name}.width)\nself.block_size = {name}.block_size"
    assert directive(CONFIG + net(init, "return self.a(x)", parameters)) == f"{text}(i64[2, 8] % 50)"


def test_fields_without_a_default_are_given() -> None:
    text = CONFIG + net("self.a = nn.Embedding(c.kinds, 4)", "return self.a(x)", ", c: Needy")
    assert directive(text) == "Net(Needy(kinds=8, ratio=0.5))(i64[2, 16] % 8)"


def test_modules_and_configurations_of_other_files(tmp_path: Path) -> None:
    package = tmp_path / "zoo"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "sizes.py").write_text(CONFIG)
    (package / "parts.py").write_text(
        net("self.p = nn.Conv2d(3, c.width, 8)", "return self.p(x)", ", c").replace("Net", "Stem")
    )
    text = "from zoo.sizes import Sizes\nfrom .parts import Stem\n" + net(
        "self.stem = Stem(sizes)\nself.sizes = sizes", "return self.stem(x)", ", sizes: Sizes"
    )
    path = package / "net.py"
    path.write_text(text)
    assert directive(text, path=str(path)) == "Net(Sizes())(f32[2, 3, 64, 64])"


def test_a_module_that_holds_itself_ends() -> None:
    assert directive(net("self.a = Net()", "return self.a(x)")) == "Net()(f32[2, 8])"


@pytest.mark.slow
def test_classes_that_build_each_other_many_times_are_read() -> None:
    """30 ** 8 objects would take years."""
    branches = "\n".join(f"self.part{index} = Net(depth - 1)" for index in range(30))
    calls = " + ".join(f"self.part{index}(x)" for index in range(30))
    assert directive(net(branches, f"return {calls}", ", depth")) == "Net(8)(f32[2, 8])"


def test_files_that_import_each_other_are_read_once(tmp_path: Path) -> None:
    (tmp_path / "sizes.py").write_text("import net\nfirst = net.Net(3)\nclass Sizes:\n    width = 5\n")
    text = f"import sizes\n{net('self.a = nn.Linear(width, 4)', 'return self.a(x)', ', width')}"
    text += "SIZES = sizes.Sizes()\nmodel = torch.compile(Net(6))\n"
    path = tmp_path / "net.py"
    path.write_text(text)
    assert directive(text, "model", str(path)) == "model(f32[2, 6])"


@pytest.mark.parametrize(
    ("assignments", "inputs"),
    [
        ("HALF = 7\nWIDTH = 2 * HALF\n", "f32[2, 14]"),
        ("HALF = 7\nWIDTH = HALF\nHALF = 9\n", "f32[2, 7]"),
        ("WIDTH = HEIGHT\nHEIGHT = WIDTH\n", None),
    ],
)
def test_constants_have_the_value_of_their_assignment(assignments: str, inputs: str | None) -> None:
    module = net("self.a = nn.Linear(WIDTH, 4)", "return self.a(x)").removeprefix(HEAD)
    written = directive(f"{HEAD}{assignments}{module}")
    unknown = directive(HEAD + module)
    assert written == (unknown if inputs is None else f"Net()({inputs})")


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        net("self.a = nn.Linear(4, 4)", f"return self.a(x){' + x' * 2000}"),
        f"{net('self.a = nn.Linear(4, 4)', 'return self.a(x)')}TOTAL = 1{' + 1' * 2000}\n",
        net("self.a = nn.Linear(int(1e999), 4)", "return self.a(x)"),
        f"{HEAD}class A(B): pass\nclass B(A): pass\nclass Net(A, nn.Module):\n    def forward(self, x): return x\n",
    ],
    ids=["a long sum", "a long constant", "infinite", "bases of each other"],
)
def test_code_that_cannot_be_followed_gives_a_directive_still(text: str) -> None:
    assert directive(text).startswith("Net()(f32[")


def test_a_compiled_object_has_the_inputs_of_its_class() -> None:
    text = (
        net("self.a = nn.Linear(dim, 4)", "return self.a(x)", ", dim") + "fast = torch.compile(Net(dim=14))\n"
    )
    assert directive(text, "fast") == "fast(f32[2, 14])"


@pytest.mark.parametrize(
    ("line", "selected"),
    [
        ("# fuselight: Net()(f32[2, 3])", "2, 3"),
        ("    # fuselight: Größe()(i64[2, 16] % 8)", "2, 16"),
        ("# fuselight: Net(8)(None, 3)", "None, 3"),
        ("# fuselight: nothing", None),
    ],
)
def test_what_is_selected_for_typing(line: str, selected: str | None) -> None:
    columns = shape_columns(line)
    assert (columns and line.encode()[slice(*columns)].decode()) == selected


@pytest.mark.parametrize(
    ("init", "forward", "inputs"),
    [
        (
            "self.patch = 4\nself.a = nn.Linear(5 * 4 * 4, 8)",
            """
            p = self.patch
            x = rearrange(x, 'b c (h p1) (w p2) -> b (h w) (p1 p2 c)', p1=p, p2=p)
            return self.a(x)
            """,
            "f32[2, 5, 32, 32]",
        ),
        (
            "self.a = nn.Sequential(Rearrange('b c (h p) (w q) -> b (h w) (p q c)', p=48, q=24), nn.Linear(3456, 8))",
            "return self.a(x)",
            "f32[2, 3, 96, 24]",
        ),
        ("self.a = nn.Linear(7, 8)", "return self.a(rearrange(x, 'b n d -> (b n) d'))", "f32[2, 16, 7]"),
        ("self.a = nn.Linear(7, 8)", "return reduce(self.a(x), 'b n d -> b d', 'mean')", "f32[2, 7]"),
        ("pass", "return rearrange(x, 'b c h w -> b (h w) c')", "f32[2, 3, 32, 32]"),
        ("pass", "return rearrange(x, 'b ... d -> b d ...')", "f32[2, 8]"),
    ],
)
def test_a_pattern_of_einops_has_the_dimensions(init: str, forward: str, inputs: str) -> None:
    assert directive(net(init, forward)) == f"Net()({inputs})"


def test_a_class_needs_what_its_base_class_needs_that_gets_its_keywords() -> None:
    base = """
class Layers(nn.Module):
    def __init__(self, width, depth, *, heads, causal, dropout=0.0):
        super().__init__()
        self.width = width

class Causal(Layers):
    def __init__(self, **kwargs):
        assert "causal" not in kwargs
        super().__init__(causal=True, **kwargs)

"""
    model = net("self.a = nn.Linear(layers.width, 4)", "return self.a(x)", ", layers: Causal")
    assert directive(HEAD + base + model.removeprefix(HEAD)) == (
        "Net(Causal(width=8, depth=8, heads=8))(f32[2, 8])"
    )


def test_attributes_of_a_base_class_count_and_those_of_the_class_replace_them() -> None:
    base = """
class Base(nn.Module):
    def __init__(self, width, out=3):
        super().__init__()
        self.stem = nn.Linear(width, out)
        self.head = nn.Linear(5, 5)

"""
    body = """class Net(Base):
    def __init__(self):
        super().__init__(40)
        self.head = nn.Linear(6, 6)
"""
    for layer, size in (("stem", 40), ("head", 6)):
        text = HEAD + base + body + f"\n    def forward(self, x):\n        return self.{layer}(x)\n"
        assert directive(text) == f"Net()(f32[2, {size}])"


@pytest.mark.parametrize(
    ("parameters", "inputs"),
    [
        (", scale=4", "f32[2, 3, 32, 32]"),
        (", scale=2", "f32[2, 12, 32, 32]"),
        (", scale=1", "f32[2, 48, 32, 32]"),
    ],
)
def test_of_branches_with_a_known_condition_only_the_one_that_is_taken_counts(
    parameters: str, inputs: str
) -> None:
    init = """
    channels = 3
    if scale == 2:
        channels = channels * 4
    elif scale < 2:
        channels = channels * 16
    self.a = nn.Conv2d(channels, 8, 3)
    """
    assert directive(net(init, "return self.a(x)", parameters)) == f"Net()({inputs})"
