"""Plots painted by ourselves: pictures of matrices, histograms and lines. They know arrays, not models."""
