"""The distributor for applications: connections to multicast groups, publishers and subscribers."""
