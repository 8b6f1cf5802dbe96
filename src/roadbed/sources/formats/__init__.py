# SPDX-License-Identifier: Apache-2.0
"""One file format each."""
