"""Breaks at Python's own functions and modules."""

import copy
import datetime
import itertools
import logging
import random
import threading
import time
import warnings

log = logging.getLogger("cases")
LOCK = threading.Lock()


# fuselight: prints(f32[4])
def prints(x):
    y = x + 1
    print("y", y.shape)  # warning: [GB0059] "`print` cannot be traced"
  # ^^^^^^^^^^^^^^^^^^^
    return y * 2


# fuselight: evaluates(f32[4])
def evaluates(x):
    return eval("x + 1")  # warning: [GB0059] "`eval` cannot be traced"


# fuselight: text_of_a_tensor(f32[4])
def text_of_a_tensor(x):
    return x + len(str(x))
    # warning(2.11, 2.13): [GB0059] "`str` cannot be traced"
    # warning(2.14, 2.15): [GB0569] "the `repr()` of a tensor depends on its data"


# fuselight: bytes_in_memory(f32[4])
def bytes_in_memory(x):
    view = memoryview(b"abc")  # warning: [GB0059] "`memoryview` cannot be traced"
    return x + len(view)
    # warning(2.13): [GB6012] "__len__"
    # warning(2.14, 2.15): [GB9493] "`__len__` of this object is written in C"
    # warning(2.11): [GB0156] "the method `__len__` cannot be traced"


# fuselight: copies(f32[4])
def copies(x):
    return copy.deepcopy(x) + 1
    # warning(2.13, 2.14, 2.15): [GB4198] "deepcopy"
    # warning(2.11): [GB0179] "`copy.deepcopy()` cannot be traced"


# fuselight: groups_tensors(f32[4])
def groups_tensors(x):  # info: [FL101] "is not compiled"
    for _, _ in itertools.groupby([x, x], key=lambda y: y):
    # warning(2.13): [GB0811] "iter"
    # warning: [GB0152] "groupby"
    # warning(2.14, 2.15): [GB9493] "`__iter__` of this object is written in C"
    # warning(2.11): [GB0156] "the method `__iter__` cannot be traced"
        x = x + 1
    return x


# fuselight: reads_the_clock(f32[4])
def reads_the_clock(x):
    return x + time.time()  # warning(2.11, 2.13, 2.14): [GB0007] "not traced"
    #          ^^^^^^^^^^^
    # warning(2.15): [GB9193] "graph break: `time.time()` is not traced by torch.compile"
    #          ^^^^^^^^^^^


# fuselight: reads_the_calendar(f32[4])
def reads_the_calendar(x):
# error(2.11): [FL401] "Guard failed on the same frame it was created"
    return x + datetime.datetime.now().second
    # warning(2.13, 2.14, 2.15): [GB0156] "`now` cannot be traced"
    # warning(2.11): [GB0007] "`datetime.now` is not traced by torch.compile"


# fuselight: draws_a_number(f32[4])
def draws_a_number(x):
    return x + random.random()  # warning(2.11, 2.13): [GB0007] "not traced"


# fuselight: a_generator_of_random_numbers_with_two_seeds(f32[4])
def a_generator_of_random_numbers_with_two_seeds(x):
    random.Random(1, 2)  # error: [FL401] "TypeError"  # warning: [GB0297] "random.Random"
    return x


# fuselight: takes_a_lock(f32[4])
def takes_a_lock(x):  # info: [FL101] "is not compiled"
    with LOCK:  # warning: [GB0142] "context manager"
        return x + 1


# fuselight: logs(f32[4])
def logs(x):
    log.warning("here")  # warning: [GB0291] "logging calls are not traced"
    return x + 1


# fuselight: warns(f32[4])
def warns(x):
    warnings.warn("here", stacklevel=2)  # warning: [GB0007] "not traced"
    return x + 1
