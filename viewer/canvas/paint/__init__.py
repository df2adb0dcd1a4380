"""Painting a scene: on the screen, or with any other painter of Qt."""
