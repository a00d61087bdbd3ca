"""The bench on the page: every score as it was saved, in a real browser and on a phone's width."""

from __future__ import annotations

import json
import shutil

import pytest
from support.paths import ROOT

from fedrt.bench.view import scored_first
from fedrt.errors import InputError
from fedrt.report.page.collect import collect
from fedrt.report.page.write import write_page

SAVED = ROOT / "results" / "bench" / "bench.json"
DATA = json.loads(SAVED.read_text())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("bench")
    shutil.copy(SAVED, out)
    write_page([out], out / "page.html")
    return out


def test_it_shows_every_score_and_does_not_scroll_sideways(folder, view):
    page = view((folder / "page.html").as_uri())
    page.show_all()
    assert page.errors == []
    policies = scored_first(DATA)
    *series, over = page.series("chart-study-0")
    assert [each["name"] for each in series] == policies
    marked = [each for w in DATA["worlds"].values() for each in w["policies"].values()]
    marked = [each for each in marked if each["above"] and any(each["over_limit_devices"])]
    assert len(over["data"]) == len(marked)
    for policy, drawn in zip(policies, series, strict=True):
        means = [
            100 * world["policies"][policy]["above"]["mean"]
            for world in DATA["worlds"].values()
            if world["policies"][policy]["above"] is not None
        ]
        found = [point["value"][0] for point in drawn["data"]]
        assert found == pytest.approx([max(0.01, each) for each in means])
    rows = page.run(
        "Array.from(document.querySelectorAll('.bench tbody tr'))"
        ".map((row) => Array.from(row.cells).map((cell) => cell.textContent))"
    )
    assert len(rows) == len(DATA["worlds"])
    ring = next(row for row in rows if row[0] == "ring")
    above = DATA["worlds"]["ring"]["policies"]["fedrt-plus"]["above"]["mean"]
    assert ring[1 + policies.index("fedrt-plus")].startswith(f"{100 * above:.1f}")
    words = page.run("document.querySelector('#study-0 .answer').textContent")
    near = sum(each["near"] for each in DATA["standing"].values())
    assert f"on {near} of {len(DATA['standing'])} worlds" in words
    page.resize(390)
    assert page.run("document.documentElement.scrollWidth") <= 390


def test_policies_of_other_work_are_shown_with_what_they_did(folder, view):
    page = view((folder / "page.html").as_uri())
    rows = page.run(
        "Array.from(document.querySelectorAll('#study-0-others tbody tr'))"
        ".map((row) => Array.from(row.cells).map((cell) => cell.textContent))"
    )
    found = {row[0]: row[1] for row in rows}
    assert found["tifl"] == "leaves devices out, mixes less than rho on city"
    assert found["even-int4"].startswith("fewer bits")


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data.pop("summary"),
        lambda data: data["worlds"]["ring"].update(policies=[]),
        lambda data: data["worlds"]["ring"]["policies"]["fedrt"]["above"].update(mean="much"),
        lambda data: data["standing"].update(ring=3),
        lambda data: data.update(learned=[{"name": "x"}]),
    ],
)
def test_a_damaged_file_is_one_line(damage, tmp_path):
    data = json.loads(SAVED.read_text())
    damage(data)
    (tmp_path / "bench.json").write_text(json.dumps(data))
    with pytest.raises(InputError) as caught:
        collect([tmp_path])
    assert caught.value.lines == [f"{tmp_path / 'bench.json'}: is not what fedrt bench saves"]
