"""The loop of each application: what wakes it, what it looks at, what it carries out, what it says in events."""
