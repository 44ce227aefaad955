"""Encryption and authentication of datagrams with the keys of a group, for all protocols of UDP.

Each protocol has its own layout of sealed datagrams. What they share is here.

group_keys  the keys of a group, and the key file
seal        the interface of seals
sealer      the ciphers of senders, and the encryption of what one sender sends
opener      decrypts what is received, and refuses what is forged, old or repeated
"""
