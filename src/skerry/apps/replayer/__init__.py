"""The replayer (`skerry replay`): publishes the updates of a recording again.

program        Replayer: reads rows, waits until they are due, and publishes them
pacing         when each update is due: speed, pause, step, loop
targets        the interface of targets
node_target    publishes to a node
group_target   publishes to a multicast group
"""
