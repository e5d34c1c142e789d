# truth: a table in a cache of functools is only read
# stage: none
# seen: no difference beyond rounding
import functools

import torch


@functools.lru_cache(maxsize=None)
def positions(length, width):
    place = torch.arange(length)[:, None] / 10.0 ** (torch.arange(width)[None, :] / width)
    return torch.sin(place)


def embed(x):
    return x + positions(x.shape[0], x.shape[1])


def main():
    positions.cache_clear()
    compiled = torch.compile(embed)
    return [compiled(torch.full((5, 4), float(value))) for value in range(3)]


if __name__ == "__main__":
    print(main())
