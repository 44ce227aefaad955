"""Types: the language in which they are written, the model of them, and how they change.

The model:

model
: StructType, EnumType, Field: immutable values from which everything else is made.
fingerprint
: One number for everything in a definition that is transmitted.
registry
: The types that a program knows, by name.
internal
: The internal types, which every program knows.
dots_types
: The text of those internal types that belong to the DOTS wire.

From text to model:

lexer
: Text to tokens.
cursor
: A position in the tokens: expecting, skipping, and assigning comments to items.
syntax
: The syntax tree, with comments.
parser
: Tokens to syntax tree.
problems
: Collects faults, and renders them beside their source.
check
: Syntax trees to model types: applies all rules.
needs
: Sorts definitions so that each follows those it uses.
building
: Builds one type, with the rules about its parts.
typenames
: Resolves the names of types.
options
: The meaning of options in brackets.
defaults
: Whether a default fits the type of its field.
usage
: Rules about imports, packages, documentation and keys.
loading
: Files to types; follows imports.

From model or syntax tree to text:

writer
: Model types to text.
formatter
: Syntax trees to text in the standard layout.

How types change:

changes
: The kinds of change, and the effect of each on readers.
reading
: What a reader with one type gets from values of another type.
evolve
: Compares two definitions or two sets of types.
renames
: Finds types that were renamed.
union
: The union of compatible definitions.
"""
