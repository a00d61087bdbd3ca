"""Policies of a user's own, with names that a page must cope with."""

from __future__ import annotations

from fedrt.policies.ce_fedavg import CEFedAvg


class Long(CEFedAvg):
    """A policy whose name does not fit on any line."""

    name = "a-policy-whose-name-is-so-long-that-no-table-and-no-legend-has-room-for-it-on-one-line"


class Unbroken(CEFedAvg):
    """A policy whose name has no place to break it."""

    name = 100 * "W"


class Html(CEFedAvg):
    """A policy whose name would be an element of the page if it were not text."""

    name = "<img src=x onerror=window.broken=1><b>bold</b>&amp;"
