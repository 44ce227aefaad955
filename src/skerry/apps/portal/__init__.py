"""The portal as a program (`skerry portal run`), and as a part of a node.

config    section `portal` of the configuration, and the files of Goby's daemon
service   the broker, and the broker as a program of Goby
pages     metrics and health
program   run_portal: until a signal, or a request of a Goby program to terminate
"""
