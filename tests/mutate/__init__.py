# SPDX-License-Identifier: Apache-2.0
"""Changes made to the code on purpose, one at a time: does a test turn red? `make mutate` runs them all."""
