# SPDX-License-Identifier: Apache-2.0
"""What every part shares: frames, geometry, time, tracked objects, errors. It imports nothing of the rest."""
