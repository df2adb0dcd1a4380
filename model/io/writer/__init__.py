"""Write models: unedited content is copied, and files are replaced atomically."""
