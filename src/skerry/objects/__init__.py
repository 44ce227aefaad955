"""Python classes of types, and their objects.

base         Struct, the base of all classes of structs
enums        the base of all classes of enums
declare      types that are declared as Python classes
annotations  annotations of declared fields, and their types
spec         the specification of a declared field
declared     checks a declared type by the rules of the type language
classes      creates the classes of types, and caches them
internal     the classes of the internal types
typeset      a set of classes by name, from text of the type language
names        Python names for names in types
descriptors  types as descriptor objects, which are transmitted
json         objects as JSON
tables       objects as dictionaries, Arrow tables, data frames and HTML
text         objects as text
times        conversions of times
generate     generates Python modules and stubs for types
source       the source of one class in a generated module
"""
