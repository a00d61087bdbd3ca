"""The 4G/LTE bandwidth logs of Ghent.

J. van der Hooft, S. Petrangeli, T. Wauters, R. Huysegems, P. R. Alface, T. Bostoen, F. De Turck,
HTTP/2-Based Adaptive Streaming of HEVC Video over 4G/LTE Networks, IEEE Communications Letters 20
(11), 2016.

A line for about every second of a download: milliseconds since 1970 and since the start of the
experiment, latitude, longitude, and the bytes received and the milliseconds passed since the line
before. The rate of a line is its bytes over its milliseconds.
"""

from __future__ import annotations

import numpy as np

from fedrt.validation import Real, shown
from fedrt.world.logs.log import BadLogs, Log

COLUMNS = (
    *("milliseconds since 1970", "milliseconds since the start", "latitude", "longitude"),
    *("bytes", "milliseconds"),
)
NUMBER = Real(least=-1e15, most=1e15)
COUNT = Real(least=0, most=1e15)
RULES = (COUNT, COUNT, NUMBER, NUMBER, COUNT, COUNT)


def read_ghent(text: str, name: str, faults: BadLogs) -> Log | None:
    """The samples of a log, which has rates alone."""
    before = faults.count
    samples: list[tuple[float, float, float]] = []
    for number, text_line in enumerate(text.splitlines(), 1):
        words = text_line.split()
        if not words:
            continue
        if len(words) != len(COLUMNS):
            line = f"has {len(words)} values: must have {len(COLUMNS)}"
            faults.add(name, line, "values", number)
            continue
        values = [_number(word) for word in words]
        wrong = [
            (f"{column} = {shown(word)}: must be {rule.wording}", column)
            for column, word, value, rule in zip(COLUMNS, words, values, RULES, strict=True)
            if not rule.holds(value)
        ]
        if wrong:
            faults.add(name, *wrong[0], number)
            continue
        begins_ms = values[1] - values[5]
        if samples and begins_ms < samples[0][0]:
            text = f"{COLUMNS[1]} = {words[1]}: must not be before the first row's"
            faults.add(name, text, "order", number)
            continue
        samples.append((begins_ms, values[5], values[4]))
    if faults.count == before and not any(length for _, length, _ in samples):
        faults.add(name, "has no rows")
    if faults.count > before:
        return None
    begins_ms, length_ms, size = np.array([each for each in samples if each[1] > 0]).T
    return Log((begins_ms - begins_ms[0]) / 1e3, length_ms / 1e3, 8e3 * size / length_ms)


def _number(word: str) -> float:
    """The number; NaN, which keeps no rule, for what is none."""
    try:
        return float(word)
    except ValueError:
        return np.nan
