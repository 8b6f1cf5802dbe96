# SPDX-License-Identifier: Apache-2.0
"""Labels, probabilities and heights of points, from the finished surface."""
