"""The files of a replica, read without owning them: on a copy, or beside a running node.

The public names for the pipeline and for tools. `raftnode.storage` behind them is private: it
changes with the node. `raftnode.logformat` has what the files' bytes mean.
"""

from __future__ import annotations

from raftnode.storage.directory.formation import FILE_NAME as FORMATION_FILE
from raftnode.storage.directory.formation import read_latch
from raftnode.storage.directory.identity import LOG_DIRECTORY, read_identity
from raftnode.storage.directory.incarnation import FILE_NAME as INCARNATION_FILE
from raftnode.storage.directory.incarnation import read_incarnation
from raftnode.storage.directory.meta_properties import check_cluster_id
from raftnode.storage.directory.peer_starts import FILE_NAME as PEER_STARTS_FILE
from raftnode.storage.directory.peer_starts import read_marks
from raftnode.storage.directory.quorum_state import FILE_NAME as QUORUM_STATE_FILE
from raftnode.storage.files import File, FileOperationError, Files, OsCalls, Stat
from raftnode.storage.inspection.log_reader import FoundBatch, Piece, PieceReader, find_log
from raftnode.storage.log.checkpoints import (
    LOG_START_FILE,
    RECOVERY_POINT_FILE,
    read_log_start,
    read_recovery_point,
)
from raftnode.storage.log.control_places import FILE_NAME as CONTROL_PLACES_FILE
from raftnode.storage.log.control_places import read_control_places
from raftnode.storage.log.epoch_file import FILE_NAME as EPOCHS_FILE
from raftnode.storage.log.epoch_file import read_epochs
from raftnode.storage.segments.index_files import read_index
from raftnode.storage.segments.segment import Damage
from raftnode.storage.segments.window import Window
from raftnode.storage.snapshots.damaged_snapshots import DAMAGED_SUFFIX
from raftnode.storage.snapshots.snapshot_file import list_snapshots
from raftnode.storage.snapshots.snapshot_reader import SnapshotReader

__all__ = [
    "CONTROL_PLACES_FILE",
    "DAMAGED_SUFFIX",
    "EPOCHS_FILE",
    "FORMATION_FILE",
    "INCARNATION_FILE",
    "LOG_DIRECTORY",
    "LOG_START_FILE",
    "PEER_STARTS_FILE",
    "QUORUM_STATE_FILE",
    "RECOVERY_POINT_FILE",
    "Damage",
    "File",
    "FileOperationError",
    "Files",
    "FoundBatch",
    "OsCalls",
    "Piece",
    "PieceReader",
    "SnapshotReader",
    "Stat",
    "Window",
    "check_cluster_id",
    "find_log",
    "list_snapshots",
    "read_control_places",
    "read_epochs",
    "read_identity",
    "read_incarnation",
    "read_index",
    "read_latch",
    "read_log_start",
    "read_marks",
    "read_recovery_point",
]
