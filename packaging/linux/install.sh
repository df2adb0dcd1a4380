#!/bin/sh
# Installs the program of this folder (made by build.py) for one user, or removes it again.
#
#   ./install.sh             installs below ~/.local, or below $PREFIX
#   ./install.sh --remove    removes what that installed
set -eu
here=$(cd "$(dirname "$0")" && pwd)
prefix=${PREFIX:-$HOME/.local}
target=$prefix/lib/onnx-workbench
export XDG_DATA_HOME="$prefix/share"

if [ "${1:-}" = --remove ]; then
    [ -x "$target/onnx-workbench" ] && "$target/onnx-workbench" --unregister
    rm -rf "$target" "$prefix/bin/onnx-workbench"
    exit 0
fi

rm -rf "$target" # what an older version had must not stay
mkdir -p "$prefix/bin" "$target"
cp -R "$here/onnx-workbench/." "$target/"
ln -sf "$target/onnx-workbench" "$prefix/bin/onnx-workbench"
"$target/onnx-workbench" --register
echo "Installed. Start it with $prefix/bin/onnx-workbench, or open an .onnx file."
