#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs scripts/opencl_matrix.py with the OpenCL drivers of another Debian release (PoCL and Mesa's rusticl) in a chroot.
# Needs root, debootstrap and a network. Usage: opencl-matrix-in-debian.sh trixie [options of the matrix]
set -euo pipefail
release=$1
shift
root=${CHROOT:-/var/tmp/roadbed-opencl-$release}
checkout=$(cd "$(dirname "$0")/.." && pwd)
if [ ! -d "$root/checkout" ]; then
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | head -n 1) # of this machine
    debootstrap --variant=minbase \
        --include=pocl-opencl-icd,mesa-opencl-icd,ocl-icd-libopencl1,python3-venv,ca-certificates "$release" "$root" \
        "$mirror" sid # the script for a release that is newer than debootstrap
    mkdir "$root/checkout"
fi
cp /etc/resolv.conf "$root/etc/"
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/" # this machine may know more of them
trap 'for at in proc sys dev checkout; do umount "$root/$at" || true; done' EXIT
mount --bind /proc "$root/proc"
mount --bind /sys "$root/sys" # PoCL asks hwloc, which aborts without it
mount --bind /dev "$root/dev"
mount --bind "$checkout" "$root/checkout"
chroot "$root" sh -c 'test -x /venv/bin/python || python3 -m venv /venv
    /venv/bin/pip install --quiet numpy "numba<0.69" pydantic PyYAML typer rich matplotlib pyopencl'
chroot "$root" env HOME=/root PYTHONPATH=/checkout/src sh -c 'cd /checkout && /venv/bin/python scripts/opencl_matrix.py "$@"' sh "$@"
