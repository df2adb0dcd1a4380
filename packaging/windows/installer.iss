; Inno Setup 6: an installer for one user, without administrator rights. Not tried on Windows yet.
;   ISCC.exe /DVersion=0.0.0 packaging\windows\installer.iss      after PyInstaller made dist\bundle\onnx-workbench
; The program registers and unregisters its file types itself, in keys of its own: viewer/core/desktop.py.
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

[Run]
Filename: "{app}\onnx-workbench.exe"; Parameters: "--register"; Flags: runhidden
Filename: "{app}\onnx-workbench.exe"; Description: "Start ONNX Workbench"; Flags: postinstall nowait skipifsilent

[UninstallRun]
Filename: "{app}\onnx-workbench.exe"; Parameters: "--unregister"; Flags: runhidden; RunOnceId: "unregister"
