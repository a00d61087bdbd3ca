"""The functions that Python code calls, one for each command of the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedrt.system.lazy import export as load_late

if TYPE_CHECKING:
    from fedrt.api.devices.calibration import calibrate as calibrate
    from fedrt.api.devices.enrolment import enrol_init as enrol_init
    from fedrt.api.devices.enrolment import enrol_request as enrol_request
    from fedrt.api.devices.enrolment import enrol_revoke as enrol_revoke
    from fedrt.api.devices.enrolment import enrol_show as enrol_show
    from fedrt.api.devices.enrolment import enrol_sign as enrol_sign
    from fedrt.api.devices.parties import coordinator as coordinator
    from fedrt.api.devices.parties import device as device
    from fedrt.api.devices.parties import edge as edge
    from fedrt.api.devices.testbed import TestbedResult as TestbedResult
    from fedrt.api.devices.testbed import testbed as testbed
    from fedrt.api.devices.testbed import testbed_clean as testbed_clean
    from fedrt.api.estimates import estimate as estimate
    from fedrt.api.estimates import front as front
    from fedrt.api.estimates import sweep as sweep
    from fedrt.api.files.bench import bench as bench
    from fedrt.api.files.datasets import data_fetch as data_fetch
    from fedrt.api.files.datasets import data_import as data_import
    from fedrt.api.files.datasets import data_list as data_list
    from fedrt.api.files.datasets import data_show as data_show
    from fedrt.api.files.reproduction import reproduce as reproduce
    from fedrt.api.files.splitting import data_split as data_split
    from fedrt.api.models import export as export
    from fedrt.api.pages import report as report
    from fedrt.api.pages import watch as watch
    from fedrt.api.results import ComparisonResult as ComparisonResult
    from fedrt.api.results import Page as Page
    from fedrt.api.results import Result as Result
    from fedrt.api.results import RunResult as RunResult
    from fedrt.api.results import StudyResult as StudyResult
    from fedrt.api.scenarios import check as check
    from fedrt.api.scenarios import plan as plan
    from fedrt.api.scenarios import scenario as scenario
    from fedrt.api.scenarios import trace_convert as trace_convert
    from fedrt.api.sizes import bound as bound
    from fedrt.api.sizes import size as size
    from fedrt.api.training import compare as compare
    from fedrt.api.training import run as run
else:
    __getattr__, __dir__, __all__ = load_late(
        __name__,
        {
            "devices.calibration": "calibrate",
            "devices.enrolment": "enrol_init enrol_request enrol_revoke enrol_show enrol_sign",
            "devices.parties": "coordinator device edge",
            "devices.testbed": "TestbedResult testbed testbed_clean",
            "estimates": "estimate front sweep",
            "files.bench": "bench",
            "files.datasets": "data_fetch data_import data_list data_show",
            "files.splitting": "data_split",
            "files.reproduction": "reproduce",
            "models": "export",
            "pages": "report watch",
            "results": "ComparisonResult Page Result RunResult StudyResult",
            "scenarios": "check plan scenario trace_convert",
            "sizes": "bound size",
            "training": "compare run",
        },
    )
