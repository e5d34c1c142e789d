"""A program that compiles in a thread, which does not have the settings that the main thread has made."""

from concurrent.futures import ThreadPoolExecutor

import torch

torch._dynamo.config.recompile_limit = 64
torch._dynamo.config.capture_scalar_outputs = True


@torch.compile
def padded(x, name):  # warning: [FL102] "recompile_limit = 64 was set on the main thread only"
    return torch.nn.functional.pad(x, (0, len(name)))  # warning: [FL201] "recompiled: name was 'a', now 'b'"


@torch.compile
def normalized(x):
    return x / x.sum().item()  # warning: [GB0124] "capture_scalar_outputs = True was set on the main thread only"


@torch.compile
def on_the_main_thread(x):
    return x / x.sum().item()


# Nothing of this file is on the stack of the thread that calls it.
scores = torch.compile(torch.nn.Sequential(torch.nn.Linear(4, 2)))  # warning: [FL201] "recompiled: input.size(0) was 2, now 3"


if __name__ == "__main__":
    on_the_main_thread(torch.ones(4))
    with ThreadPoolExecutor(1) as pool:
        for name in "abcdefghij":
            pool.submit(padded, torch.ones(4), name).result()
        pool.submit(normalized, torch.ones(4)).result()
        for rows in (2, 3):
            pool.submit(scores, torch.ones(rows, 4)).result()
