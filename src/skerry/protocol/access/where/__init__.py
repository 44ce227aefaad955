"""The condition language of filtered subscriptions.

lexer         the tokens of a text, and errors about it
parser        the syntax tree
values        the values of tokens for fields of a type
like_pattern  the patterns of `like`
filters       the filter that is transmitted
filter_tree   the tree of a received filter
"""
