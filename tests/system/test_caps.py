"""The caps that docs/security.md lists are those of the code."""

from __future__ import annotations

import re

from support.paths import ROOT

from fedrt import errors
from fedrt import validation as checks
from fedrt.data import formats, originals
from fedrt.policies import spec
from fedrt.report import serve
from fedrt.scenario import classes, load, model
from fedrt.scenario.tables import toml_text
from fedrt.studies import study, sweep
from fedrt.system import inputs
from fedrt.world.logs import convert

UNITS = {"MiB": 2**20, "GiB": 2**30}
CAPS = {
    "a scenario": [load.MOST_BYTES, toml_text.MOST_LINES, toml_text.MOST_PARTS],
    "a state for `fedrt plan`, and any JSON or text in a folder of results": [inputs.MOST_TEXT],
    "a data set, a trace, a table of a run": [inputs.MOST_DATA],
    "`points.jsonl` of a study": [study.MOST_POINTS_BYTES],
    "what the compressed parts of an `.npz`, `.gz` or `.tar.gz` unpack to": [inputs.MOST_UNPACKED],
    "numbers in a table (Parquet)": [inputs.MOST_CELLS],
    "one batch in CIFAR-10's archive": [originals.LARGEST_BATCH],
    "samples, classes of a data set": [formats.MOST_SAMPLES, formats.MOST_CLASSES],
    "devices, edge servers, global rounds of a scenario": [
        model.MOST_DEVICES,
        model.MOST_EDGES,
        model.MOST_ROUNDS,
    ],
    "files that extend each other": [load.MOST_FILES],
    "device classes": [classes.MOST_CLASSES],
    "a log for `fedrt trace convert`": [inputs.MOST_TEXT],
    "rows of a trace that is made from logs": [convert.MOST_ROWS],
    "combinations of one `fedrt sweep`": [sweep.MOST_POINTS],
    "a policy with its options, as typed": [spec.LONGEST],
    "problems listed for one file": [errors.MOST_LINES],
    "a picture that `fedrt watch` serves": [serve.MOST_FIGURE],
}


def test_every_cap_is_the_one_that_holds():
    text = (ROOT / "docs" / "security.md").read_text().partition("## Sizes")[2]
    text = text.partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    said = {
        what: [
            int(number.replace(",", "")) * UNITS.get(unit, 1)
            for number, unit in re.findall(r"(\d[\d,]*\d|\d)(?: (MiB|GiB))?", cap)
        ]
        for what, cap in rows[1:]
    }
    assert said == CAPS
    assert errors.MOST_LINES == checks.MOST_LINES
