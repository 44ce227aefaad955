"""The programs of a vehicle: their health, and requests to terminate them.

program_messages  the messages of both
program_answers   how a program answers
coroner           asks all programs for their health
terminator        asks programs to terminate, and finds out whether they do
"""
