"""Titles of choices whose values are kept in settings or compared in the code."""

from __future__ import annotations

_TITLES = {
    "system": "System",
    "light": "Light",
    "dark": "Dark",
    "contrast": "Contrast",
    "down": "Down",
    "right": "Right",
    "large": "Large",
    "always": "Always",
    "never": "Never",
    "none": "None",
    "range": "Range",
    "magnitude": "Magnitude",
    "mean": "Mean",
    "zeros": "Zeros",
    "histogram": "Histogram",
    "automatic": "Automatic",
    "Table": "Table",
    "Heat map": "Heat map",
    "Feature maps": "Feature maps",
    "Attention": "Attention",
    "Image": "Image",
    "Lines": "Lines",
    "Text": "Text",
    "Tree": "Tree",
    "4 decimals": "4 decimals",
    "scientific": "Scientific",
    "in full": "In full",
    "hexadecimal": "Hexadecimal",
    "fit range": "Fit range",
    "0 to 1": "0 to 1",
    "-1 to 1": "-1 to 1",
    "0 to 255": "0 to 255",
    "first": "First",
    "second": "Second",
    "third": "Third",
    "node names": "Node names",
    "value names": "Value names",
    "operator types": "Operator types",
    "attribute names": "Attribute names",
    "attribute values": "Attribute values",
    "texts": "Texts",
    "error": "error",
    "warning": "warning",
    "info": "note",
    "rows": "rows",
    "columns": "columns",
    "initialization": "Initialization",
    "algorithm": "Algorithm",
}


def choice_title(choice: str) -> str:
    """Return the title of a choice: itself, where it is a number or a name."""
    return _TITLES.get(choice, choice)
