# SPDX-License-Identifier: Apache-2.0
"""The sensor's extrinsics, estimated from the scan: height, pitch, roll."""
