# SPDX-License-Identifier: Apache-2.0
"""Grid variance: the ground method of the GPU report."""
