#!/usr/bin/env bash
# Builds Cyclone DDS' Python package for the library that the system has: install-cyclonedds.sh [PYTHON]
# The package looks for lib, include and bin under one folder; Debian's are joined to one by links.
set -eu

python=${1:-python3}
version=0.10.2  # that of Debian's cyclonedds-dev
"$python" -c 'import cyclonedds' 2>/dev/null && exit 0
if ! [ -e /usr/include/dds/dds.h ]; then
    echo "no Cyclone DDS (apt-get install cyclonedds-dev cyclonedds-tools): tests that need it will skip"
    exit 0
fi
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
ln -s "$(dirname "$(ls /usr/lib/*/libddsc.so | head -n 1)")" "$home/lib"
ln -s /usr/include "$home/include"
ln -s /usr/bin "$home/bin"
CYCLONEDDS_HOME=$home "$python" -m pip install --quiet --disable-pip-version-check "cyclonedds==$version" ||
    echo "could not build cyclonedds $version: tests that need it will skip"
