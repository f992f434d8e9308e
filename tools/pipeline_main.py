"""The commands of `kraftquorum-pipeline` as a file, which is what `spark-submit` takes."""

from kraftquorum_pipeline.cli import main

if __name__ == "__main__":
    main()
