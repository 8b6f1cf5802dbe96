# SPDX-License-Identifier: Apache-2.0
"""Many drives, on one machine or on a Ray cluster: complete ones are kept, the rest is done, failures are told."""
