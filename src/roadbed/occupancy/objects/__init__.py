# SPDX-License-Identifier: Apache-2.0
"""Moving cells grouped into objects, tracked over time."""
