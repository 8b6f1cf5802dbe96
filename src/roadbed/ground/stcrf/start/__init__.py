# SPDX-License-Identifier: Apache-2.0
"""The surface that the EM starts from."""
