"""Exceptions that eager mode catches: which of them compiled code catches, too."""

import contextlib

import torch


class Refused(ValueError):
    """As programs define their own."""


# fuselight: falls_back(f32[2, 3])
@torch.compile
def falls_back(x):
    try:
        return torch.softmax(x, dim=2)  # error: [FL410] "does not run `except IndexError`"
    except IndexError:
        return x.mean(-1)


# fuselight: squares(f32[2, 3])
@torch.compile
def squares(x):  # hint(2.14, 2.15): [FL106] "nothing to compile in `squares`: its first call ran no tensor operators"
    try:
        return x @ x  # error(2.11, 2.13): [FL410] "does not run `except (ValueError, RuntimeError)`"
    except (ValueError, RuntimeError):
        return x


# fuselight: flattens(f32[2, 3])
@torch.compile
def flattens(x):
    try:
        return x.t().view(-1)  # error(2.11, 2.13): [FL410] "does not run `except RuntimeError`"
    except RuntimeError:
        return x.t().reshape(-1)


# fuselight: suppresses(f32[2, 3])
@torch.compile
def suppresses(x):
    with contextlib.suppress(IndexError):
        x = x.squeeze(7)
        # error: [FL410] "does not run `with contextlib.suppress(IndexError)`"
    return x + 1


def narrow(x):
    return x[5]  # error: [FL410] "does not run `except LookupError`"


# fuselight: calls(f32[2, 3])
@torch.compile
def calls(x):
    try:
        return narrow(x)
    except LookupError:
        return x + 1


# fuselight: asserts(f32[2, 3])
@torch.compile
def asserts(x):
    try:
        assert (x > 1e9).all(), "too small"
        # error: [FL410] "does not run `except AssertionError`"
    except AssertionError:
        return x + 1
    return x


# fuselight: decomposes(f32[3, 3])
@torch.compile
def decomposes(x):
    try:
        return torch.linalg.cholesky(-torch.eye(3) + 0 * x)
        # error: [FL410] "does not run `except torch.linalg.LinAlgError`"
    except torch.linalg.LinAlgError:
        return x


# fuselight: raises_it_again(f32[2, 3])
# error: [FL501] "the call passes f32[2, 3]"
@torch.compile
def raises_it_again(x):
    try:
        return x @ x
    except RuntimeError:
        x = x + 1
        raise


# fuselight: catches_another(f32[2, 3])
# error: [FL501] "the call passes f32[2, 3]"
@torch.compile
def catches_another(x):
    try:
        return x @ x
    except KeyError:
        return x


# fuselight: fails_in_its_handler(f32[2, 3])
# error: [FL501] "the call passes f32[2, 3]"
@torch.compile
def fails_in_its_handler(x):
    try:
        raise Refused(x.dim())
    except Refused:
        return x @ x


# fuselight: catches_what_python_raises(f32[2, 3], "eval")
@torch.compile
def catches_what_python_raises(x, mode):
    try:
        scale = {"train": 2.0}[mode]
    except KeyError:
        scale = 1.0
    try:
        raise Refused(mode)
    except ValueError:
        return x * scale


# fuselight: tests_before(f32[2, 3])
@torch.compile
def tests_before(x):
    return torch.softmax(x, dim=2) if x.dim() > 2 else x.mean(-1)


@torch.compiler.disable
def in_eager_mode(x):
    try:
        return x.squeeze(7)
    except IndexError:
        return x


# fuselight: runs_it_in_eager_mode(f32[2, 3])
@torch.compile
def runs_it_in_eager_mode(x):
    return in_eager_mode(x * 2) + 1
    # warning: [GB0098] "graph break: calls `in_eager_mode`, which is marked torch.compiler.disable"
