# SPDX-License-Identifier: Apache-2.0
"""`python -m benchmarks peers`: other projects are measured in turns with the ground filter."""

import json
import shutil

import numpy as np
import pytest
from typer.testing import CliRunner

from benchmarks.__main__ import app
from benchmarks.peers import Call, fugseg, peer_rows, summary
from roadbed.core.errors import DeviceError
from roadbed.core.frames import Scan
from tests.conftest import require

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
    done = CliRunner().invoke(app, ["peers", "sim:city?sensor=lux4&frames=1", "--fugseg", str(tmp_path / "x")])
    assert done.exit_code != 0
    assert "expected a checkout of FugSeg" in str(done.exception)
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(DeviceError, match="needs a C\\+\\+ compiler"), fugseg(stand_in):
        pass


def test_peers_compares_the_threads_of_roadbed_without_a_peer():
    done = CliRunner().invoke(app, ["peers", "sim:city?sensor=lux4&frames=1", "--rounds", "1", "--json"])
    assert done.exit_code == 0, done.output
    out = json.loads(done.stdout)
    assert out["missing"][0] == "FugSeg"
    first = next(row for row in out["rows"] if row["method"].startswith("Roadbed"))
    assert first["method"] == "Roadbed, 1 thread"
    assert all(row["median_ms"] > 0 and row["processor_ratio"] > 0 for row in out["rows"])
    unknown = [row for row in out["rows"] if row["method"].startswith("Roadbed") and "given" not in row["method"]]
    assert {row["ground_percent"] for row in unknown} == {first["ground_percent"]}
