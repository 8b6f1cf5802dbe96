# SPDX-License-Identifier: Apache-2.0
"""The ego mask: returns from the ego vehicle's own body."""
