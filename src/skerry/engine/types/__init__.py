"""The types of a node: which definitions clients sent, and the one that is served.

type_table            all types of a node, and the topics of those in use
type_descriptions     type descriptions that clients send and request
definitions           the definitions of each type and the clients that use them
definition_conflicts  whether a new definition is compatible with those in use
served_types          the union of the accepted definitions of each type, and its served form
unused_types          the limits of how many types are kept, and the removal of unused ones
projections           how objects are projected for clients whose definition differs from the served
                      one
scopes                which types are distributed to other nodes
"""
