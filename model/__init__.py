"""The editable ONNX model: what it is, how it is read, changed and written. Knows no Qt and no kernels."""
