#!/usr/bin/env bash
# Installs the real parts that tests use from the system's packages: an OpenCL runtime, a browser, ROS 1 and a DDS, and
# further packages given as arguments.
# Where that is not possible it says so and leaves; the tests that need the part then skip with a reason.
set -u

missing=()
for package in "$@"; do dpkg --status "$package" >/dev/null 2>&1 || missing+=("$package"); done
grep --quiet --no-messages --ignore-case --extended-regexp 'pocl|nvidia|intel' /etc/OpenCL/vendors/*.icd ||
    missing+=(pocl-opencl-icd ocl-icd-libopencl1)
command -v g++ >/dev/null || missing+=(g++)
command -v chromium >/dev/null || command -v google-chrome >/dev/null || missing+=(chromium chromium-driver)
command -v roscore >/dev/null || missing+=(ros-core)
/usr/bin/python3 -c 'import rospy, sensor_msgs, nav_msgs, tf2_msgs, visualization_msgs, diagnostic_msgs' 2>/dev/null ||
    missing+=(python3-rospy python3-sensor-msgs python3-nav-msgs python3-tf2-msgs python3-visualization-msgs
        python3-diagnostic-msgs)
/usr/bin/python3 -c 'import ensurepip' 2>/dev/null || missing+=(python3-venv)
[ -e /usr/include/dds/dds.h ] && command -v idlc >/dev/null || missing+=(cyclonedds-dev cyclonedds-tools)
command -v gcc >/dev/null || missing+=(gcc libc6-dev)
headers='import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))'
python3 -c "$headers" || missing+=(python3-dev)
[ ${#missing[@]} -eq 0 ] && exit 0

sudo=()
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null && sudo -n true 2>/dev/null && sudo=(sudo -n) || {
        echo "not root and no sudo: tests that need ${missing[*]} will skip"
        exit 0
    }
fi
command -v apt-get >/dev/null || { echo "no apt-get: install ${missing[*]} by hand, the tests that need them will skip"; exit 0; }
echo "installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
install() { "${sudo[@]}" apt-get install -y -qq --no-install-recommends "$@" >/dev/null; }
"${sudo[@]}" apt-get update -qq
# One by one where all together fail: a system without packages of ROS still gets its browser.
install "${missing[@]}" || for part in "${missing[@]}"; do
    install "$part" 2>/dev/null || echo "could not install $part: the tests that need it will skip"
done
exit 0
