; Inno Setup 6: an installer for one user, without administrator rights. Not tried on Windows yet.
;   ISCC.exe /DVersion=0.0.0 packaging\windows\installer.iss      after PyInstaller made dist\bundle\onnx-workbench
; The program is offered under Open With and does not replace another default program: keys of its own, and a value beside
; those of other programs in the keys of the file name extensions.
#ifndef Version
  #error Version is missing: ISCC.exe /DVersion=...
#endif

[Setup]
AppId={{6E1C1B1E-52F5-4C0B-9A55-0E8C7C1B7D42}
AppName=ONNX Workbench
AppVersion={#Version}
AppPublisher=The ONNX Workbench developers
DefaultDirName={autopf}\ONNX Workbench
DisableProgramGroupPage=yes
PrivilegesRequired=lowest
ArchitecturesAllowed=x64compatible
ArchitecturesInstallIn64BitMode=x64compatible
LicenseFile=..\..\LICENSE
SetupIconFile=..\..\resources\desktop\onnx-workbench.ico
UninstallDisplayIcon={app}\onnx-workbench.exe
OutputDir=..\..\dist
OutputBaseFilename=onnx-workbench-{#Version}-windows-x64
Compression=lzma2
SolidCompression=yes
WizardStyle=modern
ChangesAssociations=yes

[Files]
Source: "..\..\dist\bundle\onnx-workbench\*"; DestDir: "{app}"; Flags: recursesubdirs ignoreversion

[InstallDelete]
Type: filesandordirs; Name: "{app}\_internal"

[Icons]
Name: "{autoprograms}\ONNX Workbench"; Filename: "{app}\onnx-workbench.exe"

[Registry]
Root: HKA; Subkey: "Software\Classes\Applications\onnx-workbench.exe"; ValueType: string; ValueName: "FriendlyAppName"; ValueData: "ONNX Workbench"; Flags: uninsdeletekey
Root: HKA; Subkey: "Software\Classes\Applications\onnx-workbench.exe\shell\open\command"; ValueType: string; ValueData: """{app}\onnx-workbench.exe"" ""%1"""
Root: HKA; Subkey: "Software\Classes\Applications\onnx-workbench.exe\SupportedTypes"; ValueType: string; ValueName: ".onnx"; ValueData: ""
Root: HKA; Subkey: "Software\Classes\OnnxWorkbench.onnx.1"; ValueType: string; ValueData: "ONNX model"; Flags: uninsdeletekey
Root: HKA; Subkey: "Software\Classes\OnnxWorkbench.onnx.1\DefaultIcon"; ValueType: string; ValueData: "{app}\onnx-workbench.exe,0"
Root: HKA; Subkey: "Software\Classes\OnnxWorkbench.onnx.1\shell\open\command"; ValueType: string; ValueData: """{app}\onnx-workbench.exe"" ""%1"""
Root: HKA; Subkey: "Software\Classes\.onnx\OpenWithProgids"; ValueType: string; ValueName: "OnnxWorkbench.onnx.1"; ValueData: ""; Flags: uninsdeletevalue
Root: HKA; Subkey: "Software\Classes\Applications\onnx-workbench.exe\SupportedTypes"; ValueType: string; ValueName: ".onnxtxt"; ValueData: ""
Root: HKA; Subkey: "Software\Classes\OnnxWorkbench.onnxtxt.1"; ValueType: string; ValueData: "ONNX model as text"; Flags: uninsdeletekey
Root: HKA; Subkey: "Software\Classes\OnnxWorkbench.onnxtxt.1\DefaultIcon"; ValueType: string; ValueData: "{app}\onnx-workbench.exe,0"
Root: HKA; Subkey: "Software\Classes\OnnxWorkbench.onnxtxt.1\shell\open\command"; ValueType: string; ValueData: """{app}\onnx-workbench.exe"" ""%1"""
Root: HKA; Subkey: "Software\Classes\.onnxtxt\OpenWithProgids"; ValueType: string; ValueName: "OnnxWorkbench.onnxtxt.1"; ValueData: ""; Flags: uninsdeletevalue

[Run]
Filename: "{app}\onnx-workbench.exe"; Description: "Start ONNX Workbench"; Flags: postinstall nowait skipifsilent
