# SPDX-License-Identifier: Apache-2.0
"""Odometry from scans (KISS-ICP), and deskewing."""
