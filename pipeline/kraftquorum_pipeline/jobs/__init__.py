"""The jobs behind the commands: functions of a Spark session, without a command line.

- `export`, `sink`: the log as Parquet, or in another format;
- `history`: the history of a quorum, as tables;
- `count`: compares an export with a client's account of its writes;
- `restore`: compares the state in files with a running quorum;
- `storage`, `sync`, `claim`: the directories of an export, their way to the disk, and their one
  writer.
"""
