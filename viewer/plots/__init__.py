"""Plot widgets: pictures of matrices, histograms and lines. Independent of models."""
