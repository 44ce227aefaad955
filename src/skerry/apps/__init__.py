"""Programs, assembled from the packages below; each is started by a command of `skerry.cli`.

node/               the node: configuration, listeners, storage, multicast, self-recording
portal/             a portal, and the mapping between portals and spaces
recorder/           writes the updates of a node or a group into a recording
replayer/           plays a recording back
portal/             a broker for Goby programs
demo/               the guided tour
doctor/             checks of this computer
system_watch        nodes of a system, the links between them, and what is wrong
top                 clients, types, rates and ledger of a node
node_bench          benchmark of a node
distributor_bench   benchmark of the distributor
"""
