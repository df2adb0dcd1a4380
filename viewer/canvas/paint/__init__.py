"""Painting a scene: on the screen, as SVG, PNG and PDF."""
