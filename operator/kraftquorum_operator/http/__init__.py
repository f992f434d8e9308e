"""What the operator serves: metrics and the status page.

- `page`: the status page; `metrics_page`: `/metrics`; `access`: who may read it;
- `listener`, `tls_listener`: connections and their limits; `serving_certificate`: its certificate.
"""
