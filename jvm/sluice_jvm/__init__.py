"""Everything that a part needs of the Java side: a Java, jars, a running JVM.

It imports nothing of ours, and PySpark only to train: the devkit starts brokers with it, the worker Spark's JVM.
"""
