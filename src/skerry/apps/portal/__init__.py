"""The portal as a program (`skerry portal run`), and as a part of a node.

config          section `portal` of the configuration, and the files of Goby's daemon
mapping_config  section `portal.mapping`
service         the broker, and the broker as a program of Goby
mapper          a mapping between portal and space that runs
log_player      plays a Goby log in a portal
pages           metrics and health
program         run_portal: until a signal, or a request of a Goby program to terminate
"""
