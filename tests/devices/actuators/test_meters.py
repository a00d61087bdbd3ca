"""Meters of energy on trees of files like those of kernels."""

from __future__ import annotations

import pytest

from fedrt.devices.actuators.base import BandwidthActuator, CpuActuator
from fedrt.devices.actuators.device import DeviceActuators
from fedrt.devices.actuators.meters import CounterMeter, PowerMeter, find_meter
from fedrt.devices.wire.messages_pb2 import Order, Report


def made(folder, **files):
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(f"{text}\n")
    return folder


def rapl(sys, count=2):
    most = 262_143_328_850
    found = []
    for n in range(count):
        package = sys / "class" / "powercap" / f"intel-rapl:{n}"
        found.append(made(package, name=f"package-{n}", energy_uj=1000, max_energy_range_uj=most))
        inside = sys / "class" / "powercap" / f"intel-rapl:{n}:0"
        made(inside, name="core", energy_uj=1, max_energy_range_uj=most)
    made(sys / "class" / "powercap" / "intel-rapl:9", name="psys", energy_uj=5)
    return found, most


def test_rapl_adds_packages_and_counts_over_the_end(tmp_path):
    packages, most = rapl(tmp_path)
    meter = find_meter(tmp_path)
    assert isinstance(meter, CounterMeter)
    assert meter.words == "RAPL"
    (packages[1] / "energy_uj").write_text(str(most - 500_000))
    meter.start()
    (packages[0] / "energy_uj").write_text("3001000")
    (packages[1] / "energy_uj").write_text("1500000")
    # 3 J, and 0.5 J up to the end of the counter with 1.5 J after it.
    assert meter.stop() == pytest.approx(5.0)


def test_a_counter_that_may_not_be_read_is_no_meter(tmp_path):
    packages, _ = rapl(tmp_path, 1)
    (packages[0] / "energy_uj").write_text("")
    assert find_meter(tmp_path) is None


@pytest.mark.parametrize(
    ("name", "words"), [("ina226", "INA"), ("ina3221", "INA"), ("power_meter", "hwmon")]
)
def test_sensors_of_power_are_added_up_over_time(tmp_path, name, words):
    sensor = made(tmp_path / "class" / "hwmon" / "hwmon1", name=name, power1_input=4_000_000)
    made(tmp_path / "class" / "hwmon" / "hwmon0", name="amdgpu", power1_input=90_000_000)
    found = find_meter(tmp_path)
    assert isinstance(found, PowerMeter)
    assert found.words == words
    now = [10.0]
    meter = PowerMeter(words, [sensor / "power1_input"], lambda: now[0])
    meter.sample()
    now[0] = 12.0
    (sensor / "power1_input").write_text("6000000")
    meter.sample()  # 2 s from 4 to 6 W
    assert meter._joules == pytest.approx(10.0)
    now[0] = 13.0
    meter.start()
    assert meter.stop() == 0.0
    sensor.joinpath("power1_input").unlink()
    meter.start()
    assert meter.stop() is None


def test_counters_of_hwmon(tmp_path):
    folder = tmp_path / "class" / "hwmon" / "hwmon3"
    made(folder, name="amd_energy", energy1_input=10, energy2_input=20)
    meter = find_meter(tmp_path)
    assert meter.words == "hwmon"
    meter.start()
    (folder / "energy2_input").write_text("2000020")
    assert meter.stop() == pytest.approx(2.0)
    assert find_meter(tmp_path, "rapl") is None


def test_a_report_says_whether_it_was_measured(tmp_path):
    packages, _ = rapl(tmp_path, 1)
    for meter, joules in ((find_meter(tmp_path), 7.0), (None, 0.0)):
        actuators = DeviceActuators(BandwidthActuator(), CpuActuator(), 0, 1e9, meter=meter)
        (packages[0] / "energy_uj").write_text("1000000")
        spent = Report()
        with actuators.training(Order(cpu_hz=5e8), spent):
            (packages[0] / "energy_uj").write_text("8000000")
        assert (spent.joules, spent.metered) == (joules, meter is not None)
