"""What topics a topology needs: the plan is pure, `admin` asks and tells Kafka."""
