"""The wrapper of a graph as a script that runs by itself: it checks what the kernels give, and times them.

Invariant: the script needs torch and the device, and nothing of the user's or of Fuselight. It checks against the
captured graph, run operator by operator with the same random inputs; of that, Triton kernels of the user's alone are
taken from the wrapper, for the graph does not hold them. Where torch wrote a wrapper that lends its inputs to nobody,
the script times the kernels as torch would, and its head says that nothing is checked.
"""

from __future__ import annotations

import re

_MAIN = re.compile(r'\n+if __name__ == "__main__":\n.*\Z', re.DOTALL)
_NEEDS = ("\ndef get_args(", "\ndef benchmark_compiled_module(args")
_OWN = re.compile(r"torch\.ops\.higher_order\.triton_kernel_wrapper_(mutation|functional)\(")
_ONE_GRID = re.compile(r"grid = \[\([^()]*\)\], tma_descriptor_metadata = \{\},")
"""How a launch is written of a kernel of the user's that has one configuration."""
_HELD = re.compile(r"\bself\.(\w+)")
"""A tensor that the graph holds: the wrapper makes one, too, under the same name."""
_OWN_KERNEL = '''

def own_kernel(*, kernel_idx, constant_args_idx, grid, tma_descriptor_metadata, kwargs):
    """Launch a Triton kernel of one's own, as the wrapper has it; the graph knows it by a number alone."""
    for kernel in list(globals().values()):
        if getattr(kernel, "custom_kernel", False):
            signature, constants = kernel.triton_meta["signature"], kernel.triton_meta["constants"]
            given = {name: kwargs[name] for name in constants if name in kwargs}
            if set(signature) == set(kwargs) and given == {name: constants[name] for name in given}:
                names = [name for name, kind in signature.items() if kind != "constexpr"]
                stream = torch._C._cuda_getCurrentRawStream(0)
                return kernel.run(*(kwargs[name] for name in names), *grid[0], stream=stream)
    raise RuntimeError(f"no kernel takes {', '.join(kwargs)}")
'''
_CHECK = '''

def check(args):
    """Compare the kernels with the captured graph, run operator by operator. Returns whether they agree."""

    def run(function, seed=0):
        """What a function gives, and behind it its inputs, which it may have changed."""
        copies = [one.clone() if isinstance(one, torch.Tensor) else one for one in args]
        torch.manual_seed(seed)
        with torch.no_grad():
            return [*function(list(copies)), *copies]

    expected = run(lambda inputs: captured_graph(sys.modules[__name__], *inputs))
    given = run(call)
    names = [f"output {index}" for index in range(len(given) - len(args))]
    names += [f"input {index}, written in place" for index in range(len(args))]
    before = [None] * (len(given) - len(args)) + list(args)
    others = None
    agree = True
    for index, (name, mine, theirs) in enumerate(zip(names, given, expected)):
        if not isinstance(mine, torch.Tensor) or not isinstance(theirs, torch.Tensor) or mine.numel() == 0:
            continue
        if before[index] is not None and torch.equal(theirs, before[index]):
            continue  # the graph leaves it as it is; kernels may take the room of one that is done with
        close, words = compared(mine, theirs)
        if not close and RANDOM:
            others = run(call, seed=1) if others is None else others
            if not compared(mine, others[index])[0]:
                print(f"{name}: not compared, for it is random, and drawn in another way")
                continue
        agree = agree and close
        print(f"{name}: {'agrees' if close else 'DIFFERS'}, {words}")
    return agree


def compared(mine, theirs):
    """Whether two tensors agree, and how far in words. Infinite numbers and NaN have to stand in the same places."""
    if mine.shape != theirs.shape:
        return False, f"of shape {tuple(mine.shape)} and not {tuple(theirs.shape)}"
    wide = torch.complex128 if mine.is_complex() else torch.float64
    tolerance = 1e-3 if mine.dtype in (torch.float32, torch.float64) else 2e-2
    mine, theirs = mine.to(wide), theirs.to(wide)
    finite = mine.isfinite() & theirs.isfinite()
    same = bool((finite | (mine == theirs) | (mine.isnan() & theirs.isnan())).all())
    count = int(finite.sum())
    difference = (mine - theirs)[finite].abs().max().item() if count else 0.0
    scale = theirs[finite].abs().max().item() if count else 0.0
    words = f"by {difference:.3g} at most, of values up to {scale:.3g}"
    if count < mine.numel():
        words += f"; {mine.numel() - count} of {mine.numel()} are not finite"
    return same and difference <= tolerance * scale + 1e-5, words


if __name__ == "__main__":
    arguments = get_args()
    agreed = check(arguments)
    benchmark_compiled_module(arguments)  # prints seconds for one call
    raise SystemExit(0 if agreed else "the kernels do not give what the captured graph gives")
'''
_DRAWS = re.compile(r"\b(inductor_rand\w*|rand\w*|bernoulli\w*|\w*dropout|multinomial|normal\w*)\.\w+\(")


def checks(wrapper: str, aten: str | None) -> bool:
    """Whether the script of a wrapper can check its kernels."""
    if aten is None or not all(need in wrapper for need in _NEEDS):
        return False
    held = {match[1] for match in _HELD.finditer(aten)}
    if any(re.search(rf"^{name} = |^ +global {name}$", wrapper, re.MULTILINE) is None for name in held):
        return False
    own = list(_OWN.finditer(aten))
    return all(match[1] == "mutation" for match in own) and len(own) == len(_ONE_GRID.findall(aten))


def standalone(wrapper: str, aten: str | None) -> str:
    """Make the script of a wrapper's text and of the graph that it is of."""
    if aten is None or not checks(wrapper, aten):
        return wrapper
    graph = aten.strip().replace("def forward(", "def captured_graph(", 1)
    body = _MAIN.sub("", wrapper)
    if _OWN.search(graph):
        graph, body = _OWN.sub("own_kernel(", graph), f"{body}\n{_OWN_KERNEL}"
    random = (
        f"import sys\n\nRANDOM = {_DRAWS.search(graph) is not None}  # whether the graph draws random numbers"
    )
    return f"{body}\n\n\n{random}\n\n\n{graph}\n{_CHECK}"
