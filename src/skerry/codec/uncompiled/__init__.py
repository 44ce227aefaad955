"""The classes of `codec.hot_loops` in Python, for the uncompiled build.

`hot_loops.pyx` has the same classes for the compiled build. Tests run both and compare.

layout         encodes, decodes and checks objects of one struct
frames         frames that wait to be sent, and the path of a published object to them
alike_frames   forwards a run of frames that differ only in their times
known_headers  finds headers that were received before by their bytes
relay          forwards frames with known headers, for the node
delivery       delivers frames with known headers to callbacks, for the client
"""
