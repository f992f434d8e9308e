"""Reading the files of a log without owning it: for the tools, the scrub and the pipeline."""
