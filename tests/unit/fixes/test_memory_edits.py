"""Changes of the source that may need less memory: what is written, and where nothing is."""

from __future__ import annotations

import textwrap

import pytest

from fuselight.shared.report import EditKind, Location
from fuselight_server.fixes.rewrites.memory_edits import EditPlaces, memory_edits

PATH = "/w/m.py"
HEAD = """\
import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(4, 4)
        self.act = nn.ReLU()
        self.down = nn.Linear(4, 4)
        self.head = nn.Linear(4, 9)
        self.net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Dropout(0.1))
        self.early = nn.Sequential(nn.ReLU(), nn.Linear(4, 4))

"""
FIRST = HEAD.count("\n") + 1


def edits(
    body: str, kind: EditKind, *, head: str = HEAD, calls: tuple[Location, ...] = ()
) -> list[list[str]]:
    """The changed lines of each edit of a kind, with all lines of a method as those that hold memory."""
    text = head + textwrap.indent(textwrap.dedent(body).strip("\n"), "    ") + "\n"
    first = head.count("\n") + 1
    kept = range(first, text.count("\n") + 1)
    proposals = memory_edits(PATH, text, EditPlaces(kept, [calls] if calls else []))
    before = text.splitlines()
    return [
        [line.strip() for line in edit.text.splitlines() if line not in before]
        for edit in proposals
        if edit.kind is kind
    ]


def place(line: int, column: int | None = None, end: int | None = None) -> Location:
    return Location(PATH, FIRST + line, column, FIRST + line, end)


IMPORT = "from torch.utils.checkpoint import checkpoint"
FORWARD = """
def forward(self, x):
    x = self.up(x) + self.down(x)
    return x
"""


def test_the_call_of_the_columns_is_checkpointed_with_its_import() -> None:
    assert edits(FORWARD, EditKind.CHECKPOINT, calls=(place(1, 12, 22),)) == [
        [IMPORT, "x = checkpoint(self.up, x, use_reentrant=False) + self.down(x)"]
    ]


def test_all_calls_of_a_region_change_together() -> None:
    both = place(1, 12, 22), place(1, 25, 37)
    changed = (
        "x = checkpoint(self.up, x, use_reentrant=False) + checkpoint(self.down, x, use_reentrant=False)"
    )
    assert edits(FORWARD, EditKind.CHECKPOINT, calls=both) == [[IMPORT, changed]]


@pytest.mark.parametrize(
    ("body", "calls"),
    [
        (FORWARD, (place(1),)),  # two calls, and no columns: Python 3.10
        (FORWARD, (place(1, 12, 22), place(2, 0, 3))),  # one of two is not there
        ("def forward(self, x):\n    return self.up(x, debug=True)", (place(1),)),
        ("def forward(self, x, **named):\n    return self.up(x, **named)", (place(1),)),
    ],
)
def test_no_checkpoint_where_the_call_is_not_known_or_would_get_other_arguments(
    body: str, calls: tuple[Location, ...]
) -> None:
    assert edits(body, EditKind.CHECKPOINT, calls=calls) == []


def test_a_name_that_the_file_binds_keeps_its_meaning() -> None:
    body = "def forward(self, x):\n    checkpoint = self.up(x)\n    return checkpoint"
    changed = edits(body, EditKind.CHECKPOINT, calls=(place(1),))
    assert changed == [
        [f"{IMPORT} as checkpoint_call", "checkpoint = checkpoint_call(self.up, x, use_reentrant=False)"]
    ]


def test_columns_are_bytes() -> None:
    body = 'def forward(self, x):\n    return self.up(x) if "é" else self.down(x)'
    (changed,) = edits(body, EditKind.CHECKPOINT, calls=(place(1, 39, 51),))
    assert changed[1] == 'return self.up(x) if "é" else checkpoint(self.down, x, use_reentrant=False)'


def test_conversions_to_a_wider_dtype_are_left_out_one_by_one() -> None:
    body = """
    def forward(self, x, y):
        mask = (x > 0).float()
        return self.up(x.to(torch.float32)) * mask.to(dtype=y.dtype)
    """
    assert edits(body, EditKind.NARROW) == [
        ["mask = x > 0"],
        ["return self.up(x) * mask.to(dtype=y.dtype)"],
        ["return self.up(x.to(torch.float32)) * mask"],
    ]


def test_other_conversions_stay() -> None:
    body = """
    def forward(self, x):
        return self.up(x.to("cuda")).half() + x.to(torch.float32, copy=True) + x.bfloat16()
    """
    assert edits(body, EditKind.NARROW) == []


LOSS = """
def forward(self, x, y):
    h = self.up(x)
    logits = self.head(h)
    return F.cross_entropy(logits.view(-1, logits.size(-1)), y.view(-1), ignore_index=3)
"""


def test_the_loss_of_logits_that_nothing_else_reads_is_chunked() -> None:
    changed, in_eager_mode = edits(LOSS, EditKind.CHUNKED_LOSS)
    assert [line for line in in_eager_mode if line not in changed] == ["@torch.compiler.disable"]
    assert changed[0] == "import torch.utils.checkpoint"
    assert changed[-1] == "return _chunked_cross_entropy(self.head, h, y, ignore_index=3)"
    converted = LOSS.replace("logits.view(", "logits.float().view(")
    changed, _ = edits(converted, EditKind.CHUNKED_LOSS)
    assert changed[-1].endswith("(lambda rows: self.head(rows).float(), h, y, ignore_index=3)")
    changed, _ = edits(
        "def forward(self, x, y):\n    return F.cross_entropy(self.head(x), y)", EditKind.CHUNKED_LOSS
    )
    assert changed[-1] == "return _chunked_cross_entropy(self.head, x, y)"


def test_the_loss_of_the_next_token_is_chunked_with_its_shift() -> None:
    body = """
    def forward(self, x, y):
        logits = self.head(x).float()
        shifted = logits[..., :-1, :].contiguous()
        labels = y[:, 1:].contiguous()
        return F.cross_entropy(shifted.view(-1, shifted.size(-1)), labels.view(-1))
    """
    changed, _ = edits(body, EditKind.CHUNKED_LOSS)
    assert changed[-1] == (
        "return _chunked_cross_entropy(lambda rows: self.head(rows).float(), x[..., :-1, :], labels)"
    )
    direct = "def f(self, x, y):\n    return F.cross_entropy(self.head(x)[:, :-1].flatten(0, 1), y[:, 1:].flatten())"
    changed, _ = edits(direct, EditKind.CHUNKED_LOSS)
    assert changed[-1] == "return _chunked_cross_entropy(self.head, x[:, :-1], y[:, 1:])"
    assert edits(body.replace("[..., :-1, :]", "[..., :9]"), EditKind.CHUNKED_LOSS) == [], (
        "a part of the logits"
    )
    assert edits(body + "    + logits.sum()", EditKind.CHUNKED_LOSS) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("ignore_index=3)", "ignore_index=3), logits"),  # returned
        ("ignore_index=3", "label_smoothing=0.1"),
        ("ignore_index=3", 'reduction="sum"'),
        ("    return", "    h = h * 2\n    return"),  # the layer would get another value
        ("logits = self.head(h)", "logits = self.head(h)\n    logits = logits * 2"),
        ("self.head(h)", "torch.relu(h)"),
        ("self.head(h)", "self.head(h, x)"),
    ],
)
def test_no_loss_is_chunked_that_is_another_or_whose_logits_are_read(old: str, new: str) -> None:
    assert old in LOSS
    assert edits(LOSS.replace(old, new), EditKind.CHUNKED_LOSS) == []


def test_activations_of_new_results_write_in_place() -> None:
    body = """
    def forward(self, x):
        a = F.relu(self.up(x))
        b = torch.sigmoid(a + x)
        c = self.down(b)
        c = F.gelu(c) + F.silu(c)
        c = self.down(c)
        c = F.relu(c)
        return c
    """
    assert edits(body, EditKind.IN_PLACE) == [
        ["a = F.relu(self.up(x), inplace=True)"],
        ["b = torch.sigmoid_(a + x)"],
        ["c = F.relu(c, inplace=True)"],
        [
            "self.net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Dropout(0.1, inplace=True))",
        ],
        [
            "self.net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True), nn.Dropout(0.1))",
        ],
    ]


@pytest.mark.parametrize(
    "body",
    [
        "def forward(self, x):\n    return F.relu(x)",  # the caller's
        "def forward(self, x):\n    y = self.up(x)\n    return F.relu(y) + y",
        "def forward(self, x):\n    y = self.up(x)\n    y = F.relu(y) + y\n    return y",
        "def forward(self, x):\n    return F.relu(self.act(x))",  # may be its argument
        "def forward(self, x):\n    return F.relu(self.other(x))",
        "def forward(self, x):\n    return F.relu(self.up(x), inplace=False)",
    ],
)
def test_activations_of_what_others_may_read_stay(body: str) -> None:
    changed = edits(body, EditKind.IN_PLACE, head=HEAD.replace("self.net = ", "self.net = nn.Identity() or "))
    assert [lines for lines in changed if not lines[0].startswith("self.net")] == []


def test_an_output_that_nothing_reads_is_not_kept() -> None:
    body = "def step(model, x):\n    logits, loss = model(x)\n    loss.backward()"
    assert edits(body, EditKind.UNREAD_OUTPUT) == [["loss = model(x)[1]"]]
    main = "if __name__ == '__main__':\n    loss, *_ = model(x)\n    loss, _ = model(x)\n    loss.backward()"
    assert edits(main, EditKind.UNREAD_OUTPUT, head="import torch\nif True:\n") == [["loss = model(x)[0]"]]


@pytest.mark.parametrize(
    "body",
    [
        "def step(model, x):\n    logits, loss = model(x)\n    loss.backward()\n    return logits",
        "def step(model, x):\n    logits, loss = model(x)\n    loss.backward()\n    return locals()",
        "def step(model, x):\n    for _ in x:\n        logits, loss = model(x)\n    loss.backward()\n    del logits",
        "def step(model, x):\n    logits, loss = model(x)\n    loss.backward()\n    logits += 1",
        "def step(model, x):\n    global logits\n    logits, loss = model(x)\n    loss.backward()",
        "logits, loss = model(x)\nloss.backward()",  # another file may import it
        "def step(model, x):\n    logits, loss = x\n    loss.backward()",
    ],
)
def test_an_output_that_something_may_read_is_kept(body: str) -> None:
    assert (
        edits(body, EditKind.UNREAD_OUTPUT, head="class A:\n" if body.startswith("def") else "if True:\n")
        == []
    )


def test_a_block_that_may_read_every_name_keeps_its_outputs() -> None:
    main = "if __name__ == '__main__':\n    loss, logits = model(x)\n    loss.backward()\n    save(globals())"
    assert edits(main, EditKind.UNREAD_OUTPUT, head="import torch\nif True:\n") == []


def test_a_damaged_file_has_no_edits() -> None:
    assert list(memory_edits(PATH, HEAD + "    def forward(self:\n", EditPlaces([FIRST]))) == []


def test_a_checkpointed_call_is_also_tried_without_its_checkpoint() -> None:
    head = HEAD.replace("import torch\n", f"import torch\n{IMPORT}\n", 1)
    body = """
    def forward(self, x):
        x = checkpoint(self.up, x, use_reentrant=False)
        return checkpoint(lambda y: self.down(y), *x, preserve_rng_state=True, scale=2)
    """
    assert edits(body, EditKind.NO_CHECKPOINT, head=head) == [
        ["x = self.up(x)"],
        ["return (lambda y: self.down(y))(*x, scale=2)"],
    ]
    assert edits(body, EditKind.NO_CHECKPOINT) == [], "of another library"
