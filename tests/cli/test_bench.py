# SPDX-License-Identifier: Apache-2.0
"""`roadbed bench`: every case is measured, phases are those of the whole."""

import json
import shutil

import numpy as np
import pytest
from typer.testing import CliRunner

from roadbed.bench.peers import Call, fugseg, peer_rows, summary
from roadbed.bench.timing import measure
from roadbed.cli import app
from roadbed.core.errors import DeviceError
from roadbed.core.frames import Scan
from roadbed.runtime import device_selection
from roadbed.runtime.device import Device
from tests.cli.process import one_line_and_status_2, roadbed
from tests.conftest import require
from tests.devices import DRIVERS, backend


def bench(*arguments):
    done = CliRunner().invoke(app, ["bench", *arguments, "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_ground_measures_both_presets():
    out = bench("ground", "--sensor", "lux4", "--seconds", "0")
    assert out["bench"] == "ground"
    assert [row["case"] for row in out["rows"]] == [
        "lux4 paper cold", "lux4 paper warm", "lux4 default cold", "lux4 default warm", "lux4 variance",
        "lux4 variance 334 x 334",
    ]  # fmt: skip
    assert [row["iterations"] for row in out["rows"]] == [10, 10, 6, 3, None, None]
    assert out["rows"][-1]["cells"] == 334 * 334  # the report's
    for row in out["rows"]:
        assert 0 < row["median_ms"] <= row["p95_ms"]
        parts = {name: value for name, value in row["phases_ms"].items() if name != "total"}
        assert sum(parts.values()) <= 1.5 * row["p95_ms"]
        assert row["points"] > 2000
        assert row["processor_ms"] > 0
        assert row["device_us"] == {}


def test_a_call_is_timed_as_often_as_asked_or_as_long_and_at_least_five_times():
    assert measure(lambda: None, repeats=8, seconds=60.0, warm_up=0).repeats == 8
    assert measure(lambda: None, repeats=50, seconds=0.0, warm_up=0).repeats == 5
    assert measure(lambda: None, repeats=3, seconds=0.0, warm_up=0).repeats == 3


def test_pipeline_measures_its_stages():
    (row,) = bench("pipeline", "--sensor", "lux4", "--seconds", "0")["rows"]
    assert (row["case"], row["sensors"]) == ("4 x LUX", 4)
    assert row["hz"] == pytest.approx(1000 / row["median_ms"], rel=0.05)
    assert 0 < row["ground_ms"] < row["p95_ms"]
    assert 0 < row["occupancy_ms"] < row["p95_ms"]
    assert row["host_calls"] > 100
    assert row["host_ms"] > 0
    assert row["device_us"] == {}


@pytest.mark.usefixtures("unprobed")
@pytest.mark.parametrize("name", [name for name in DRIVERS if name != "cpu"])
def test_on_an_accelerator_the_chain_is_taken_apart_by_phases(name):
    backend(name)  # which says what is missing where there is none
    (row,) = bench("pipeline", "--sensor", "lux4", "--seconds", "0", "--backend", name)["rows"]
    phases = row["device_us"]
    assert {"register_hits", "update_measurement", "sweep_rays", "label", "fit_tilt"} <= set(phases)
    assert list(phases.values()) == sorted(phases.values(), reverse=True)
    assert row["launches"] > row["graphs"] > 0


ONE = Device("opencl", 0, "pthread-skylake", "cpu", 1 << 30, 2, "PoCL", True)


@pytest.mark.parametrize(
    ("there", "options", "message"),
    [
        (
            [ONE],
            (),
            "expected an accelerator beside it: --backend opencl --device 0 (pthread-skylake)",
        ),
        ([ONE], ("--backend", "cpu"), "found the backend cpu, expected an accelerator beside it: --backend opencl"),
        ([], (), "expected an accelerator beside it: CUDA is absent; OpenCL is absent"),
    ],
)
def test_agreement_does_not_compare_the_cpu_with_itself(there, options, message, monkeypatch):
    monkeypatch.setattr(device_selection, "devices", lambda: there)
    monkeypatch.setattr(device_selection, "why_missing", lambda: ["CUDA is absent", "OpenCL is absent"])
    out = roadbed("bench", "agreement", "sim:city?sensor=lux4&frames=1", *options)
    one_line_and_status_2(out, message)


def test_timing_takes_medians_after_a_warm_up():
    calls = iter([9.0, 9.0, 9.0, 1.0, 2.0, 3.0, 4.0, 5.0])
    timing = measure(lambda: next(calls), lambda value: {"part": value}, repeats=5, seconds=100)
    assert timing.repeats == 5
    assert timing.phases_ms == {"part": 3000.0}
    assert 0 < timing.median_ms <= timing.p95_ms


# The interface of FugSeg that the wrapper uses; ground is every second point below z = -1.
STAND_IN = {
    "include/fugseg/cloud.h": """#include <vector>
#include <cstddef>
namespace fugseg {
struct Points {
    std::vector<float> z;
    float ignored;
    float& operator()(size_t i, size_t axis) { return axis == 2 ? z[i] : ignored; }
};
struct Cloud {
    Points kept;
    void Reset(size_t count);
    Points& points() { return kept; }
};
}
""",
    "include/fugseg/fugseg.h": """#include "fugseg/cloud.h"
namespace fugseg {
typedef std::vector<size_t> Cluster3D;
struct GroundExtractor {
    GroundExtractor(int, float, float, float, float) {}
    bool ExtractGround(Cloud& cloud, Cluster3D& ground, Cluster3D& others);
};
}
""",
    "src/cloud.cpp": """#include "fugseg/cloud.h"
void fugseg::Cloud::Reset(size_t count) { kept.z.resize(count); }
""",
    "src/fugseg.cpp": """#include "fugseg/fugseg.h"
bool fugseg::GroundExtractor::ExtractGround(Cloud& cloud, Cluster3D& ground, Cluster3D& others) {
    for (size_t i = 0; i < cloud.kept.z.size(); i += 2) (cloud.kept.z[i] < -1 ? ground : others).push_back(i);
    return !cloud.kept.z.empty();
}
""",
}


@pytest.fixture
def stand_in(tmp_path):
    for name, text in STAND_IN.items():
        path = tmp_path / "src" / "fugseg" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_fugseg_is_compiled_and_its_ground_points_are_counted(stand_in):
    require(shutil.which("g++") is not None, "g++ is not installed")
    points = np.zeros((100, 3), np.float32)
    points[:60, 2] = -2
    with fugseg(stand_in) as method:
        call = method(Scan(points))
        assert call.ground == 30
        assert call.seconds > 0
        with pytest.raises(ValueError, match="134401 points"):
            method(Scan(np.zeros((134_401, 3), np.float32)))


def test_ratios_are_of_turns_in_the_same_round_and_their_median_is_reported():
    scan = Scan(np.zeros((200, 3), np.float32), name="a")
    peer = iter([1.0] * 6 + [2.0] * 5 + [10.0] * 5)  # a warm-up, then three turns of five calls
    own = iter([9.0] + [3.0] * 5 + [4.0] * 4 + [99.0] + [5.0] * 5)  # one call is disturbed
    methods = {
        "peer": lambda scan: Call(next(peer), 1.0, 50),
        "own": lambda scan: Call(next(own), 0.5, 100),
    }
    first, second = rows = list(peer_rows([scan], methods, rounds=3))
    assert (first["ratio"], first["ratio_min"], first["ratio_max"]) == (1, 1, 1)
    assert (second["ratio"], second["ratio_min"], second["ratio_max"]) == (2, 0.5, 3)
    assert (second["median_ms"], second["processor_ratio"], second["ground_percent"]) == (4000, 0.5, 50)
    own_rows = [second, {**second, "ratio": 1.0}, {**second, "ratio": 1.2}]
    assert summary([first, *own_rows])[1]["ratio"] == 1.2
    assert summary([*rows, *own_rows])[1]["ratio_range"] == "1-2"


def test_without_a_checkout_or_a_compiler_one_line_says_so(tmp_path, stand_in, monkeypatch):
    done = CliRunner().invoke(app, ["bench", "peers", "sim:city?sensor=lux4&frames=1", "--fugseg", str(tmp_path / "x")])
    assert done.exit_code != 0
    assert "expected a checkout of FugSeg" in str(done.exception)
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(DeviceError, match="needs a C\\+\\+ compiler"), fugseg(stand_in):
        pass


def test_peers_compares_the_threads_of_roadbed_without_a_peer():
    out = bench("peers", "sim:city?sensor=lux4&frames=1", "--rounds", "1")
    assert out["missing"][0] == "FugSeg"
    first = next(row for row in out["rows"] if row["method"].startswith("Roadbed"))
    assert first["method"] == "Roadbed, 1 thread"
    assert all(row["median_ms"] > 0 and row["processor_ratio"] > 0 for row in out["rows"])
    unknown = [row for row in out["rows"] if row["method"].startswith("Roadbed") and "given" not in row["method"]]
    assert {row["ground_percent"] for row in unknown} == {first["ground_percent"]}
