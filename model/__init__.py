"""The editable ONNX model: its objects, and how they are read, changed and written. Imports neither Qt nor kernels."""
