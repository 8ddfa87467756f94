"""The worker process: it tells the coordinator what it has, carries out what it is told, and runs its tasks' loops."""
