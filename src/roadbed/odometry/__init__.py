# SPDX-License-Identifier: Apache-2.0
"""Where the sensor was when nobody says, and scans as if it had stood still."""
