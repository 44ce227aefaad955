"""The recorder (`skerry record`): writes the updates of a node or a group into a recording.

config           section `recorder` of the configuration
program          Recorder: connects the parts, and ends them in order
node_source      a node as a source of updates
node_rows        rows of updates from a node (hot)
gap_tracker      gaps and removals after a lost connection
group_source     a multicast group as a source of updates
group_rows       rows of updates from a group (hot)
recorded_types   the types of recorded objects
link_rows        rows about link quality
row_queue        the bounded queue between sources and the writing thread
writing_thread   writes batches into the recording, and retries
"""
