"""Logs of G-NetTrack Pro as the two data sets of University College Cork have them.

D. Raca, J. J. Quinlan, A. H. Zahran, C. J. Sreenan, Beyond Throughput: a 4G LTE Dataset with
Channel and Context Metrics, ACM MMSys 2018; D. Raca, D. Leahy, C. J. Sreenan, J. J. Quinlan, Beyond
Throughput, The Next Generation: a 5G Dataset with Channel and Context Metrics, ACM MMSys 2020.

A CSV file with a head and about one row a second: `Timestamp` is local time, 2019.12.16_13.40.04,
`SNR` is in dB, `DL_bitrate` and `UL_bitrate` in kbit/s, and `-` stands for a value that the phone
did not give. Times repeat and seconds are left out here and there.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from datetime import datetime

import numpy as np

from fedrt import quantities as q
from fedrt.errors import reason
from fedrt.validation import Real, shown
from fedrt.world.logs.log import BadRows, Log

TIME = "%Y.%m.%d_%H.%M.%S"
COLUMNS = ("Timestamp", "SNR", "DL_bitrate")
KBPS = Real(least=0, most=1e12)
ONLY_5G = "PINGAVG"
"""A column of the 5G data set that the other one does not have."""


def read_raca_4g(text: str, name: str, problems: list[str]) -> Log | None:
    """The samples of a log of the 4G data set."""
    return _read(text, name, problems, is_5g=False)


def read_raca_5g(text: str, name: str, problems: list[str]) -> Log | None:
    """The samples of a log of the 5G data set."""
    return _read(text, name, problems, is_5g=True)


def _read(text: str, name: str, problems: list[str], *, is_5g: bool) -> Log | None:
    rows, before = csv.reader(io.StringIO(text, newline="")), len(problems)
    try:
        head = [word.strip() for word in next(rows, [])]
        missing = [column for column in (*COLUMNS, *((ONLY_5G,) * is_5g)) if column not in head]
        if missing:
            problems.append(f"{name}: has no column {', '.join(missing)}")
            return None
        if not is_5g and ONLY_5G in head:
            problems.append(f"{name}: has a column {ONLY_5G}, as the logs of raca-5g have")
            return None
        samples = _samples(rows, head, BadRows(name, problems))
    except csv.Error as error:
        problems.append(f"{name}: is not CSV: {reason(error)}")
        return None
    if len(problems) > before:
        return None
    if not samples:
        problems.append(f"{name}: has no rows")
        return None
    begins_s, snr_db, kbps = np.array(samples).T
    return Log(begins_s - begins_s[0], np.ones(len(samples)), 1e3 * kbps, snr_db)


def _samples(
    rows: Iterable[list[str]], head: list[str], bad: BadRows
) -> list[tuple[float, float, float]]:
    """Seconds since 1970, SNR and kbit/s of every good row."""
    samples: list[tuple[float, float, float]] = []
    place = [head.index(column) for column in COLUMNS]
    for number, row in enumerate(rows, 2):
        if not row:
            continue
        if len(row) != len(head):
            bad.add(number, f"has {len(row)} values: must have {len(head)}")
            continue
        when, snr, rate = (row[i].strip() for i in place)
        try:
            # Without a zone of its own the time would be read in that of this machine.
            second = (datetime.strptime(when, TIME) - datetime(1970, 1, 1)).total_seconds()
        except ValueError:
            bad.add(number, f"Timestamp = {shown(when)}: must be as 2019.12.16_13.40.04")
            continue
        snr_db, kbps = _number(snr, q.SNR_DB), _number(rate, KBPS)
        if snr_db is None:
            bad.add(number, f"SNR = {shown(snr)}: must be {q.SNR_DB.wording}, or -")
        elif kbps is None:
            bad.add(number, f"DL_bitrate = {shown(rate)}: must be {KBPS.wording}, or -")
        elif samples and second < samples[0][0]:
            bad.add(number, f"Timestamp = {shown(when)}: must not be before the first row's")
        else:
            samples.append((second, snr_db, kbps))
    bad.end()
    return samples


def _number(word: str, rule: Real) -> float | None:
    """The number; NaN for a value that is missing, None for one that is wrong."""
    if word in ("-", ""):
        return np.nan
    try:
        value = float(word)
    except ValueError:
        return None
    return value if rule.holds(value) else None
