"""What was done to a model, written down: edit scripts people keep, and the journal that survives a crash.

Both hold the same steps as JSON lines. A script names things (so it fits a newer export of the same model), the
journal numbers them (so that writing costs the size of the change).
"""
