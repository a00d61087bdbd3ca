"""The digest of users' own code, from several threads at once."""

from __future__ import annotations

import gc
import time
from concurrent.futures import ThreadPoolExecutor

from fedrt.system.own_source import own_source


def deep(depth, work):
    """Do some work that far down the stack."""
    return deep(depth - 1, work) if depth else work()


def test_threads_that_parse_at_once_get_the_same_digest():
    """Collecting garbage may let another thread run in the middle of Python's parser."""

    def let_others_run(phase, info):
        time.sleep(0)

    threshold = gc.get_threshold()
    gc.callbacks.append(let_others_run)
    gc.set_threshold(50)
    try:
        with ThreadPoolExecutor(4) as pool:
            asked = [
                pool.submit(deep, 20 * n, lambda: own_source("support.trained:Normed", "model"))
                for n in range(40)
            ]
            found = {each.result() for each in asked}
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(let_others_run)
    assert len(found) == 1
    assert None not in found
