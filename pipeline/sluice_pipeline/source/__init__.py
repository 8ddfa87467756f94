"""Where a subtopology's records come from: a seam with two sides, `ConsumerSource` for a local Spark master and
`SparkSource` for a cluster's."""
