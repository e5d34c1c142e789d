"""Arguments of `@triton.autotune` that a fix writes."""

from __future__ import annotations

import pytest

from fuselight_server.source.autotune_decorators import CannotKeepError, write_arguments

KERNEL = "@triton.jit\ndef add(x, total):\n    pass\n"
ZERO = ['reset_to_zero=["total"]']
BOTH = ['reset_to_zero=["total"]', 'restore_value=["x"]']


@pytest.mark.parametrize(
    ("decorator", "arguments", "expected"),
    [
        (
            '@triton.autotune(CONFIGS, key=["n"])',
            ZERO,
            '@triton.autotune(CONFIGS, key=["n"], reset_to_zero=["total"])',
        ),
        ('@autotune(CONFIGS, ["n"])', ZERO, '@autotune(CONFIGS, ["n"], reset_to_zero=["total"])'),
        (
            '@triton.autotune(configs=[\n    A,  # größer\n], key=["n"],\n)',
            BOTH,
            (
                '@triton.autotune(configs=[\n    A,  # größer\n], key=["n"], '
                'reset_to_zero=["total"], restore_value=["x"],\n)'
            ),
        ),
        (
            '@triton.autotune(CONFIGS, restore_value=["y"], key=["n"])',
            ['restore_value=["y", "x"]'],
            '@triton.autotune(CONFIGS, restore_value=["y", "x"], key=["n"])',
        ),
        (
            '@triton.autotune(CONFIGS, key=["n"], reset_to_zero=["y"])',
            ['reset_to_zero=["y", "total"]', 'restore_value=["x"]'],
            '@triton.autotune(CONFIGS, key=["n"], reset_to_zero=["y", "total"], restore_value=["x"])',
        ),
    ],
)
def test_arguments_are_written_and_all_else_stays(
    decorator: str, arguments: list[str], expected: str
) -> None:
    text = f"import triton\n\n{decorator}\n{KERNEL}"
    assert write_arguments(text, "add", arguments) == f"import triton\n\n{expected}\n{KERNEL}"


@pytest.mark.parametrize(
    "text",
    [
        f"TUNED = triton.autotune(CONFIGS, key=[])\n\n@TUNED\n{KERNEL}",
        f"@triton.autotune(CONFIGS, ['n'], None, ['total'])\n{KERNEL}",
        f"@triton.autotune(CONFIGS, **options)\n{KERNEL}",
        f"@triton.autotune(CONFIGS, restore_value=['x'])\n{KERNEL}",
        f"@triton.autotune(CONFIGS, key=[])\n{KERNEL}\n@triton.autotune(CONFIGS, key=[])\n{KERNEL}",
        "def add(:\n",
    ],
    ids=[
        "in a variable",
        "positional",
        "a dict",
        "an argument to remove",
        "two kernels of one name",
        "no Python",
    ],
)
def test_other_decorators_are_left_alone(text: str) -> None:
    with pytest.raises(CannotKeepError):
        write_arguments(text, "add", ZERO)
