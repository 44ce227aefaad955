"""The types of a node: which definitions clients sent, and the one that is served.

type_table
: All types of a node, and the topics of those in use.
type_descriptions
: Type descriptions that clients send and request.
definitions
: The definitions of each type and the clients that use them.
definition_conflicts
: Whether a new definition is compatible with those in use.
served_types
: The union of the accepted definitions of each type, and its served form.
unused_types
: The limits of how many types are kept, and the removal of unused ones.
projections
: How objects are projected for clients whose definition differs from the served one.
scopes
: Which types are distributed to other nodes.
"""
