"""Programs that load a service while another one is measured, each a process of its own."""
