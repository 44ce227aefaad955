"""Types: the language in which they are written, the model of them, and how they change.

model        StructType, EnumType, Field: immutable values from which everything else is made
fingerprint  one number for everything in a definition that is transmitted
registry     the types that a program knows, by name
internal     the internal types, which every program knows

language/    text to syntax trees, and problems beside their source
rules/       syntax trees to types: the rules of the language
check        all rules on the definitions of a program, in the order of their use
loading      files to types; follows imports
writer       types to text
formatter    syntax trees to text in the standard layout

changes      the kinds of change, and the effect of each on readers
reading      what a reader with one type gets from values of another type
evolve       compares two definitions or two sets of types
renames      finds types that were renamed
union        the union of compatible definitions
"""
