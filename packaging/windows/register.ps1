# Offers ONNX Workbench for .onnx files to the person who runs this, without taking them from another program.
#
#   .\register.ps1            registers onnx-workbench.exe that lies beside this script
#   .\register.ps1 -Remove    takes that back
param([switch]$Remove)
$ErrorActionPreference = "Stop"
$program = Join-Path $PSScriptRoot "onnx-workbench.exe"
$classes = "HKCU:\Software\Classes"
$type = "OnnxWorkbench.onnx.1"
$application = "$classes\Applications\onnx-workbench.exe"

if ($Remove) {
    Remove-Item -Recurse -Force -ErrorAction SilentlyContinue "$classes\$type", $application
    Remove-ItemProperty -ErrorAction SilentlyContinue -Path "$classes\.onnx\OpenWithProgids" -Name $type
} else {
    foreach ($key in "$classes\$type\DefaultIcon", "$classes\$type\shell\open\command", "$classes\.onnx\OpenWithProgids",
                     "$application\SupportedTypes", "$application\shell\open\command") {
        New-Item -Force -Path $key | Out-Null
    }
    Set-Item -Path "$classes\$type" -Value "ONNX model"
    Set-Item -Path "$classes\$type\DefaultIcon" -Value "`"$program`",0"
    Set-Item -Path "$classes\$type\shell\open\command" -Value "`"$program`" `"%1`""
    Set-Item -Path "$application\shell\open\command" -Value "`"$program`" `"%1`""
    New-ItemProperty -Force -Path "$classes\.onnx\OpenWithProgids" -Name $type -Value "" | Out-Null
    New-ItemProperty -Force -Path "$application\SupportedTypes" -Name ".onnx" -Value "" | Out-Null
}

# Tell the shell that associations changed.
Add-Type -Namespace Native -Name Shell -MemberDefinition `
    '[DllImport("shell32.dll")] public static extern void SHChangeNotify(int id, uint flags, IntPtr a, IntPtr b);'
[Native.Shell]::SHChangeNotify(0x08000000, 0, [IntPtr]::Zero, [IntPtr]::Zero)
