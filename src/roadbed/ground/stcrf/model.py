# SPDX-License-Identifier: Apache-2.0
"""Constants and structures shared by CPU kernels and device kernels.

CPU kernels import these names; device kernels get the same names as definitions, and the frame as a C structure.
"""

from types import MappingProxyType

import numpy as np

from roadbed.core.frames import Label
from roadbed.mapping import information

_F = np.float32

# Labels of points.
UNKNOWN, GROUND, OBSTACLE = np.uint8(Label.UNKNOWN), np.uint8(Label.GROUND), np.uint8(Label.OBSTACLE)
OVERHANG, LOW_OUTLIER = np.uint8(Label.OVERHANG), np.uint8(Label.LOW_OUTLIER)

# Weak expectation of each node's plane, in effective points.
HEIGHT_WEIGHT = 2.5e-5  # of the expected height
COARSE_HEIGHT_WEIGHT = 2e-4  # the same where the coarse start gives the expected height
SLOPE_WEIGHT = 0.06  # of the expected slope
EARLY_SIGMA_UP = 0.06  # m, sigma_up in the first half of a cold start's iterations
REACH, REACH_OF_ALL = 3, 10  # nodes beyond the data to compute: where only seen ground is reported, and else

# The coarse start: a first surface from the lowest returns on wide nodes.
COARSE_SPACING = 3.0  # m between its nodes; a whole number of fine ones
COARSE_CELL = 0.5  # m, one lowest return per cell enters
COARSE_ITERATIONS, COARSE_WARM_ITERATIONS = 12, 5  # from a level surface, and from the last frame's
COARSE_SIGMA_UP = 0.07  # m
PULL_WEIGHT = 0.05  # weight that returns far below the surface keep, so that it finds a drop
SLOPE_ITERATIONS = 6  # of the slope-aware start
SLOPE_SIGMA_UP = 0.15  # m, of the slope-aware start: hillsides are uneven
STEEP_SLOPE = _F(0.45)  # from this expected slope on, a node of the slope-aware start leans on its own points:
STEEP_NEIGHBOURS = 0.2  # its neighbours count so many times; the road beside a bank would take its slope away
STEEP_POINTS = _F(10)  # effective points of its own that it needs for that: a wall has fewer on any plane

# Points that shape the surface.
WALL_LOW, WALL_HIGH = 0.25, 1.0  # m above a pillar's lowest return: a return between makes it a wall
# The same where that return lies above a sensor so near (m): layers leave gaps, and little ground lies so high.
RAISED_WALL_HIGH, RAISED_WALL_RANGE = _F(1.5), _F(20)
# Isolated returns below the ground. A node's level: the lowest band of heights that enough of its points share.
# A return below the levels around is compared with the returns within ISOLATED_RADIUS to each side.
LEVEL_HEIGHT, LEVEL_BINS = _F(0.3), 64  # m of a band, and how many halves of one are looked at from the lowest point on
LEVEL_SHARE, LEVEL_FEWEST = _F(0.25), 3  # of the points of the fullest band, and points
LEVEL_DEPTH, LEVEL_SLOPE = _F(0.2), _F(0.3)  # m below a level, and m per m of distance, at which a return is compared
STEEPEST_LEVEL = _F(1.3)  # rise between levels per m of distance up to which both may be of one slope
NO_LEVEL = _F(-1e9)  # m, of a node without points
ISOLATED_RADIUS = _F(1)  # m
ISOLATED_ALIKE_RADIUS = _F(0.4)  # m; farther away a steep slope is as low as a stray below it
ISOLATED_WIDE_RADIUS = _F(0.6)  # m; next to no other at its height within it: the stray shows that a scan has strays
ISOLATED_WIDE_SHARE = _F(0.01)  # returns within it per return on the surface above, up to which there is next to none
ISOLATED_ALIKE, ISOLATED_ALIKE_SLOPE = _F(0.2), _F(0.1)  # m, and m per m aside, within which heights are alike
ISOLATED_ABOVE, ISOLATED_ABOVE_SLOPE = _F(0.2), _F(0.3)  # m, and m per m aside, from which a return lies above
ISOLATED_LAYER, ISOLATED_LAYERS = _F(0.2), 20  # m; returns in two neighbouring layers lie on one surface
ISOLATED_DEEPEST = _F(0.2 * 20)  # m below that surface
ISOLATED_LOWEST = _F(0.25)  # of the fullest two layers: the lowest two with as many are that surface
ISOLATED_SHARE = _F(0.1)  # returns at the same height per return on that surface, up to which a return is isolated,
ISOLATED_FEWEST, ISOLATED_LONE = 2, 6  # returns on it that are enough; and enough where one other is at the same height
ISOLATED_MOST = _F(0.03)  # returns at the same height per return of the node, above which none is isolated
ISOLATED_ENOUGH = 64  # points of a node on level ground with which its points are compared, and with no others
RAY_DEPTH, RAY_NODES = _F(0.1), 40  # m below a level at which a ray passed below the ground; nodes that are looked at
RAY_ENTERS = _F(0.2)  # m over a level up to which a ray to a return LEVEL_DEPTH below that level met the ground there
MOST_ORIGINS = 16  # sensors of a scan from which a ray is looked at
# A few returns below vegetation, which has many layers, may be ground; below one thin surface they are strays.
THIN_SURFACE = _F(0.9)  # of the returns above lie on it, and they are ISOLATED_LONE or more
FEWEST_STRAYS, STRAY_SHARE = 2, _F(5e-4)  # such returns, and their share of a scan; with fewer no return is isolated
SAMPLE_BLOCK, SAMPLE_BLOCKS = 8, 8  # nodes along a block; of so many blocks one shows whether a scan has strays
SMALL_SCAN = 30_000  # points; a smaller scan is its own sample
SPARSE_SCAN = 8_000  # returns; so few have next to none above a stray, whose ray shows then that the scan has strays:
FEWEST_RAYS, RAY_SHARE = 5, _F(2e-3)  # such rays, and their share of the returns
LOW_ISOLATED_DEPTH = 0.2  # m below the finished surface at which an isolated return is no ground

# Marks of points, as bits.
NON_GROUND, ISOLATED = np.uint8(1), np.uint8(2)  # never ground; does not shape the surface
BELOW_GROUND = np.uint8(2)  # decision about an isolated point; others are 0 and 1

FAR_ABOVE = _F(1e3)  # m, where a point's weight in the E-step is zero
FARTHEST_HEIGHT = _F(1e4)  # m from the base: beyond it nothing is a return

# Nodes and the prior.
KNOWN_PRIOR = _F(0.05)  # effective points from which a prior knows a node
ENOUGH_PRIOR = 0.2  # share of the nodes with points that the prior must know for a few iterations to be enough
STAYS_FROM = _F(0.01)  # effective points of its own, now or before, for a node to stay as prior
SEEN_FROM = _F(0.3)  # the same, now and before, for it to count as seen
# Ground is seen from above: a plane that passes over the sensor is a ceiling's, or that of a beam which met leaves or
# the sides of cars at many ranges. It is neither kept nor reported; away from the level of the road, nor is one that
# rays meet edge-on, at less than this slope: one layer alone draws its own cone.
EDGE_ON, AT_ROAD = _F(0.005), _F(0.2)  # m per m of range; m from the height of the road under the vehicle
FARTHEST_ABOVE = _F(2.0)  # m over the first surface of a scan: a remembered plane that it does not see ends there
SIDES = 4  # seen neighbours between which an unseen node is filled in
FILLED_VARIANCE = _F(0.01)  # m^2 more for such a node
POINT_NOISE = _F(information.POINT_NOISE)
GAP_UNEVENNESS = _F(0.1**2)  # m^2 up to which the planes around may disagree for that: a hollow may hide in a gap
POINT_UNEVENNESS = _F(6)  # m^2 of a point per m^2 that the planes around disagree by: neighbours count the same points
NODE_UNEVENNESS = _F(0.5)  # m^2 of a node per m^2 that it and the planes beside it disagree by, whatever its points,
FILLED_UNEVENNESS = _F(1.5)  # and of a node that was not seen
OWN_POINTS = _F(1)  # effective points of a node with which its plane leans as much on them as on neighbours,
REMEMBERED_POINTS = _F(4)  # and with which what is kept for the next scans does
SLOPE_VARIANCE = _F(0.25**2)  # of the ground around the slope that is expected where no point publishes it
CLEAN_VARIANCE = _F(0.02)  # m^2 up to which a node counts as one of a surface
SMALL_COMPONENT = 60  # connected nodes from which a surface is reported,
SMALL_SHARE = _F(0.03)  # or this share of all known nodes
DISAGREEMENT_WEIGHT = 1.5  # doubt added per squared difference from the planes of seen neighbours
NOTHING_KNOWN = _F(1e-6)  # effective points below which a carried prior is empty
COARSE_KNOWS = _F(1e-7)  # effective points from which the coarse start gives a node its expected plane
PLANE_FROM = _F(0.3)  # effective points, its neighbours' among them, from which a node's plane is carried on

# The slope-aware start: reach of its envelope, and when it explains the lowest points of a region better.
ENVELOPE_STEPS = 24  # wide nodes; even, so that the envelope ends where it began
EXPLAINED = _F(0.1)  # m from the surface,
EXPLAINED_ON_SLOPES = _F(0.5)  # m more per squared slope: a bank is rougher than a road, and bends within a wide node;
EXPLAINED_AT_MOST = _F(0.15)  # m: beyond, far facades would be explained, too
SLOPE_REGION = 2  # wide nodes to each side
SLOPE_BETTER = _F(1.1)  # times as many explained, and
SLOPE_MANY_MORE = 40  # so many more, or
SLOPE_SOME_MORE, SLOPE_NEARLY_ALL = 20, _F(0.8)  # so many more that make up this share of all: of the region's, or of
# the node's own where the level start explains no more than the rest of them and ground is seen around it: a bank
# below trees.
SLOPE_FEWEST = 4  # points of the node, and points around it that the level start explains

# Alignment with the prior surface.
ALIGNMENT_RADIUS = 30.0  # m around the sensor
ALIGNMENT_TRUST = 0.8  # share of the misalignment beyond the dead zone that is corrected
# Dead zone: a smaller misalignment is not corrected. The prior surface comes from aligned scans, so a bias of the fits
# adds up to trust / (1 - trust) times its size beyond the dead zone; on mountain roads it is 0.01 m and 0.003: the
# smooth surface lies 0.03 m over the foot of a bank, and as much below the edge of a drop on the other side.
ALIGNMENT_DEAD_LIFT = _F(0.01)  # m
ALIGNMENT_DEAD_TILT = _F(0.003)  # slope
POSE_MEMORY = 10  # scans over which the scatter of the poses is averaged
ALIGNMENT_POINTS = 12000  # at most this many are looked at
FEWEST_SAMPLES = 50
FIRM = _F(3)  # effective points a node must hold to be trusted
NODE_LIMIT = _F(10)  # samples of one node count as no more than this many
FARTHEST_SAMPLE = _F(1)  # m from the prior surface
NEAR_SAMPLE = _F(0.1)  # m, samples that lie on the surface
FIT_SIGMAS = (0.3, 0.15, 0.1, 0.05, 0.05)  # m, one per step
FIT_STEPS = len(FIT_SIGMAS)
FIT_GROUPS = 32  # work-groups of a step on accelerators
SMALLEST_FIT = 0.3  # share of the samples on the surface from which a scan fits it
SMALLEST_OVERLAP = _F(0.2)  # share of the points over firm nodes that must be samples: else the prior is wrong
LARGEST_LIFT, LARGEST_TILT = 0.7, 0.1  # m and slope that are corrected

# Counters of a node, as planes of one array.
NEAR, NEAR_HIGH, OPEN_NEAR, OPEN_HIGH, SEEN_GROUND, WALL_RETURNS, COUNTERS = range(7)
BELOW, RAISED, ON_GROUND, WALL_TOP = _F(-0.3), _F(0.08), _F(0.10), _F(2.5)  # m over the surface
BANDS = 5  # of heights in a pillar: foot..threshold, ..clear, ..highest, ..top, ..structure top

# Heights over the surface that the label rules use, m.
FOOT, FOOT_AROUND = _F(0.06), _F(0.10)  # below it the structure in a pillar, or in the 3 x 3 pillars, does not matter
TOP = _F(1.0)  # end of the band in which a structure must continue
STRUCTURE_TOP = _F(1.3)  # returns above do not belong to a structure on the ground
RATIO_OWN = 1  # returns of a structure per return at its foot, in the point's own pillar
LOW_OUTLIER_DEPTH = 1.0  # below the surface: noise
RATIO_AROUND = 3  # returns in a structure of 3 x 3 pillars per return at its foot
SUPPORT_RATIO = _F(8)  # effective points below which the rule of feet by ratio applies
SUPPORT_EVEN = _F(4)  # effective points below which the rule of feet by support applies
FIRM_GROUND = _F(10)  # effective points from which ground is firm
MANY_ALIKE = 6  # returns of equal height around a point of a steep bank

# Node classes, as bits.
SMOOTH, FOOT_BY_RATIO, FOOT_BY_SUPPORT, OPEN = np.uint8(1), np.uint8(2), np.uint8(4), np.uint8(8)
FEWEST_RETURNS = 3  # a node needs to be called smooth or rough
ROUGH_SHARE, ROUGH_RETURNS = _F(0.05), 2  # of its points raised, and at least so many
RING_ROUGH, RING_SMOOTH = 1, 8  # of the 16 nodes two away: at most rough, at least smooth
REGION = 12  # nodes to each side
EVEN_SHARE = _F(0.85)
FOOT_RATIO = _F(0.10)  # seen ground per wall return under which a low point is the structure's foot
OPEN_WALLS = 4  # wall returns from which a region is not open

# The vote among neighbours at equal height over the surface.
VOTE_PILLARS = 2  # pillars to each side of a cell
VOTE_LAYERS = 13
VOTE_LOWEST, VOTE_LAYER = _F(0.05), _F(0.05)  # m
VOTE_TOP = _F(0.05 + 13 * 0.05)
VOTE_MAY_CHANGE = _F(0.10)  # m, points from here on follow the vote

# Outputs beside the labels that a caller may ask a device for, as bits.
PROBABILITY, HEIGHT, LAYERS = 1, 2, 4

UNALIGNED = 16  # numbers of the poses before the alignment with the prior surface
# How a prior is moved, and where it lies before: in one of two buffers, or as the last frame's result.
ROLLING, TURNING, POSTERIOR = 0, 1, 2
# What a frame says of a node: its ground was seen, now or before; it stays as prior; it has data of this scan.
SEEN, STAYS, HAS_DATA = 1, 2, 4

_NUMBERS = (int, float, np.number)
CONSTANTS = MappingProxyType({name: n for name, n in globals().items() if name[0] != "_" and isinstance(n, _NUMBERS)})

# One frame as device kernels read it. Addresses are 0 where our own buffers are meant.
FRAME = np.dtype(
    [
        ("given", np.uint64),  # (count, 3) float, as the caller gave them
        ("points", np.uint64),  # the same, without those on the ego vehicle
        ("label", np.uint64),  # outputs, one per point
        ("probability", np.uint64),
        ("height", np.uint64),
        ("layers", np.uint64),  # elevation, slope (x, y), variance without and with the scatter of the poses
        ("count", np.int32),
        ("wanted", np.int32),  # PROBABILITY | HEIGHT | LAYERS
        ("warm", np.int32),  # the prior is used; 2: and the first surface started from its planes
        ("prior", np.int32),  # which of the two prior buffers holds it
        ("base", np.float32),  # m, height in the lattice frame from which the engine counts
        ("road", np.float32),  # m, height of the road under the vehicle
        ("rotation", np.float32, 9),  # sensor to lattice
        ("translation", np.float32, 3),
        ("vehicle_x", np.float32),  # m from the lattice's corner
        ("vehicle_y", np.float32),
        ("moving_columns", np.int32),  # mask of cells that move; 0: none
        ("moving_rows", np.int32),
        ("moving_x", np.float32),  # m from the lattice's corner
        ("moving_y", np.float32),
        ("moving_scale", np.float32),  # cells per m
        ("prior_from", np.int32),  # a prior buffer, or POSTERIOR
        ("motion", np.int32),  # ROLLING by whole nodes, or TURNING with the vehicle
        ("shift_columns", np.int32),
        ("shift_rows", np.int32),
        ("lower", np.float32),  # m the base height has risen
        ("turn", np.float32, 9),  # vehicle now to vehicle then
        ("travel", np.float32, 3),
        ("node_x", np.float32),  # m, the first node in the vehicle frame
        ("node_y", np.float32),
        ("stride", np.int32),  # every so many-th point is compared with the prior surface
        ("reach", np.float32),  # m around the sensor
        ("has_non_ground", np.int32),  # the mask of points that cannot be ground is used
        ("has_isolated", np.int32),  # isolated returns are marked
        ("sensors", np.int32),  # that saw the points
        ("origins", np.float32, (MOST_ORIGINS, 3)),  # m in the points' frame, of the first of them
        ("rise", np.float32),  # m of the highest of several sensors over the points' origin
        ("lift_variance", np.float32),  # m^2, of the pose's height over the prior surface; and of its slopes
        ("slope_x_variance", np.float32),
        ("slope_y_variance", np.float32),
        # Before the alignment with the prior surface: sensor (rotation, translation), vehicle (translation) and the
        # share that is trusted; each a double as the sum of three floats.
        ("unaligned", np.float32, (3, UNALIGNED)),
        ("ego_masked", np.int32),  # points in the ego vehicle's box are left out
        ("ego_scan", np.int32),  # number of the scan whose occupied cells are counted; 0: not counted
        ("ego_pose", np.float32, 12),  # sensor to vehicle: rotation by rows, translation
        ("ego_box", np.float32, 6),  # m in the vehicle frame: rear, front, right, left, bottom, top
    ],
    align=True,
)
