"""The files of a recording: identity, segments and manifest, local and remote.

folders            the folder of a recording: identity, file names, the lock of the writer
new_files          files that appear under their name when they are complete
remote_paths       files in object stores and cluster file systems
segment_files      writes the file of a segment, and reads batches of local and remote ones
manifest           the manifest of a local folder
remote_manifest    the manifest at a remote path
unlisted_segments  lists segments that a crash left or that were copied
retention          drops old segments
followers          which programs follow a recording
"""
