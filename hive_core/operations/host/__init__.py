"""Operations on the host as a whole: status, metrics, jobs, convergence."""
