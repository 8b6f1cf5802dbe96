# SPDX-License-Identifier: Apache-2.0
"""Launch files for `roadbed ros2`; the node itself is the Python package roadbed."""
