"""The history of quorums as one page that needs nothing else: no network, no other file.

`figures` asks Spark for figures that are small whatever the log's size, `model` holds them,
`charts` draws them over `svg`, and `page` puts them together. Only `figures` knows Spark.
"""
