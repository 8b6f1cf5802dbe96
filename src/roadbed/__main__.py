# SPDX-License-Identifier: Apache-2.0
from roadbed.cli import main

main()
