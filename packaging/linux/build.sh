#!/bin/sh
# Builds dist/onnx-workbench-linux.tar.gz: the program with its own Python and Qt, and install.sh. Run it on the oldest
# system it is to start on, in an environment with the project and PyInstaller installed.
set -eu
cd "$(dirname "$0")/../.."
python=${PYTHON:-python3}
"$python" -m PyInstaller --noconfirm --distpath dist/bundle --workpath build/pyinstaller packaging/onnx_workbench.spec
folder=dist/onnx-workbench-linux
rm -rf "$folder"
mkdir -p "$folder"
mv dist/bundle/onnx-workbench "$folder/"
cp packaging/linux/install.sh packaging/linux/onnx-workbench.desktop packaging/linux/onnx-workbench-mime.xml \
    packaging/linux/io.github.onnx_workbench.metainfo.xml LICENSE "$folder/"
cp -R packaging/linux/icons "$folder/"
cp resources/icons/app.svg "$folder/icons/"
# A bundle can be broken in ways its building does not show, so it is started before it is packed.
"$folder/onnx-workbench/onnx-workbench" info resources/sample/digits.onnx >/dev/null
QT_QPA_PLATFORM=offscreen "$folder/onnx-workbench/onnx-workbench" render resources/sample/digits.onnx -o build/started.svg
QT_QPA_PLATFORM=offscreen timeout 10 "$folder/onnx-workbench/onnx-workbench" --sample && status=0 || status=$?
[ "$status" -eq 124 ] || { echo "the bundle did not stay open: exit status $status"; exit 1; }
tar -C dist -czf dist/onnx-workbench-linux.tar.gz onnx-workbench-linux
du -sh "$folder" dist/onnx-workbench-linux.tar.gz
