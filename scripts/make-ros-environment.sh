#!/usr/bin/env bash
# An environment in which Roadbed finds the system's rospy: make-ros-environment.sh FOLDER
set -eu

folder=$1
if ! /usr/bin/python3 -c 'import sys, rospy; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    echo "no rospy for Python 3.11 or later (apt-get install ros-core python3-rospy): tests that need it will skip"
    exit 0
fi
/usr/bin/python3 -m venv --system-site-packages "$folder"
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile -e '.[io]'
