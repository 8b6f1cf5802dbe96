# SPDX-License-Identifier: Apache-2.0
"""The STCRF in plain float64 NumPy, slow and close to the paper: what the kernels are held against."""

import numpy as np


def shear(a, b):
    """F: the plane of a node evaluated (a, b) metres away."""
    return np.array([[1, a, b], [0, 1, 0], [0, 0, 1]], float)


def offsets(neighbours):
    eight = [(dx, dy) for dy in (-1, 0, 1) for dx in (-1, 0, 1) if dx or dy]
    return eight if neighbours == 8 else [(dx, dy) for dx, dy in eight if dx == 0 or dy == 0]


def planes(P, X, height_information, slope_information, expected=0.0):
    """mu = (P + P0)^-1 (X + P0 expected)."""
    weak = np.diag([height_information, slope_information, slope_information])
    return np.linalg.solve(P + weak, (X + weak @ np.array([expected, 0, 0]))[..., None])[..., 0]


def em(
    points,
    rows,
    columns,
    spacing=1.0,
    iterations=10,
    beta=0.5,
    gamma=0.0,
    neighbours=8,
    sigma_up=0.05,
    sigma_down=0.5,
    height_information=2.5e-5,
    slope_information=0.06,
    slope_limit=np.inf,
    prior=None,
    literal=False,
    expected=0.0,
):
    """P (rows, columns, 3, 3), X and mu after the EM; points count from the lattice's corner.

    `literal` sums the neighbours as printed in the paper instead of averaging them; the weak prior pulls to a level
    plane at `expected`.
    """
    P = np.zeros((rows, columns, 3, 3)) if prior is None else prior[0].copy()
    X = np.zeros((rows, columns, 3)) if prior is None else prior[1].copy()
    column = np.floor(points[:, 0] / spacing).astype(int)
    row = np.floor(points[:, 1] / spacing).astype(int)
    H = np.stack(
        [
            np.ones(len(points)),
            points[:, 0] - (column + 0.5) * spacing,
            points[:, 1] - (row + 0.5) * spacing,
        ],
        axis=1,
    )
    z = points[:, 2]
    share = beta if literal else beta / neighbours
    for _ in range(iterations):
        mu = planes(P, X, height_information, slope_information, expected)
        mu[..., 1:] = np.clip(mu[..., 1:], -slope_limit, slope_limit)
        dz = z - (H * mu[row, column]).sum(1)
        c = np.exp(-(dz**2) / (2 * np.where(dz >= 0, sigma_up, sigma_down) ** 2))
        new_P, new_X = np.zeros_like(P), np.zeros_like(X)
        np.add.at(new_P, (row, column), c[:, None, None] * H[:, :, None] * H[:, None, :])
        np.add.at(new_X, (row, column), (c * z)[:, None] * H)
        padded_P = np.pad(P, ((1, 1), (1, 1), (0, 0), (0, 0)))
        padded_X = np.pad(X, ((1, 1), (1, 1), (0, 0)))
        for dx, dy in offsets(neighbours):
            F = shear(dx * spacing, dy * spacing)
            beside = slice(1 + dy, 1 + dy + rows), slice(1 + dx, 1 + dx + columns)
            new_P += share * (F.T @ padded_P[beside] @ F)
            new_X += share * (padded_X[beside] @ F)
        if prior is not None:
            new_P += gamma * prior[0]
            new_X += gamma * prior[1]
        P, X = new_P, new_X
    return P, X, planes(P, X, height_information, slope_information, expected)


def transported(old, corner, T_old_new, height_information, slope_information):
    """P (rows, columns, 3, 3) and planes (rows, columns, 3) of a lattice of 1 m as seen from a new vehicle frame, with
    node [0][0] at `corner` of either; `old` is P and X."""
    P, X = old
    new_P, planes = np.zeros_like(P), np.zeros_like(X)
    yaw = np.arctan2(T_old_new.rotation[1, 0], T_old_new.rotation[0, 0])
    turn = np.array([[1, 0, 0], [0, np.cos(yaw), -np.sin(yaw)], [0, np.sin(yaw), np.cos(yaw)]])
    weak = np.diag([height_information, slope_information, slope_information])
    for row, column in np.ndindex(P.shape[:2]):
        place = np.array([column + corner[0], row + corner[1], 0.0])
        for _ in range(2):  # where it was depends on its height, which is only known then
            there = T_old_new @ place
            found_P, found_X = _blended(P, X, *(there[:2] - corner))
            if found_P[0, 0] <= 1e-6:
                break
            h, sx, sy = np.linalg.solve(found_P + weak, found_X)
            normal = np.array([-sx, -sy, 1.0])
            distance = h + normal[:2] @ there[:2] - normal @ T_old_new.translation
            m = T_old_new.rotation.T @ normal
            slopes = -m[:2] / m[2]
            place[2] = distance / m[2] + slopes @ place[:2]
        if found_P[0, 0] > 1e-6:
            new_P[row, column], planes[row, column] = turn.T @ found_P @ turn, (place[2], *slopes)
    return new_P, planes


def _blended(P, X, u, v):
    """P and X at a place between nodes: those of four, each carried there; one beyond the border knows nothing."""
    total_P, total_X = np.zeros((3, 3)), np.zeros(3)
    for i, j in ((int(np.floor(u)) + a, int(np.floor(v)) + b) for a in (0, 1) for b in (0, 1)):
        if 0 <= i < P.shape[1] and 0 <= j < P.shape[0]:
            carry = shear(i - u, j - v)
            share = (1 - abs(i - u)) * (1 - abs(j - v))
            total_P += share * carry.T @ P[j, i] @ carry
            total_X += share * carry.T @ X[j, i]
    return total_P, total_X
