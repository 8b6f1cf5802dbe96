# SPDX-License-Identifier: Apache-2.0
"""Points sorted into nodes; which of them shape the surface."""
