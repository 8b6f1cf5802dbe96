#!/usr/bin/env bash
# Installs the real parts that tests use from the system's packages: an OpenCL runtime and a browser.
# Where that is not possible it says so and leaves; the tests that need the part then skip with a reason.
set -u

missing=()
ls /etc/OpenCL/vendors/*.icd >/dev/null 2>&1 || missing+=(pocl-opencl-icd ocl-icd-libopencl1)
command -v chromium >/dev/null || command -v google-chrome >/dev/null || missing+=(chromium chromium-driver)
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
"${sudo[@]}" apt-get update -qq && "${sudo[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null ||
    echo "could not install ${missing[*]}: the tests that need them will skip"
exit 0
