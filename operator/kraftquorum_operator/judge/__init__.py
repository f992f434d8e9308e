"""What the facts mean. Pure.

- `trust`: which voters count in a majority;
- `copies`: volumes that were restored from a copy; `disks`: corruption and little space;
- `volume_growth`: the sizes of the volumes, and which of them grow;
- `scale_up`: whether a scale-up is stuck, or waits for a roll;
- `given_up`: volumes that the operator has given up; `log_size`: logs that outgrow their volumes;
- `certificates`: whether certificates are valid; `leaves`: what each must have; `expiry`: when they
  and their CAs expire, and which should have been replaced; `cert_manager`: what cert-manager
  issues, and why it does not; `renewal`: what it is to issue again; `ignored_annotations`: those
  that `spec.tls.mode` ignores;
- `access`: whether the access file can be made, and which nodes have it in force.

A disk that is lost needs no judgement: another directory id answers, or the claim is gone
(`Observation.is_storage_gone`), and `plan.replacement` replaces the voter.
"""
