# SPDX-License-Identifier: Apache-2.0
"""One public data set each."""
