"""The rules of the type language, from syntax trees to types.

building   builds one type, with the rules about its parts
typenames  resolves the names of types
options    the meaning of options in brackets
defaults   whether a default fits the type of its field
usage      rules about imports, packages, documentation and keys
"""
