# SPDX-License-Identifier: Apache-2.0
"""Files from anywhere: read with nothing believed that was not checked against the bytes that are there."""
