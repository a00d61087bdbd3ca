"""The page's data and file: equal to what was saved."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from pyarrow import parquet
from support.page_data import POLICIES, report, unpack
from support.tiny import tiny

from fedrt.records.history import PARTS
from fedrt.report.page import detail as detail_module
from fedrt.report.page import write
from fedrt.report.page.collect import collect
from fedrt.scenario import load_scenario
from fedrt.studies.estimates import estimate


def rows_of(path: Path) -> list[dict]:
    return parquet.read_table(path).to_pylist()


def test_lines_are_means_and_ranges_over_seeds(compared):
    data = collect([compared])
    assert [line["label"] for line in data["lines"]] == POLICIES
    assert data["baselines"] == ["ce-fedavg", "mll-sgd"]
    for line in data["lines"]:
        rounds = [rows_of(compared / f"{line['policy']}-{s}" / "rounds.parquet") for s in (0, 3)]
        curve = line["curves"]["energy_j_mean"]
        for t in range(6):
            values = [rows[t]["energy_j_mean"] for rows in rounds]
            times = [rows[t]["ends_at_s"] for rows in rounds]
            assert unpack(curve["mean"])[t] == pytest.approx(sum(values) / 2, rel=1e-14)
            assert unpack(curve["low"])[t] == min(values)
            assert unpack(curve["high"])[t] == max(values)
            assert unpack(curve["time_s"])[t] == pytest.approx(sum(times) / 2, rel=1e-14)
        assert line["budget_j"] == pytest.approx([0.7 * 12] * 3)
    against = [line["row"]["against"].get("ce-fedavg") for line in data["lines"]]
    mine = [json.loads((compared / f"fedrt-{s}/summary.json").read_text()) for s in (0, 3)]
    base = [json.loads((compared / f"ce-fedavg-{s}/summary.json").read_text()) for s in (0, 3)]
    saved = [1 - a["total_time_s"] / b["total_time_s"] for a, b in zip(mine, base, strict=True)]
    assert against[0] == pytest.approx(np.mean(saved))
    assert against[POLICIES.index("ce-fedavg")] is None


def test_details_are_the_saved_rows(compared):
    data = collect([compared])
    assert len(data["runs"]) == 10
    for run in data["runs"]:
        folder, detail = Path(run["folder"]), run["detail"]
        parts = unpack(detail["clusters"]["parts"]).reshape(6, 3, 4)
        sums = np.zeros((6, 3, 4))
        for row in rows_of(folder / "edges.parquet"):
            for i, part in enumerate(PARTS):
                sums[row["global_round"], row["edge"], i] += row[part]
        np.testing.assert_allclose(parts, sums, rtol=1e-6)
        np.testing.assert_allclose(
            unpack(detail["clusters"]["whole"]).reshape(3, 4), sums.sum(0), rtol=1e-12
        )
        slowest = [sums[t, :, 3].argmin() for t in range(6)]
        assert (
            unpack(detail["clusters"]["last"]).tolist()
            == np.bincount(slowest, minlength=3).tolist()
        )
        rounds = rows_of(folder / "rounds.parquet")
        for t, c in enumerate(slowest):
            assert sums[t, c].sum() == pytest.approx(rounds[t]["time_s"])
        check_links(folder, detail["links"])
        check_devices(folder, detail["devices"])


def check_links(folder, links):
    rows = rows_of(folder / "links.parquet")
    for i, row in enumerate(rows):
        place = i % len(unpack(links["edge"]))
        assert (unpack(links["edge"])[place], unpack(links["edge2"])[place]) == (
            row["edge"],
            row["edge2"],
        )
        assert unpack(links["bps"])[i] == np.float32(row["bps"])
        assert unpack(links["distance"])[i] == np.float32(row["distance"])
        assert unpack(links["kept"])[i] == row["kept"]


def check_devices(folder, devices):
    rows = rows_of(folder / "devices.parquet")
    bandwidth = unpack(devices["bandwidth_hz"]).reshape(6, 7)
    left = unpack(devices["left_j"]).reshape(6, 7)
    for t in range(6):
        for n in range(7):
            own = [r for r in rows if r["global_round"] == t and r["device"] == n]
            assert bandwidth[t, n] == pytest.approx(
                np.mean([r["bandwidth_hz"] for r in own]), rel=1e-6
            )
            assert left[t, n] == np.float32(own[-1]["left_j"])
    last = [[r for r in rows if r["device"] == n][-1] for n in range(7)]
    assert unpack(devices["spent_j"]).tolist() == [r["spent_j"] for r in last]
    assert unpack(devices["over"]).tolist() == [r["left_j"] < 0 for r in last]
    assert any(unpack(devices["over"]))


def edit(path, name, change):
    """Rewrite a table's rows, as a list of named values."""
    import pyarrow as pa

    rows = [row for row in map(change, rows_of(path / f"{name}.parquet")) if row is not None]
    parquet.write_table(pa.Table.from_pylist(rows), path / f"{name}.parquet")


def test_links_clusters_and_devices_may_be_missing_in_rounds(compared, tmp_path, capsys):
    """Link 0-1 is down in round 2 and unmentioned in 3, as is server 1; device 4 never comes."""
    run = tmp_path / "run"
    shutil.copytree(compared / "fedrt-0", run)
    before = collect([run])["runs"][0]["detail"]

    def link(row):
        if (row["edge"], row["edge2"]) != (0, 1):
            return row
        at = row["global_round"]
        return None if at == 3 else row | ({"bps": 0.0, "kept": False} if at == 2 else {})

    edit(run, "links", link)
    edit(run, "edges", lambda row: None if (row["global_round"], row["edge"]) == (3, 1) else row)
    away = {(t, 4) for t in range(6)} | {(1, 2), (2, 2)}
    edit(run, "devices", lambda r: None if (r["global_round"], r["device"]) in away else r)
    assert report(run) == 0
    assert capsys.readouterr().err == ""
    detail = collect([run])["runs"][0]["detail"]
    bps, old = (unpack(d["links"]["bps"]).reshape(6, 3) for d in (detail, before))
    assert bps[2:4, 0].tolist() == [0, 0]
    np.testing.assert_array_equal(np.delete(bps, [2, 3], 0), np.delete(old, [2, 3], 0))
    assert np.isnan(unpack(detail["links"]["distance"]).reshape(6, 3)[3, 0])
    parts = unpack(detail["clusters"]["parts"]).reshape(6, 3, 4)
    assert np.isnan(parts[3, 1]).all()
    assert np.isfinite(np.delete(parts, 1, 1)).all()
    waiting = np.where(np.isnan(parts[:, :, 3]), np.inf, parts[:, :, 3])
    expected = np.bincount(waiting.argmin(1), minlength=3)
    assert unpack(detail["clusters"]["last"]).tolist() == expected.tolist()
    devices = detail["devices"]
    for name in ("bandwidth_hz", "cpu_hz"):
        there = np.isfinite(unpack(devices[name]).reshape(6, 7))
        assert set(zip(*np.nonzero(~there), strict=True)) == away
    left, whole = (unpack(d["devices"]["left_j"]).reshape(6, 7) for d in (detail, before))
    assert left[1:3, 2].tolist() == [whole[0, 2]] * 2
    # Device 4 is the last of server 1's three and has its whole budget, 0.7 J x 12.
    assert unpack(devices["edge"]).tolist() == [0, 0, 1, 1, 1, 2, 2]
    assert unpack(devices["budget_j"])[4] == pytest.approx(8.4)
    assert unpack(devices["spent_j"])[4] == 0


def test_devices_that_sit_out_keep_what_they_have(tmp_path):
    scenario = tiny("learning.participation=0.5", "rounds.edge_rounds=1", "rounds.global_rounds=5")
    estimate(scenario, ["fedrt"], [0], tmp_path / "out")
    (run,) = collect([tmp_path / "out"])["runs"]
    rows = rows_of(tmp_path / "out" / "fedrt-0" / "devices.parquet")
    assert len(rows) < 5 * 7
    left = unpack(run["detail"]["devices"]["left_j"]).reshape(5, 7)
    for n in range(7):
        for t in range(5):
            own = [r for r in rows if r["global_round"] <= t and r["device"] == n]
            if own:
                assert left[t, n] == np.float32(own[-1]["left_j"])
            else:
                assert np.isnan(left[t, n])


def test_a_trained_run_shows_accuracy_where_it_was_measured_and_who_holds_what(trained_run):
    data = collect([trained_run])
    (line,), (run,) = data["lines"], data["runs"]
    rounds = rows_of(trained_run / "rounds.parquet")
    measured = [row for row in rounds if not np.isnan(row["accuracy"])]
    assert 0 < len(measured) < len(rounds)
    curve = line["curves"]["accuracy"]
    assert unpack(curve["round"]).tolist() == [row["global_round"] + 1 for row in measured]
    assert unpack(curve["mean"]).tolist() == [row["accuracy"] for row in measured]
    held = run["detail"]["partition"]
    samples = unpack(held["samples"]).reshape(held["classes"], 7)
    rows = rows_of(trained_run / "partition.parquet")
    assert samples.sum() == sum(row["samples"] for row in rows) == 1438  # 80 % of 1,797
    assert all(samples[row["label"], row["device"]] == row["samples"] for row in rows)
    again = data["configs"][0]["again"]
    assert again == f"fedrt run {trained_run}/config.toml --policy fedrt --seed 0 --allow-code"


def test_a_small_share_of_bytes_thins_rounds_bins_and_runs(compared, monkeypatch):
    monkeypatch.setattr(detail_module, "LEAST_ROUNDS", 3)
    monkeypatch.setattr(detail_module, "LEAST_BINS", 2)
    # A round is 3 edges x 16 + 3 links x 9 = 75 bytes, a bin 7 devices x 12 = 84.
    monkeypatch.setattr(detail_module, "BYTES_FOR_ROUNDS", 7 * 3 * 75)
    monkeypatch.setattr(detail_module, "BYTES_FOR_DEVICES", 7 * 4 * 84)
    data = collect([compared])
    shown = [run for run in data["runs"] if run["detail"]]
    assert "7 of 10 runs are shown in detail" in data["notes"]
    # Every policy's first seed comes before any second one.
    assert [run["seed"] for run in shown].count(0) == 5
    for run in shown:
        assert unpack(run["detail"]["rounds"]).tolist() == [1, 3, 6]
        bins = run["detail"]["devices"]["bins"]
        assert unpack(bins["first"]).tolist() == [1, 3, 4, 6]
        rows = rows_of(Path(run["folder"]) / "links.parquet")
        kept = [r["bps"] for r in rows if r["global_round"] in (0, 2, 5)]
        np.testing.assert_array_equal(unpack(run["detail"]["links"]["bps"]), np.float32(kept))


def test_seeds_that_lag_behind_wait_for_the_others(compared, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(compared, out)
    path = out / "fedrt-3" / "rounds.parquet"
    parquet.write_table(parquet.read_table(path).slice(0, 2), path)
    (out / "fedrt-3" / "summary.json").unlink()
    data = collect([out])
    line = data["lines"][0]
    assert (line["drawn"], line["done"]) == ([0], 6)
    assert (line["row"]["ended"], line["row"]["of"]) == (1, 2)
    assert data["progress"]["done"] == 10 * 6 - 4
    lagging = data["runs"][1]
    assert (lagging["seed"], lagging["done"], lagging["ended"]) == (3, 2, False)
    assert len(unpack(lagging["detail"]["links"]["bps"])) == 2 * 3


def test_different_configs_get_names_of_their_own_and_say_where_they_differ(tmp_path):
    for name, scale in (("slow", 1), ("fast", 4)):
        scenario = tiny(f"bandwidth.scale={scale}", "rounds.global_rounds=2")
        estimate(scenario, ["fedrt"], [0], tmp_path / name)
    data = collect([tmp_path / "slow", tmp_path / "fast"])
    assert [line["label"] for line in data["lines"]] == ["fedrt · slow", "fedrt · fast"]
    assert len({line["style"] for line in data["lines"]}) == 2
    assert data["differences"]["rows"] == [["bandwidth.scale", "1.0", "4.0"]]


def test_one_file_whose_own_scripts_alone_may_run(compared, tmp_path, capsys):
    out = tmp_path / "page.html"
    assert report(compared, "--out", out) == 0
    assert capsys.readouterr().out == f"page in {out}\n"
    text = out.read_text(encoding="utf-8")
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy.startswith("default-src 'none'; img-src data:;")
    scripts = re.findall(r"<script>(.*?)</script>", text, flags=re.DOTALL)
    hashes = [base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in scripts]
    assert len(hashes) == 2
    assert all(f"'sha256-{each}'" in policy for each in hashes)
    assert not re.findall(r'(?:src|href)="(?!#|data:)[^"]', text.replace(scripts[0], ""))
    assert "fedrt estimate <b>&" not in text
    first = out.read_bytes()
    assert report(compared, "--out", out) == 0
    assert out.read_bytes() == first


def test_the_library_is_the_one_that_was_fetched():
    said = json.loads((write.LIBRARY.parent / "vendor.json").read_text())
    assert said["licence"] == "Apache-2.0"
    for name, expected in said["sha256"].items():
        data = (write.LIBRARY.parent / name).read_bytes()
        assert hashlib.sha256(data).hexdigest() == expected, name
    assert set(said["sha256"]) == {p.name for p in write.LIBRARY.parent.iterdir()} - {"vendor.json"}


def test_every_script_is_in_the_page():
    scripts = {path.stem for path in write.ASSETS.glob("*.js")}
    assert scripts == set(write.SCRIPTS)


def test_studies_have_their_page(studies, tmp_path):
    folders = [studies / name for name in ("sweep", "front", "size")]
    shown = {study["kind"]: study for study in collect(folders)["studies"]}
    saved = {name: json.loads((studies / name / f"{name}.json").read_text()) for name in shown}
    for name in ("sweep", "front"):
        for point, said in zip(shown[name]["points"], saved[name]["points"], strict=True):
            assert point["settings"] == list(said["settings"].values())
            for policy, numbers in said["policies"].items():
                time_s = point["policies"][policy]["total_time_s"]
                assert time_s["mean"] == numbers["total_time_s"]["mean"]
    assert shown["size"]["value"] == saved["size"]["value"]
    assert len(shown["size"]["tried"]) == len(saved["size"]["tried"])
    assert shown["size"]["answer"] == saved["size"]["sentence"]
    assert " under fedrt-plus: " in shown["size"]["answer"]
    for folder in folders:
        out = tmp_path / f"{folder.name}.html"
        assert report(folder, "--out", out) == 0
        assert out.stat().st_size < 2_000_000


def test_the_config_shown_is_the_one_that_ran(compared, tmp_path):
    text = collect([compared])["configs"][0]["text"]
    (tmp_path / "again.toml").write_text(text)
    assert load_scenario(tmp_path / "again.toml") == load_scenario(
        compared / "fedrt-0" / "config.toml"
    )
