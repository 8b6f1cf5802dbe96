# SPDX-License-Identifier: Apache-2.0
"""Compiles the CPU kernels before they are needed."""
