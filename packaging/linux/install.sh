#!/bin/sh
# Puts a bundle (the folder this script lies in, made by build.sh) into a person's own folders, or takes it out again.
#
#   ./install.sh             installs below ~/.local, or below $PREFIX
#   ./install.sh --remove    removes what that installed
set -eu
here=$(cd "$(dirname "$0")" && pwd)
prefix=${PREFIX:-$HOME/.local}
share=$prefix/share
target=$prefix/lib/onnx-workbench
files="$share/applications/onnx-workbench.desktop $share/mime/packages/onnx-workbench.xml \
$share/metainfo/io.github.onnx_workbench.metainfo.xml $prefix/bin/onnx-workbench"

refresh() { # let the desktop know; each of these may be missing
    update-desktop-database -q "$share/applications" 2>/dev/null || true
    update-mime-database "$share/mime" 2>/dev/null || true
    gtk-update-icon-cache -q -t "$share/icons/hicolor" 2>/dev/null || true
}

if [ "${1:-}" = --remove ]; then
    # shellcheck disable=SC2086 # one argument per file
    rm -f $files
    find "$share/icons/hicolor" \( -name 'onnx-workbench.*' -o -name 'application-x-onnx.*' \) -delete 2>/dev/null || true
    rm -rf "$target"
    refresh
    exit 0
fi

mkdir -p "$prefix/bin" "$share/applications" "$share/mime/packages" "$share/metainfo" "$target"
cp -R "$here/onnx-workbench/." "$target/"
ln -sf "$target/onnx-workbench" "$prefix/bin/onnx-workbench"
# The desktop need not have ~/.local/bin on its path, so the entry names the program in full.
sed "s#^Exec=onnx-workbench#Exec=$target/onnx-workbench#; s#^TryExec=.*#TryExec=$target/onnx-workbench#" \
    "$here/onnx-workbench.desktop" >"$share/applications/onnx-workbench.desktop"
cp "$here/onnx-workbench-mime.xml" "$share/mime/packages/onnx-workbench.xml"
cp "$here/io.github.onnx_workbench.metainfo.xml" "$share/metainfo/"
for picture in "$here"/icons/onnx-workbench-*.png; do
    size=$(basename "$picture" .png)
    size=${size##*-}
    for place in apps/onnx-workbench mimetypes/application-x-onnx; do
        mkdir -p "$share/icons/hicolor/${size}x$size/$(dirname "$place")"
        cp "$picture" "$share/icons/hicolor/${size}x$size/$place.png"
    done
done
for place in apps/onnx-workbench mimetypes/application-x-onnx; do
    mkdir -p "$share/icons/hicolor/scalable/$(dirname "$place")"
    cp "$here/icons/app.svg" "$share/icons/hicolor/scalable/$place.svg"
done
refresh
echo "Installed. Start it with $prefix/bin/onnx-workbench, or open an .onnx file."
