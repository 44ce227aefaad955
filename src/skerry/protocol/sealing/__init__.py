"""Encryption and authentication of datagrams with the keys of a group, for all protocols of UDP.

Each protocol has its own layout of sealed datagrams. What they share is here.

group_keys      the keys of a group, and the key file
seal            the interface of seals
sender_ciphers  the cipher of one sender, derived from a key of the group
sealer          encrypts what one sender sends
opener          decrypts what is received, and refuses what is forged, old or repeated
replay_window   the recent counters of one sender
"""
