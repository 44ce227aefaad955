"""Encryption and authentication of the datagrams of a group.

seal              the interface of seals
group_keys        the keys of a group, and the key file
sealed_datagrams  the seal with group keys
"""
