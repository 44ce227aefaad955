"""The type language: text to syntax trees.

lexer     text to tokens
cursor    a position in the tokens: expecting, skipping, and assigning comments to items
syntax    the syntax tree, with comments
parser    tokens to syntax tree
problems  collects faults, and renders them beside their source
"""
