"""Generates the Python source of types.

module
    The class of a type in a module.
stub
    The class of a type in a stub.
defaults
    The default of a field.
source_names
    The names in the source.
layout
    Literals, and the layout of lines.
"""
