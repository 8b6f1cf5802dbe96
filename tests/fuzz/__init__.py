# SPDX-License-Identifier: Apache-2.0
"""Damaged and made-up input for everything that reads: `make fuzz SECONDS=60 SEED=0`.

Each case is made from (seed, target, number) alone. Whatever it is, a scan, a configuration or one line comes out; a
crash, a foreign exception, a hang or too much memory is a finding, and its input is saved.
"""
