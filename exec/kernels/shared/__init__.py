"""What kernels of several operators share."""
