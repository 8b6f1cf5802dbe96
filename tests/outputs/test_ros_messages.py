# SPDX-License-Identifier: Apache-2.0
"""Results as ROS messages: nothing of the input is lost, cells lie where they should, bytes come back the same."""

import numpy as np
import pytest

from roadbed import Grid, InputError, Label, Pose
from roadbed.outputs.ros_messages.clouds import (
    cloud_of_columns,
    cloud_of_scan,
    labelled_cloud,
    part_of_cloud,
)
from roadbed.outputs.ros_messages.layers import grid_map, ground_heights
from roadbed.outputs.ros_messages.results import GROUND_TOPICS, TOPICS, FrameNames, ResultMessages
from roadbed.outputs.ros_messages.store import RosMessages
from roadbed.sources.bags.pointcloud2 import cloud_fields
from roadbed.sources.bags.scan_messages import scan_of_message
from roadbed.sources.bags.transforms import message_pose
from roadbed.sources.bags.type_names import CLOUD, DIAGNOSTICS


@pytest.fixture
def result(moving_result):
    return moving_result


@pytest.fixture(params=[1, 2], ids=["ros1", "ros2"])
def messages(request):
    return RosMessages(request.param)


def organised(messages, rows, order="<", gap=8):
    """A cloud of 4 x 3 points of mixed fields, with bytes between points and between rows."""
    record = np.dtype(
        {
            "names": ["y", "ring", "x", "z", "t"],
            "formats": [order + "f8", order + "u2", order + "f4", order + "f4", order + "u4"],
            "offsets": [2, 0, 12, 20, 28],
            "itemsize": 34,
        }
    )
    table = np.zeros((rows, 3), record)
    for name in record.names:
        table[name] = np.arange(rows * 3).reshape(rows, 3) * 3
    data = np.full((rows, 3 * 34 + gap), 0xAB, np.uint8)
    data[:, : 3 * 34] = table.view(np.uint8).reshape(rows, -1)
    codes = {"f8": 8, "u2": 4, "f4": 7, "u4": 6}
    fields = [
        messages.make(
            "sensor_msgs/msg/PointField", name=n, offset=record.fields[n][1], datatype=codes[record[n].str[1:]], count=1
        )
        for n in record.names
    ]
    header = messages.header(messages.stamp(12.5), "/lidar")
    return messages.make(
        CLOUD,
        header=header,
        height=rows,
        width=3,
        fields=fields,
        is_bigendian=order == ">",
        point_step=34,
        row_step=3 * 34 + gap,
        data=data.ravel(),
    )


class Ground:
    """The three per-point arrays that a labelled cloud takes."""

    def __init__(self, count):
        self.label = np.arange(count).astype(np.uint8) % 5
        self.ground_probability = np.linspace(0, 1, count, dtype=np.float32)
        self.height_above_ground = np.linspace(-1, 4, count, dtype=np.float32)


@pytest.mark.parametrize("order", ["<", ">"])
def test_a_labelled_cloud_keeps_every_byte_of_its_input_in_any_layout(messages, order):
    cloud = organised(messages, 4, order)
    ground = Ground(12)
    made = messages.from_bytes(messages.to_bytes(labelled_cloud(messages, cloud, ground)), CLOUD)
    before, after = cloud_fields(cloud, "in"), cloud_fields(made, "out")
    assert (made.width, made.height, made.is_bigendian) == (3, 4, order == ">")
    assert list(after) == [*before, "label", "ground_probability", "height_above_ground"]
    for name, values in before.items():
        assert values.dtype == after[name].dtype
        np.testing.assert_array_equal(after[name], values)
    np.testing.assert_array_equal(after["label"], ground.label)
    np.testing.assert_array_equal(after["ground_probability"], ground.ground_probability)
    np.testing.assert_array_equal(after["height_above_ground"], ground.height_above_ground)
    kept = cloud_fields(part_of_cloud(messages, made, ground.label == 1), "part")
    np.testing.assert_array_equal(kept["y"], before["y"][ground.label == 1])


def test_a_field_that_is_called_label_already_stays(messages):
    header = messages.header(messages.stamp(1.0), "lidar")
    columns = {axis: np.zeros(3, np.float32) for axis in "xyz"} | {"label": np.array([7, 8, 9], np.uint32)}
    made = cloud_fields(labelled_cloud(messages, cloud_of_columns(messages, header, columns), Ground(3)), "out")
    assert made["label"].tolist() == [7, 8, 9]
    assert made["roadbed_label"].tolist() == [0, 1, 2]


def test_clouds_without_points_and_with_nan_are_scans(messages):
    header = messages.header(messages.stamp(3.0), "lidar")
    empty = cloud_of_columns(messages, header, {axis: np.zeros(0, np.float32) for axis in "xyz"})
    assert len(scan_of_message(empty, "empty")) == 0
    assert labelled_cloud(messages, empty, Ground(0)).width == 0
    holes = cloud_of_columns(messages, header, {axis: np.array([np.nan, 1], np.float32) for axis in "xyz"})
    scan = scan_of_message(holes, "holes")
    assert np.isnan(scan.points[0]).all()
    assert scan.time == 3.0
    assert scan.sensor == "lidar"


def test_labels_of_another_cloud_are_refused(messages):
    with pytest.raises(InputError, match="found 5 labels, expected 12"):
        labelled_cloud(messages, organised(messages, 4), Ground(5))


def test_a_scan_and_its_cloud_hold_the_same(messages, result):
    header = messages.header(messages.stamp(2.0), "lidar")
    scan = scan_of_message(cloud_of_scan(messages, header, result.scan), "cloud")
    np.testing.assert_array_equal(scan.points, result.scan.points)
    for name, values in result.scan.all_channels().items():
        np.testing.assert_allclose(scan.all_channels()[name], values)


def test_every_topic_survives_the_wire(messages, result):
    made = dict(ResultMessages(messages, result))
    assert list(made) == list(TOPICS)
    for topic, message in made.items():
        assert message.__msgtype__ == TOPICS[topic]
        data = messages.to_bytes(message)
        assert messages.to_bytes(messages.from_bytes(data, TOPICS[topic])) == data
    labels = result.ground.label
    assert made["ground"].width == (labels == Label.GROUND).sum() > 0
    assert made["obstacles"].width == (labels == Label.OBSTACLE).sum() > 0
    assert made["surface"].width == np.isfinite(result.ground.elevation).sum() > 0
    assert len(made["velocities"].markers[0].points) == 2 * result.occupancy.moving.sum() > 0
    markers = [marker for topic, kind in TOPICS.items() if "MarkerArray" in kind for marker in made[topic].markers]
    # As visualization_msgs numbers them: arrows, cubes, lists of lines, texts that face the camera.
    assert {marker.type for marker in markers if marker.action == 0} == {0, 1, 5, 9}


def test_without_occupancy_only_the_topics_of_the_ground_are_made(result):
    alone = type(result)(scan=result.scan, ground=result.ground, occupancy=None)
    assert [topic for topic, _ in ResultMessages(RosMessages(2), alone)] == list(GROUND_TOPICS)


def test_a_grid_map_has_its_first_cell_at_the_largest_x_and_y(messages):
    """As grid_map reads it: column-major, rows along -x and columns along -y from the corner."""
    grid = Grid.centred(4.0, 2.0, 0.5, x=10.0, y=-3.0)
    x, y = grid.mesh()
    header = messages.header(messages.stamp(1.0), "lattice")
    made = grid_map(messages, header, grid, {"elevation": (100 * x + y).astype(np.float32)})
    info, data = made.info, made.data[0]
    sizes = [(d.label, d.size) for d in data.layout.dim]
    assert sizes == [("column_index", grid.rows), ("row_index", grid.columns)]
    matrix = data.data.reshape(grid.columns, grid.rows, order="F")
    for row, column in ((0, 0), (3, 1), (7, 3)):
        place_x = info.pose.position.x + info.length_x / 2 - (row + 0.5) * info.resolution
        place_y = info.pose.position.y + info.length_y / 2 - (column + 0.5) * info.resolution
        assert matrix[row, column] == pytest.approx(100 * place_x + place_y, abs=1e-3)


def test_occupancy_cells_lie_where_the_filter_has_them(messages, result):
    made = ResultMessages(messages, result).make("occupancy")
    frame, info = result.occupancy, made.info
    row, column = np.argwhere(frame.moving)[0]
    assert made.data[row * info.width + column] == round(100 * float(frame.occupied[row, column]))
    corner = Pose.from_quaternion(
        (info.origin.position.x, info.origin.position.y, 0),
        (info.origin.orientation.x, info.origin.orientation.y, info.origin.orientation.z, info.origin.orientation.w),
    )
    place = corner @ np.array([(column + 0.5) * info.resolution, (row + 0.5) * info.resolution, 0.0])
    expected = np.array([frame.grid.x[column], frame.grid.y[row], 0.0])
    if frame.T_ground_grid is not None:
        expected = frame.T_ground_grid @ expected
    np.testing.assert_allclose(place[:2], expected[:2], atol=1e-5)
    assert (np.asarray(made.data) == -1).any()


def test_markers_lie_on_the_surface_and_beyond_it_on_the_road_under_the_vehicle(result):
    ground, known = result.ground, np.isfinite(result.ground.elevation)
    row, column = np.argwhere(known)[0]
    beyond = ground.grid.x[-1] + 2 * ground.grid.spacing
    heights = ground_heights(ground, np.array([ground.grid.x[column], beyond]), np.full(2, ground.grid.y[row]))
    road = ground.T_grid_sensor.translation[2] - ground.mounting.height
    assert heights.tolist() == [ground.elevation[row, column], road]


def test_tf_leads_from_the_world_to_the_points(messages, result):
    names = FrameNames(world="map", grid="grid")
    stamped = ResultMessages(messages, result, names).make("tf").transforms[0]
    assert (stamped.header.frame_id, stamped.child_frame_id) == ("map", "grid")
    shift, turn = stamped.transform.translation, stamped.transform.rotation
    T_world_grid = Pose.from_quaternion((shift.x, shift.y, shift.z), (turn.x, turn.y, turn.z, turn.w))
    np.testing.assert_allclose(T_world_grid.matrix, result.ground.T_world_grid.matrix, atol=1e-9)


def test_poses_survive_a_message(messages):
    rng = np.random.default_rng(1)
    header = messages.header(messages.stamp(4.25), "odom")
    for yaw in (0.0, np.pi, *rng.uniform(-3, 3, 5)):
        pose = Pose.from_euler(1.0, -2.0, 3.0, roll=0.3, pitch=-1.2, yaw=yaw)
        assert message_pose(messages.odometry(header, "base", pose)).angle_to(pose) < 1e-6


def test_sums_of_the_definitions_are_those_of_ros():
    """What a ROS 1 subscriber compares before it takes a single byte."""
    ros1 = RosMessages(1)
    known = {
        "sensor_msgs/msg/PointCloud2": "1158d486dd51d683ce2f1be655c3c181",
        "grid_map_msgs/msg/GridMap": "95681e052b1f73bf87b7eb984382b401",
        "nav_msgs/msg/OccupancyGrid": "3381f2d731d4076ec5c71b0759edbe4e",
        "tf2_msgs/msg/TFMessage": "94810edda583a504dfda3829e70d7eec",
        "nav_msgs/msg/Odometry": "cd5e73d190d741a2f92e81eda573aca7",
    }
    assert {kind: ros1.definition(kind)[1] for kind in known} == known


def test_times_are_exact_to_the_nanosecond_where_a_float_is(messages):
    stamp = messages.stamp(12.999999999)
    assert (stamp.sec, stamp.nanosec) == (12, 999999999)
    assert messages.make(DIAGNOSTICS).status == []
