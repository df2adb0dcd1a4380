"""Quantization: ranges from calibration, what is quantized and what is kept in float, and the loss."""
