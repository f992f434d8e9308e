#!/opt/kraftquorum/bin/python3
"""`spark-submit` in the image `pipeline`, which has no shell for Spark's own."""

from kraftquorum_pipeline.launch import submit

submit()
