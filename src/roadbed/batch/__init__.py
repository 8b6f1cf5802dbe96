# SPDX-License-Identifier: Apache-2.0
"""Many sequences in parallel on Ray, on one machine or a cluster; an interrupted batch can be resumed."""
