"""The command line: `skerry <thing> <verb>`, one module or package per command.

main           entry point, which imports almost nothing
program        the group `skerry`: finds and runs a command, reports errors, exit codes
lazy_group     groups that import a command when it is called
output         data to stdout, messages to stderr; `--json`
parameters     parameter types of options, and errors about invalid values
node_options   options of commands that connect to a node
group_options  options of commands that use a multicast group
saved_contexts contexts of the user: nodes under names
input          standard input and `--data`
given_fields   objects from FIELD=VALUE
rows           objects and events as text, in a chosen format, or JSON
following      what a command subscribes to, with warnings about likely mistakes
measuring      what `hz`, `bw` and `delay` share
progress       progress bars
keys           keys of a terminal
stopping       SIGINT and SIGTERM as stop requests

node           `node run`
context        save nodes under names, and select one
pub, get, sub  publish, print and subscribe to objects of a node
request        send a request to another program
hz, bw, delay  rate, bandwidth and age of the updates of a type or a subject
bench          measure a node
top, picture   monitor a node; show the nodes of its system
top_screen     the screen of `top`
types/         check, format, show, compare and generate types; list those of a node
portal/        run a portal for Goby programs, be a client of one, work with Goby logs
distributor    publish, subscribe and measure by multicast
portal/        run a broker for Goby programs, end them, and watch their health
record/        record a space, and work with recordings
replay         play a recording back
pipeline/      turn recordings into tables, and query them
sql            query the tables in SQL
sim            run simulated systems
demo, doctor   guided tour; check of this computer
config         show the configuration
completion     completion scripts of shells
version        versions of skerry and Python
"""
