"""What people write down: settings, configurations of agents, and what is judged of them."""
