"""How often each caller may call: a token bucket for each."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable

MOST_BUCKETS = 10_000


class Rates:
    """Buckets of `burst` tokens, filled at `per_s` tokens a second; a call takes one."""

    def __init__(
        self, per_s: float, burst: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_s = per_s
        self._burst = burst
        self._clock = clock
        self._buckets: dict[Hashable, tuple[float, float]] = {}

    def take(self, who: Hashable) -> bool:
        """Whether a caller may call now; if so, it is counted."""
        moment = self._clock()
        tokens, before = self._buckets.get(who, (float(self._burst), moment))
        tokens = min(float(self._burst), tokens + (moment - before) * self._per_s)
        may = tokens >= 1
        self._buckets[who] = (tokens - 1 if may else tokens, moment)
        if len(self._buckets) > MOST_BUCKETS:
            self._drop_full(moment)
        return may

    def _drop_full(self, moment: float) -> None:
        """Forget the callers whose buckets are full again: a new one is the same."""
        self._buckets = {
            who: (tokens, before)
            for who, (tokens, before) in self._buckets.items()
            if tokens + (moment - before) * self._per_s < self._burst
        }
