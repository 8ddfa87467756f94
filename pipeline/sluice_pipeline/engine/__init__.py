"""What happens to a batch between its source and its transaction: Spark runs the user's transformations and the
partial aggregation, and the keyed state is merged per task outside of it."""
