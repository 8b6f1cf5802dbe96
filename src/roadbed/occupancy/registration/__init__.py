# SPDX-License-Identifier: Apache-2.0
"""Velocities of components by registration of successive scans."""
