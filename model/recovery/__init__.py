"""The crash journal: every edit on disk as it is made, and recovering what a program that died left behind."""
