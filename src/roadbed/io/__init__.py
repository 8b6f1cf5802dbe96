# SPDX-License-Identifier: Apache-2.0
"""Safe file access: every size in a file is checked against its length before memory is allocated."""
