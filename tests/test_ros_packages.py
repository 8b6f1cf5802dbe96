# SPDX-License-Identifier: Apache-2.0
"""The packages under ros/: one version, and launch files that call the command line as it is."""

import re
import shlex
import sys
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType
from xml.etree import ElementTree

import pytest
import yaml
from typer.testing import CliRunner

import roadbed
from roadbed.cli import app, ros
from roadbed.live import ros1 as live_ros1
from roadbed.live import ros2 as live_ros2
from roadbed.outputs.ros_messages.results import TOPICS
from roadbed.sources.bags.type_names import CLOUD
from tests.conftest import ROOT

PACKAGES = ROOT / "ros"


@pytest.mark.parametrize("version", ["ros1", "ros2"])
def test_packages_have_the_version_and_licence_of_the_project(version):
    package = ElementTree.parse(PACKAGES / version / "roadbed_ros" / "package.xml").getroot()
    assert package.findtext("name") == "roadbed_ros"
    assert package.findtext("version") == roadbed.__version__
    assert package.findtext("license") == "Apache-2.0"


def test_the_setup_of_ros2_has_it_too():
    text = (PACKAGES / "ros2" / "roadbed_ros" / "setup.py").read_text()
    assert f'version="{roadbed.__version__}"' in text


def ros2_launch_file(monkeypatch):
    """The module, beside empty stand-ins for ROS 2's `launch`, which is not asked for anything here."""
    for name in ("launch", "launch.actions", "launch.substitutions"):
        module = ModuleType(name)
        for part in ("LaunchDescription", "DeclareLaunchArgument", "ExecuteProcess", "OpaqueFunction"):
            setattr(module, part, None)
        module.LaunchConfiguration = None
        monkeypatch.setitem(sys.modules, name, module)
    spec = spec_from_file_location("launch_file", PACKAGES / "ros2" / "roadbed_ros" / "launch" / "roadbed.launch.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_launch_files_name_options_that_there_are(monkeypatch):
    launch = ros2_launch_file(monkeypatch)
    given = {name: default for name, (default, _) in launch.ARGUMENTS.items()} | {
        "clouds": "/a /b",
        "options": "--on-road",
    }
    words = launch.command(given)
    assert words[:4] == ["roadbed", "ros2", "/a", "/b"]
    assert words[-1] == "--on-road"
    ros1 = (PACKAGES / "ros1" / "roadbed_ros" / "launch" / "roadbed.launch").read_text()
    used = {
        "ros2": {word.partition("=")[0] for word in words if word.startswith("--")},
        "ros1": set(re.findall(r"--[a-z-]+", ros1)) - {"--"},
    }
    for command, options in used.items():
        known = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"}).invoke(app, [command, "--help"]).output
        for option in options:
            assert option in known, f"{command} {option}"


def ros1_words(**given):
    """What roslaunch hands to the node: arguments are filled in, then split as a shell does."""
    root = ElementTree.parse(PACKAGES / "ros1" / "roadbed_ros" / "launch" / "roadbed.launch").getroot()
    values = {arg.get("name"): arg.get("default") for arg in root.iter("arg")} | given
    return [
        "ros1",
        *shlex.split(re.sub(r"\$\(arg (\w+)\)", lambda found: values[found[1]], root.find("node").get("args"))),
    ]


def ros2_words(monkeypatch, **given):
    launch = ros2_launch_file(monkeypatch)
    return launch.command({name: default for name, (default, _) in launch.ARGUMENTS.items()} | given)[1:]


@pytest.mark.parametrize(("odometry", "topic"), [("/odom", "/odom"), ("", ""), ("''", "")])
def test_an_empty_odometry_reaches_the_node(odometry, topic, monkeypatch):
    """Neither roslaunch nor ros2 launch takes `odometry:=`: on their command lines it is `odometry:="''"`."""
    asked = []
    monkeypatch.setattr(ros, "_run", lambda transport, request, as_json: asked.append(request))
    monkeypatch.setattr(live_ros1, "Ros1", lambda: None)
    monkeypatch.setattr(live_ros2, "open_ros2", lambda reliable: None)
    for words in (ros1_words(odometry=odometry), ros2_words(monkeypatch, odometry=odometry)):
        assert CliRunner().invoke(app, words).exit_code == 0
    assert [(request.clouds, request.odometry) for request in asked] == 2 * [(["/velodyne_points"], topic)]


def test_the_layer_of_the_costmap_reads_topics_that_there_are_as_far_as_the_grid_reaches():
    text = re.search(r"```yaml\n(.*?)```", (ROOT / "docs" / "ros.md").read_text(), re.S)[1]
    layer = yaml.safe_load(text)["obstacles"]
    reach = roadbed.Config().occupancy.grid.length / 2
    for name, far in (("marking", "obstacle_max_range"), ("clearing", "raytrace_max_range")):
        source = layer[name]
        assert name in layer["observation_sources"].split()
        assert TOPICS[source["topic"].removeprefix("/roadbed/")] == CLOUD
        assert [key for key in ("marking", "clearing") if source[key]] == [name]
        assert source[far] == reach
        for limit in ("min_obstacle_height", "max_obstacle_height"):
            assert source[limit] == layer[limit]
