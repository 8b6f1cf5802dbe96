# SPDX-License-Identifier: Apache-2.0
"""Sensors by their packets, from the wire or a capture."""
