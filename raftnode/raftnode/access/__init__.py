"""Who may do what on a node: the access file, and the decision on each request.

- `roles`: what a subject may be granted, and what each kind of request needs;
- `document`: the access file as text, checked strictly; `yaml_text`: where it is YAML;
- `access_list`: the same, ready to be asked; what a request presents, and whose it is;
- `service_accounts`: tokens of Kubernetes ServiceAccounts, checked with the cluster's keys;
- `audit_log`: a line for each change and for refusals; `audit_writer`: the thread that writes them;
- `access_file`: a file that is followed as it changes.

Apart from the two files the package is pure: values in, a decision out. `authorization` in
`raftnode.api` applies it to requests and sessions.
"""
