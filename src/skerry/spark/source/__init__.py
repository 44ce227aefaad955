"""Reads recordings as rows of Spark.

- `data_source`: the data source `skerry`
- `options`: its options
- `planning`: plans which batches of which segments each task reads
- `reading`: reads the rows of a task
- `columnar_decoder`: decodes many payloads at once
- `payload_decoder`: decodes one payload; defines the rules
- `stream_source`: streams: offsets and the segments of each batch
"""
