# SPDX-License-Identifier: Apache-2.0
"""What the scene sends to the page: the elevation as lines, the occupancy as one square per cell."""

from types import SimpleNamespace

import numpy as np

from roadbed.outputs.images import palette
from roadbed.viewer.scene import Scene
from tests.outputs.test_images import ground_frame, occupancy_frame


class Page:
    """Stands in for viser's scene: keeps the last arguments of every node."""

    def __init__(self):
        self.nodes, self.world_axes = {}, SimpleNamespace(visible=True)

    def __getattr__(self, name):
        def add(node="", *arguments, **options):
            self.nodes[node] = arguments, options

        return add

    def get_handle_by_name(self, name):
        return self.nodes.get(name)

    def remove_by_name(self, name):
        del self.nodes[name]


def test_elevation_is_lines_between_known_nodes_and_occupancy_a_square_per_cell():
    ground, occupancy, page = ground_frame(), occupancy_frame(), Page()
    scene = Scene(page)
    scene.show(SimpleNamespace(scan=ground.scan, ground=ground, occupancy=occupancy))
    (segments, colours), _ = page.nodes["/surface"]
    assert segments.shape == colours.shape == (len(segments), 2, 3)
    assert np.isfinite(segments).all()
    lengths = np.linalg.norm(np.diff(segments[..., :2], axis=1)[:, 0], axis=1)
    np.testing.assert_allclose(lengths, ground.grid.spacing)
    assert "/grid" not in page.nodes
    scene.set_display(grid=True, surface=False)
    assert "/surface" not in page.nodes
    (cells, colours), options = page.nodes["/grid"]
    assert options["point_size"] == occupancy.grid.spacing
    assert len(cells) == len(colours) == occupancy.grid.size
    free = int(np.argmax(occupancy.free))
    row, column = divmod(free, occupancy.grid.columns)
    x, y, _ = ground.T_grid_vehicle.translation
    expected = occupancy.grid.x[column] - x, occupancy.grid.y[row] - y
    np.testing.assert_allclose(cells[free, :2], expected, atol=1e-4)
    shares = [getattr(occupancy, name).ravel()[free] for name in ("static", "dynamic", "free", "unknown")]
    np.testing.assert_array_equal(colours[free], palette.occupancy_colours(*shares))
