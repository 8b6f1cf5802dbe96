# SPDX-License-Identifier: Apache-2.0
"""File formats, one module each."""
