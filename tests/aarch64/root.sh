#!/usr/bin/env bash
# Make in FOLDER what runs Python for aarch64 on another Linux processor: `root.sh FOLDER`. Needs no administrator.
#
# Packages come from the sources that apt knows here, wheels through pip. Nothing is installed on this system.
set -euo pipefail
folder=$(realpath --canonicalize-missing "$1")
here=$(realpath "$(dirname "${BASH_SOURCE[0]}")")
python=$(realpath --no-symlinks "${PYTHON:-.venv/bin/python}")
for program in apt-get dpkg-deb; do
    command -v "$program" >/dev/null || { echo "root.sh: no $program here: this needs Debian or Ubuntu" >&2; exit 1; }
done
rm -rf "$folder"
mkdir -p "$folder"/{root/proc,apt/state/lists/partial,apt/cache/archives/partial}
: >"$folder/apt/status"

# apt with lists and a status of its own, in which nothing is installed.
apt() {
    local architecture=$1; shift
    apt-get -qq -o APT::Architecture="$architecture" -o APT::Architectures="$architecture" -o APT::Sandbox::User= \
        -o Dir::State="$folder/apt/state" -o Dir::State::status="$folder/apt/status" -o Dir::Cache="$folder/apt/cache" \
        -o Debug::NoLocking=1 "$@"
}

if ! emulator=$(command -v qemu-aarch64-static || command -v qemu-aarch64); then
    apt "$(dpkg --print-architecture)" update
    (cd "$folder/apt" && apt "$(dpkg --print-architecture)" download qemu-user-static)
    dpkg-deb --fsys-tarfile "$folder"/apt/qemu-user-static*.deb | tar -x -C "$folder" ./usr/bin/qemu-aarch64-static
    emulator=$folder/usr/bin/qemu-aarch64-static
fi
apt arm64 update
apt arm64 install --yes --no-install-recommends --download-only python3 libstdc++6 libgomp1
for package in "$folder"/apt/cache/archives/*.deb; do dpkg-deb --extract "$package" "$folder/root"; done
version=$(readlink "$folder/root/usr/bin/python3")

# What the project and its tests import. The others of its development tools have no part in running them.
"$python" -m pip install --quiet --no-input --disable-pip-version-check --no-compile --constraint constraints.txt \
    --target "$folder/root/usr/lib/python3/dist-packages" --only-binary=:all: --implementation cp \
    --python-version "${version#python}" --platform manylinux_2_28_aarch64 --platform manylinux_2_27_aarch64 \
    --platform manylinux_2_17_aarch64 --platform manylinux2014_aarch64 \
    matplotlib numba numpy rich threadpoolctl typer array-api-strict blis hypothesis jinja2 joblib ml_dtypes numkong opt_einsum polars pytest pytest-benchmark pytest-cov \
    pytest-timeout pytest-xdist scipy scipy-openblas32

# The processor is described by a file, since /proc is that of this system. A test that starts Python starts this script.
cp "$here/cpuinfo" "$folder/root/proc/cpuinfo"
cat >"$folder/python" <<END
#!/bin/sh
exec $emulator -cpu \${AARCH64_CPU:-max,sve-default-vector-length=32} -L $folder/root $folder/root/usr/bin/$version "\$@"
END
chmod +x "$folder/python"
echo "import sys; sys.executable = '$folder/python'" >"$folder/root/usr/lib/python3/dist-packages/aarch64_executable.pth"
rm -rf "$folder/apt"
