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
from fedrt.world.logs.log import BadLogs, Log

TIME = "%Y.%m.%d_%H.%M.%S"
COLUMNS = ("Timestamp", "SNR", "DL_bitrate")
KBPS = Real(least=0, most=1e12)
ONLY_5G = "PINGAVG"
"""A column of the 5G data set that the other one does not have."""


def read_raca_4g(text: str, name: str, faults: BadLogs) -> Log | None:
    """The samples of a log of the 4G data set."""
    return _read(text, name, faults, is_5g=False)


def read_raca_5g(text: str, name: str, faults: BadLogs) -> Log | None:
    """The samples of a log of the 5G data set."""
    return _read(text, name, faults, is_5g=True)


def _read(text: str, name: str, faults: BadLogs, *, is_5g: bool) -> Log | None:
    rows, before = csv.reader(io.StringIO(text, newline="")), faults.count
    try:
        head = [word.strip() for word in next(rows, [])]
        missing = [column for column in (*COLUMNS, *((ONLY_5G,) * is_5g)) if column not in head]
        if missing:
            faults.add(name, f"has no column {', '.join(missing)}")
            return None
        if not is_5g and ONLY_5G in head:
            faults.add(name, f"has a column {ONLY_5G}, as the logs of raca-5g have")
            return None
        samples = _samples(rows, head, name, faults)
    except csv.Error as error:
        faults.add(name, f"is not CSV: {reason(error)}")
        return None
    if faults.count > before:
        return None
    if not samples:
        faults.add(name, "has no rows")
        return None
    begins_s, snr_db, kbps = np.array(samples).T
    return Log(begins_s - begins_s[0], np.ones(len(samples)), 1e3 * kbps, snr_db)


def _samples(
    rows: Iterable[list[str]], head: list[str], name: str, faults: BadLogs
) -> list[tuple[float, float, float]]:
    """Seconds since 1970, SNR and kbit/s of every good row."""
    samples: list[tuple[float, float, float]] = []
    place = [head.index(column) for column in COLUMNS]
    for number, row in enumerate(rows, 2):
        if not row:
            continue
        if len(row) != len(head):
            faults.add(name, f"has {len(row)} values: must have {len(head)}", "values", number)
            continue
        when, snr, rate = (row[i].strip() for i in place)
        try:
            # Without a zone of its own the time would be read in that of this machine.
            second = (datetime.strptime(when, TIME) - datetime(1970, 1, 1)).total_seconds()
        except ValueError:
            line = f"Timestamp = {shown(when)}: must be as 2019.12.16_13.40.04"
            faults.add(name, line, "time", number)
            continue
        snr_db, kbps = _number(snr, q.SNR_DB), _number(rate, KBPS)
        if snr_db is None:
            line = f"SNR = {shown(snr)}: must be {q.SNR_DB.wording}, or -"
            faults.add(name, line, "SNR", number)
        elif kbps is None:
            line = f"DL_bitrate = {shown(rate)}: must be {KBPS.wording}, or -"
            faults.add(name, line, "rate", number)
        elif samples and second < samples[0][0]:
            line = f"Timestamp = {shown(when)}: must not be before the first row's"
            faults.add(name, line, "order", number)
        else:
            samples.append((second, snr_db, kbps))
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
