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
