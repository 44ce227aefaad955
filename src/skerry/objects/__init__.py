"""Python classes of types, and their objects.

base
    Struct, the base of all classes of structs.
enums
    The base of all classes of enums.
annotations, spec, declare
    Types that are declared as Python classes: annotations, field specifications, the decorator.
declared
    Checks a declared type by the rules of the type language.
classes
    Creates the classes of types, and caches them.
internal
    The classes of the internal types.
typeset
    A set of classes by name, from text of the type language.
names
    Python names for the names in types.
descriptors
    Types as descriptor objects, which are transmitted.
json, text, times
    Objects as JSON and as text; conversions of times.
generate, source
    Python modules and stubs for types.
"""
