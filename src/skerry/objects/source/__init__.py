"""Generates the Python source of types.

module        the class of a type in a module
stub          the class of a type in a stub
defaults      the default of a field
source_names  the names in the source
layout        literals, and the layout of lines
"""
