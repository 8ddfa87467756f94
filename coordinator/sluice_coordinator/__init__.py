"""The coordinator: everything that decides and knows nothing of Kubernetes.

`group` decides who is a member and who holds which task, `topics` what topics a topology needs; both are pure cores.
`fencing`, `topics.admin`, `driver`, `server` and `main` carry out what they decide.
"""
