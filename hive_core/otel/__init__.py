"""hive-otel: sends what agents did as traces of OpenTelemetry."""
