"""Real services as plain processes of this machine: for the demo, the tests, and a user's laptop.

Nothing here is a mock, nothing listens beyond loopback, and nothing outlives the process that started it.
"""
