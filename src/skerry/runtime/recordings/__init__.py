"""Recordings in folders and at remote paths: writing, reading, copying and checking them.

config        configuration of a recording
writer        writes a recording
resume_point  where the next recorder continues
reader        reads recordings, segments and batches
updates       the updates of recordings, merged in order, also those of a time range
info          summary of the content
verify        verifies a recording against its manifest
copying       makes new recordings: a part of one, or several merged without filled gaps
uploads       copies recordings to remote paths
exports       exports recordings as JSON lines, MCAP and records of DOTS programs
imports       makes recordings of Goby logs and of records of DOTS programs
files         the files of a recording: folders, segments, manifest
"""
