"""The guided tour (`skerry demo`): a node, programs that use it, and failures, with checks.

tour              the steps of the tour, and the guarantees that it checks
processes         the processes of the tour and their temporary folder
programs          the programs: fleet, collision alarm, pilot, slow display
fleet             types and movements of the vessels, and alarms for those too close
system            three nodes of a system, of which one is killed
history           recording, tables and report of the tour
"""
