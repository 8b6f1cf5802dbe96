# SPDX-License-Identifier: Apache-2.0
"""Shared by all folders: frames, geometry, time, tracked objects, errors. It imports no other folder."""
