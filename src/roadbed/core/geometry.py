# SPDX-License-Identifier: Apache-2.0
"""Poses and grids. SI units; x forward, y left, z up."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from operator import mul

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roadbed.core.errors import InputError

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]

# Farther than the Moon: no origin in use is further away, and cell indices fit into integers.
FARTHEST_M = 1e9
_LARGEST_STEP_M = 0.05

_IDENTITY = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0)


def _floats(values: ArrayLike) -> Float64:
    if isinstance(values, np.ndarray) and values.dtype == np.float32:
        farthest = np.abs(values).max(initial=0)
        if farthest < FARTHEST_M and (step := np.spacing(farthest)) > _LARGEST_STEP_M:
            raise InputError(f"pose: found {farthest:g} m as float32, in steps of {step:g} m, expected float64")
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(values, np.float64)
    except (TypeError, ValueError):
        raise InputError(f"pose: expected numbers, found {type(values).__name__} with other values") from None


class Pose:
    """A rigid motion `T_a_b` from frame b to frame a: `T_a_b @ T_b_c` chains, `T_a_b @ points_b` maps.

    It is twelve plain numbers: Python multiplies them faster than NumPy multiplies 3x3 matrices, with the same result
    on every machine. Arrays are made on demand.
    """

    __slots__ = ("_inverse", "numbers")

    @np.errstate(over="ignore", invalid="ignore")  # NaN and infinity are refused below, without a warning
    def __init__(self, rotation: ArrayLike, translation: ArrayLike) -> None:
        rotation, translation = _floats(rotation), _floats(translation)
        if rotation.shape != (3, 3) or translation.shape != (3,):
            raise InputError(
                f"pose: expected a 3x3 rotation and 3 translations, found {rotation.shape} and {translation.shape}"
            )
        if not (np.isfinite(rotation).all() and np.isfinite(translation).all()):
            raise InputError("pose: expected finite numbers, found NaN or infinity")
        if (distance := np.abs(translation).max()) > FARTHEST_M:
            raise InputError(f"pose: expected a place within {FARTHEST_M:g} m of the origin, found {distance:g} m")
        deviation = float(np.abs(rotation @ rotation.T - np.eye(3)).max())
        if deviation <= 1e-3 and np.linalg.det(rotation) < 0:
            raise InputError("pose: the 3x3 part mirrors, expected a rotation: are the axes left-handed?")
        if not deviation <= 1e-3:
            raise InputError(f"pose: the 3x3 part is not a rotation (it differs from orthonormal by {deviation:.3g})")
        self.numbers: tuple[float, ...] = (*rotation.ravel().tolist(), *translation.tolist())
        self._inverse: Pose | None = None

    @classmethod
    def of_numbers(cls, numbers: tuple[float, ...]) -> Pose:
        """Rotation row by row, then translation, known to be a rotation and finite: not checked, for speed."""
        pose = object.__new__(cls)
        pose.numbers = numbers
        pose._inverse = None
        return pose

    def __eq__(self, other: object) -> bool:
        return self.numbers == other.numbers if isinstance(other, Pose) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.numbers)

    @classmethod
    def identity(cls) -> Pose:
        return cls.of_numbers(_IDENTITY)

    def __repr__(self) -> str:
        x, y, z = self.numbers[9:]
        roll, pitch, yaw = (math.degrees(angle) for angle in (self.roll, self.pitch, self.yaw))
        return f"Pose(x {x:.3f}, y {y:.3f}, z {z:.3f} m; roll {roll:.2f}, pitch {pitch:.2f}, yaw {yaw:.2f} degrees)"

    @property
    def rotation(self) -> Float64:
        """(3, 3)"""
        return np.array(self.numbers[:9]).reshape(3, 3)

    @property
    def translation(self) -> Float64:
        """(3,) m"""
        return np.array(self.numbers[9:])

    @property
    def xyz(self) -> tuple[float, ...]:
        """The translation in numbers, m."""
        return self.numbers[9:]

    @classmethod
    def from_matrix(cls, matrix: ArrayLike) -> Pose:
        """From a 3x4 or 4x4 matrix."""
        m = _floats(matrix)
        if m.shape not in ((3, 4), (4, 4)):
            raise InputError(f"pose: expected a 3x4 or 4x4 matrix, found shape {m.shape}")
        pose = cls(m[:3, :3], m[:3, 3])
        if np.abs(m[3:] - (0, 0, 0, 1)).max(initial=0) > 1e-3:
            last = " ".join(f"{value:g}" for value in m[3])
            raise InputError(f"pose: expected 0 0 0 1 as the last row, found {last}: is the matrix transposed?")
        return pose

    @classmethod
    def from_euler(
        cls, x: float = 0, y: float = 0, z: float = 0, *, yaw: float = 0, pitch: float = 0, roll: float = 0
    ) -> Pose:
        """Rz(yaw) Ry(pitch) Rx(roll), radians. Positive pitch lowers the nose (x forward, z up)."""
        cy, sy, cp, sp, cr, sr = (f(a) for a in (yaw, pitch, roll) for f in (np.cos, np.sin))
        rotation = np.array(
            [
                [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
                [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
                [-sp, cp * sr, cp * cr],
            ]
        )
        return cls(rotation, np.array([x, y, z], np.float64))

    @classmethod
    def from_quaternion(cls, translation: ArrayLike, xyzw: ArrayLike) -> Pose:
        """From a translation and a quaternion in the order x, y, z, w (normalised here)."""
        q = _floats(xyzw)
        if q.shape != (4,):
            raise InputError(f"pose: expected a quaternion of 4 numbers, found shape {q.shape}")
        with np.errstate(over="ignore", invalid="ignore"):
            norm = float(np.linalg.norm(q))
        if not np.isfinite(norm) or norm < 1e-6:
            raise InputError(f"pose: expected a quaternion of length 1, found length {norm:.3g}")
        x, y, z, w = q / norm
        rotation = np.array(
            [
                [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
                [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
                [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
            ]
        )
        return cls(rotation, translation)

    @property
    def matrix(self) -> Float64:
        m = np.eye(4)
        m[:3, :3] = self.rotation
        m[:3, 3] = self.translation
        return m

    @property
    def quaternion(self) -> Float64:
        """x, y, z, w: by the largest of the four squares, so that no half turn divides by zero."""
        r = self.rotation
        squares = 1 + np.array([*(2 * np.diag(r) - np.trace(r)), np.trace(r)])
        x, y, z = r[2, 1] - r[1, 2], r[0, 2] - r[2, 0], r[1, 0] - r[0, 1]
        xy, xz, yz = r[0, 1] + r[1, 0], r[0, 2] + r[2, 0], r[1, 2] + r[2, 1]
        products = np.array(
            [[squares[0], xy, xz, x], [xy, squares[1], yz, y], [xz, yz, squares[2], z], [x, y, z, squares[3]]]
        )
        longest = products[int(np.argmax(squares))]
        return longest / np.linalg.norm(longest)

    @property
    def is_identity(self) -> bool:
        """Exactly."""
        return self.numbers == _IDENTITY

    def inverse(self) -> Pose:
        """Cached: it is used many times per scan."""
        if self._inverse is None:
            a, b, c, d, e, f, g, h, i, x, y, z = self.numbers
            back = (-(a * x + d * y + g * z), -(b * x + e * y + h * z), -(c * x + f * y + i * z))
            self._inverse = Pose.of_numbers((a, d, g, b, e, h, c, f, i, *back))
        return self._inverse

    def __matmul__(self, other):
        if isinstance(other, Pose):
            a, b, c, d, e, f, g, h, i, x, y, z = self.numbers
            j, k, l, m, n, o, p, q, r, u, v, w = other.numbers
            return Pose.of_numbers(
                (
                    a * j + b * m + c * p, a * k + b * n + c * q, a * l + b * o + c * r,
                    d * j + e * m + f * p, d * k + e * n + f * q, d * l + e * o + f * r,
                    g * j + h * m + i * p, g * k + h * n + i * q, g * l + h * o + i * r,
                    a * u + b * v + c * w + x, d * u + e * v + f * w + y, g * u + h * v + i * w + z,
                )
            )  # fmt: skip
        # Written out: a matrix library spreads this over all cores, which costs more than the sums themselves.
        points = np.asarray(other)
        if points.shape[-1:] != (3,) or points.dtype.kind not in "fiub":
            raise InputError(f"pose: expected points of shape (N, 3), found {points.dtype} of shape {points.shape}")
        if points.shape == (3,):
            return np.array(self.of(*points.tolist()), np.float32 if points.dtype == np.float32 else np.float64)
        xs, ys, zs = (points[..., axis].astype(np.float64) for axis in range(3))
        moved = np.empty(points.shape, np.float32 if points.dtype == np.float32 else np.float64)
        for axis in range(3):
            along_x, along_y, along_z = self.numbers[3 * axis : 3 * axis + 3]
            moved[..., axis] = along_x * xs + along_y * ys + along_z * zs + self.numbers[9 + axis]
        return moved

    def of(self, x: float, y: float, z: float) -> tuple[float, float, float]:
        """One point, as plain numbers, m."""
        a, b, c, d, e, f, g, h, i, u, v, w = self.numbers
        return a * x + b * y + c * z + u, d * x + e * y + f * z + v, g * x + h * y + i * z + w

    def turned(self, x: float, y: float, z: float) -> tuple[float, float, float]:
        """One direction, as plain numbers."""
        a, b, c, d, e, f, g, h, i = self.numbers[:9]
        return a * x + b * y + c * z, d * x + e * y + f * z, g * x + h * y + i * z

    @property
    def yaw(self) -> float:
        return math.atan2(self.numbers[3], self.numbers[0])

    @property
    def pitch(self) -> float:
        return float(np.arcsin(np.clip(-self.numbers[6], -1, 1)))

    @property
    def roll(self) -> float:
        return float(np.arctan2(self.numbers[7], self.numbers[8]))

    def distance_to(self, other: Pose) -> float:
        return math.dist(self.xyz, other.xyz)

    def angle_to(self, other: Pose) -> float:
        """Angle between the two rotations, radians."""
        cosine = (sum(map(mul, self.numbers[:9], other.numbers[:9])) - 1) / 2
        return math.acos(min(max(cosine, -1.0), 1.0))


def rotation_to_level(slope_x: float, slope_y: float) -> tuple[float, ...]:
    """The smallest rotation that makes the plane z = slope_x x + slope_y y horizontal, row by row."""
    up = 1 / math.sqrt(slope_x**2 + slope_y**2 + 1)
    a, b = -slope_y * up, slope_x * up  # of the axis, as long as the sine of the angle, in the plane z = 0
    # 1 + K + K^2 / (1 + cosine), written out: many small arrays take longer than a frame's arithmetic.
    s = 1 / (1 + up)
    return 1 - b * b * s, a * b * s, b, a * b * s, 1 - a * a * s, -a, -b, a, 1 - (a * a + b * b) * s


def interpolate(first: Pose, second: Pose, fraction: float) -> Pose:
    """The motion from `first` to `second` at constant speed and turn rate; fractions outside 0..1 extend it."""
    axis_angle = rotation_vector(first.rotation.T @ second.rotation)
    translation = first.translation + fraction * (second.translation - first.translation)
    return Pose(first.rotation @ rotation_of(fraction * axis_angle), translation)


def rotation_vector(rotation: Float64) -> Float64:
    """Axis times angle of a rotation matrix."""
    skew = np.array([rotation[2, 1] - rotation[1, 2], rotation[0, 2] - rotation[2, 0], rotation[1, 0] - rotation[0, 1]])
    sine, cosine = np.linalg.norm(skew) / 2, (np.trace(rotation) - 1) / 2
    angle = np.arctan2(sine, cosine)
    if sine > 1e-6:
        return skew * (angle / (2 * sine))
    if cosine > 0:
        return skew / 2
    # Half a turn: the axis is the column of R + 1 that is longest.
    columns = rotation + np.eye(3)
    axis = columns[:, int(np.argmax(np.diag(columns)))]
    return angle * axis / np.linalg.norm(axis)


def rotation_of(axis_angle: Float64) -> Float64:
    """Rotation matrix of axis times angle (Rodrigues)."""
    angle = float(np.linalg.norm(axis_angle))
    x, y, z = axis_angle
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    # np.sinc(t) is sin(pi t) / (pi t), finite at zero.
    return np.eye(3) + np.sinc(angle / np.pi) * cross + 0.5 * np.sinc(angle / 2 / np.pi) ** 2 * (cross @ cross)


@dataclass(frozen=True)
class Grid:
    """A regular grid on the xy plane. Layers are arrays of shape (rows, columns), indexed [y][x]."""

    x0: float  # m, position of node or cell centre [0][0]
    y0: float
    spacing: float  # m
    columns: int
    rows: int

    @classmethod
    def centred(cls, length: float, width: float, spacing: float, x: float = 0.0, y: float = 0.0) -> Grid:
        """`length` metres along x by `width` along y around (x, y); nodes lie at the middle of their squares."""
        columns, rows = round(length / spacing), round(width / spacing)
        return cls(x - (columns - 1) * spacing / 2, y - (rows - 1) * spacing / 2, spacing, columns, rows)

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows, self.columns

    @property
    def size(self) -> int:
        return self.rows * self.columns

    @property
    def extent(self) -> tuple[float, float, float, float]:
        """x_min, x_max, y_min, y_max of the covered area, as matplotlib takes it."""
        half = self.spacing / 2
        return (
            self.x0 - half,
            self.x0 + (self.columns - 0.5) * self.spacing,
            self.y0 - half,
            self.y0 + (self.rows - 0.5) * self.spacing,
        )

    @property
    def x(self) -> Float64:
        return self.x0 + np.arange(self.columns, dtype=np.float64) * self.spacing

    @property
    def y(self) -> Float64:
        return self.y0 + np.arange(self.rows, dtype=np.float64) * self.spacing

    def mesh(self) -> tuple[Float64, Float64]:
        """x and y of every node, shape (rows, columns) each."""
        x, y = np.meshgrid(self.x, self.y)
        return x, y

    def index(self, x: ArrayLike, y: ArrayLike) -> NDArray[np.int64]:
        """Flat index of the nearest node, -1 outside."""
        column = np.floor((np.asarray(x, np.float64) - self.x0) / self.spacing + 0.5)
        row = np.floor((np.asarray(y, np.float64) - self.y0) / self.spacing + 0.5)
        inside = (column >= 0) & (column < self.columns) & (row >= 0) & (row < self.rows)
        flat = np.where(inside, row * self.columns + column, -1)
        return flat.astype(np.int64)

    def shifted(self, columns: int, rows: int) -> Grid:
        """Moved by whole nodes."""
        return replace(self, x0=self.x0 + columns * self.spacing, y0=self.y0 + rows * self.spacing)

    def around(self, x: float, y: float) -> Grid:
        """A grid of the same size around (x, y), with nodes at (k + 1/2) spacing in every sequence."""
        first_column = math.floor(x / self.spacing) - self.columns // 2
        first_row = math.floor(y / self.spacing) - self.rows // 2
        corner = (first_column + 0.5) * self.spacing, (first_row + 0.5) * self.spacing
        return Grid(*corner, self.spacing, self.columns, self.rows)

    def steps_to(self, other: Grid) -> tuple[int, int]:
        """Columns and rows from this grid to another on the same nodes."""
        return round((other.x0 - self.x0) / self.spacing), round((other.y0 - self.y0) / self.spacing)

    def outside(self, columns: int, rows: int) -> NDArray[np.bool_]:
        """Which nodes (rows, columns) are not covered once the grid has moved by so many columns and rows."""
        height, width = self.shape
        mask = np.ones(self.shape, np.bool_)
        mask[max(0, rows) : max(0, height + min(0, rows)), max(0, columns) : max(0, width + min(0, columns))] = False
        return mask
