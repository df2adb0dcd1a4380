"""Every rule of the ONNX IR specification and of operator signatures."""
